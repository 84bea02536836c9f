//! The lines that the demo prints on stderr while it runs.

use std::time::Instant;

use crate::terminal::{Colour, Paint, say};

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Begins,
    Waits,
    Done,
    Failed,
    /// An action of the demo itself.
    Demo,
}

impl Mark {
    fn look(self, paint: Paint) -> String {
        let (unicode, ascii, colour) = match self {
            Self::Begins => ("▸", ">", Colour::Cyan),
            Self::Waits => ("…", "~", Colour::Yellow),
            Self::Done => ("✓", "+", Colour::Green),
            Self::Failed => ("✗", "x", Colour::Red),
            Self::Demo => ("→", "$", Colour::Magenta),
        };
        paint.with(colour, paint.sign(unicode, ascii))
    }
}

#[derive(Debug)]
pub(super) struct Screen {
    pub(super) paint: Paint,
    start: Instant,
}

impl Screen {
    /// The elapsed time starts here.
    pub(super) fn new(paint: Paint) -> Self {
        Self { paint, start: Instant::now() }
    }

    /// Prints an event that has just happened.
    pub(super) fn line(&self, mark: Mark, name: &str, what: &str) {
        let seconds = format!("{:5.2} s", self.start.elapsed().as_secs_f64());
        let sign = mark.look(self.paint);
        let what = if mark == Mark::Failed { self.paint.with(Colour::Red, what) } else { what.to_owned() };
        say(&format!("  {}  {sign} {name:14} {what}", self.paint.with(Colour::Dim, &seconds)));
    }

    pub(super) fn heading(&self, text: &str) {
        say(&format!("\n  {}\n", self.paint.with(Colour::Bold, text)));
    }

    pub(super) fn plain(&self, text: &str) {
        say(&format!("  {text}"));
    }
}
