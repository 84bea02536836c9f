//! The output of commands. Data goes to stdout, as tables or as JSON; everything else goes to stderr.
//!
//! - `table`, `pretty`, `words`: tables, JSON, times and texts.
//! - `event`, `timeline`: an execution's history, line by line and as bars.
//! - `facts`, `waiting`: one object with its properties; why it does not run.
//! - `bar`: progress while waiting.

pub(crate) mod bar;
pub(crate) mod event;
pub(crate) mod facts;
pub(crate) mod pretty;
pub(crate) mod table;
pub(crate) mod timeline;
mod waiting;
pub(crate) mod words;

use std::borrow::Cow;
use std::io::{ErrorKind, Write};

use clap::ValueEnum;
use serde_json::value::RawValue;

pub(crate) use self::words::printable_lines;
use crate::exit::{Exit, Failure};
use crate::terminal::{Colour, Paint, say};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // For people. Not a doc comment: that would make the help of every command much longer.
    Table,
    // For programs: the server's answer; when following, one value per line.
    Json,
}

/// Where data is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    format: Format,
    pub(crate) paint: Paint,
    /// The width of the terminal. `None`: stdout is not a terminal.
    pub(crate) width: Option<usize>,
    is_terminal: bool,
}

impl Out {
    pub(crate) fn new(format: Format) -> Self {
        let terminal = console::Term::stdout();
        let width = terminal.size_checked().map(|(_, columns)| usize::from(columns));
        Self { format, paint: Paint::for_stdout(), width, is_terminal: terminal.is_term() }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        self.text(&format!("{text}\n"))
    }

    /// Prints part of a line, or several lines.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::new(Exit::Unread, ""),
            _ => Failure::from(format!("cannot write to stdout: {error}")),
        })
    }

    pub(crate) fn lines(&self, lines: &[String]) -> Result<(), Failure> {
        if lines.is_empty() { Ok(()) } else { self.line(&lines.join("\n")) }
    }

    /// Prints one value on several lines.
    pub(crate) fn json(&self, value: &RawValue) -> Result<(), Failure> {
        self.line(&pretty::indented(value.get()))
    }

    /// Values exactly as the server sent them. For a terminal, control characters are escaped.
    pub(crate) fn verbatim<'a>(&self, values: impl Iterator<Item = &'a RawValue>) -> String {
        let value = |value: &'a RawValue| match self.is_terminal {
            true => Cow::Owned(pretty::one_line(value.get())),
            false => Cow::Borrowed(value.get()),
        };
        values.map(value).collect::<Vec<_>>().join(",\n")
    }

    /// Prints one of many values on one line.
    pub(crate) fn json_line(&self, value: &RawValue) -> Result<(), Failure> {
        self.line(&pretty::one_line(value.get()))
    }

    /// Prints the result of an action whose answer has no content.
    pub(crate) fn done(&self, json: &serde_json::Value, words: &str) -> Result<(), Failure> {
        if self.is_json() {
            return self.line(&pretty::indented(&json.to_string()));
        }
        note(words);
        Ok(())
    }
}

/// Prints a message that is not data, on stderr.
pub(crate) fn note(text: &str) {
    say(&printable_lines(text));
}

/// The colour of a status of an execution, a task or an attempt.
pub(crate) fn status_colour(status: &str) -> Option<Colour> {
    match status {
        "COMPLETED" => Some(Colour::Green),
        "FAILED" | "TIMEOUT" => Some(Colour::Red),
        "CANCELLED" => Some(Colour::Magenta),
        "RUNNING" => Some(Colour::Cyan),
        "WAITING" => Some(Colour::Yellow),
        _ => None,
    }
}
