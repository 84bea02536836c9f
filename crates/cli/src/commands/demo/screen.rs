//! What the demo says while it runs, line by line, on stderr.

use std::time::Instant;

use crate::terminal::{Colour, Paint};

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Begins,
    Waits,
    Done,
    Failed,
    /// The demo itself does something.
    Demo,
}

impl Mark {
    fn look(self) -> (&'static str, Colour) {
        match self {
            Self::Begins => ("▸", Colour::Cyan),
            Self::Waits => ("…", Colour::Yellow),
            Self::Done => ("✓", Colour::Green),
            Self::Failed => ("✗", Colour::Red),
            Self::Demo => ("→", Colour::Magenta),
        }
    }
}

#[derive(Debug)]
pub(super) struct Screen {
    pub(super) paint: Paint,
    start: Instant,
}

impl Screen {
    /// Time counts from here.
    pub(super) fn new(paint: Paint) -> Self {
        Self { paint, start: Instant::now() }
    }

    /// Something that has just happened.
    pub(super) fn line(&self, mark: Mark, name: &str, what: &str) {
        let seconds = format!("{:5.2} s", self.start.elapsed().as_secs_f64());
        let (sign, colour) = mark.look();
        let sign = self.paint.with(colour, sign);
        let what = if mark == Mark::Failed { self.paint.with(colour, what) } else { what.to_owned() };
        eprintln!("  {}  {sign} {name:14} {what}", self.paint.with(Colour::Dim, &seconds));
    }

    pub(super) fn heading(&self, text: &str) {
        eprintln!("\n  {}\n", self.paint.with(Colour::Bold, text));
    }

    pub(super) fn plain(&self, text: &str) {
        eprintln!("  {text}");
    }
}
