//! Formats one object with its properties, one per line, and the live lines of a task.

use serde_json::value::RawValue;

use super::pretty;
use super::words::{moment, printable};
use crate::client::answers::{LogLine, Task};
use crate::terminal::{Colour, Paint};

/// Width of the property names.
const NAME: usize = 11;
/// JSON that is shorter than this stays on one line.
const SHORT: usize = 100;

#[derive(Debug)]
pub(crate) struct Facts {
    title: String,
    status: String,
    colour: Option<Colour>,
    facts: Vec<(&'static str, String)>,
}

impl Facts {
    pub(crate) fn new(title: &str, status: &str, colour: Option<Colour>) -> Self {
        Self { title: printable(title), status: printable(status), colour, facts: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: &'static str, text: &str) {
        // A text with several lines, such as a stack trace, keeps its lines.
        let lines: Vec<String> = text.lines().map(printable).collect();
        self.facts.push((name, lines.join(&indent())));
    }

    /// Adds a property unless its text is `None`.
    pub(crate) fn add_some(&mut self, name: &'static str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.add(name, text);
        }
    }

    pub(crate) fn add_json(&mut self, name: &'static str, json: Option<&RawValue>) {
        let Some(json) = json else { return };
        let short = pretty::one_line(json.get());
        let text = match short.chars().count() {
            ..SHORT => short,
            _ => pretty::indented(json.get()).replace('\n', &indent()),
        };
        self.facts.push((name, text));
    }

    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        let status =
            self.colour.map_or_else(|| self.status.clone(), |colour| paint.with(colour, &self.status));
        let mut lines = vec![format!("{}  {status}", paint.with(Colour::Bold, &self.title))];
        let fact = |(name, text): &(&str, String)| {
            format!("  {}{text}", paint.with(Colour::Dim, &format!("{name:NAME$}")))
        };
        lines.extend(self.facts.iter().map(fact));
        lines
    }
}

fn indent() -> String {
    format!("\n{}", " ".repeat(NAME + 2))
}

/// The state of a task on one line.
pub(crate) fn state_line(task: &Task) -> String {
    let attempt = format!("attempt {}", task.execution_count);
    let about = match task.status.as_str() {
        "RUNNING" => {
            let details = task.progress_details.as_deref().unwrap_or_default();
            format!("{attempt}  {:.0} %  {details}", task.progress * 100.0)
        }
        "PENDING" if task.execution_count > 0 => {
            format!("{attempt} failed: {}", task.error.as_deref().unwrap_or_default())
        }
        "FAILED" => task.error.clone().unwrap_or_default(),
        _ => String::new(),
    };
    format!("{}  {}", task.status, printable(&about)).trim_end().to_owned()
}

/// A line of a task's log.
pub(crate) fn log_line(line: &LogLine, paint: Paint) -> String {
    let level = format!("{:5}", line.level);
    let level = match line.level.as_str() {
        "ERROR" => paint.with(Colour::Red, &level),
        "WARN" => paint.with(Colour::Yellow, &level),
        "DEBUG" => paint.with(Colour::Dim, &level),
        _ => level,
    };
    let time = paint.with(Colour::Dim, &moment(line.time_ms));
    format!("{time}  {level}  {}", printable(&line.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_stand_below_each_other() {
        let mut facts = Facts::new("order", "FAILED", Some(Colour::Red));
        facts.add("ID", "7");
        facts.add_some("Key", None);
        facts.add_some("Labels", Some(""));
        facts.add("Error", "the bank\n\x1b[31mis closed");
        facts.add_json("Input", Some(&RawValue::from_string("{\"a\": [1]}".into()).unwrap()));
        let expected = [
            "order  FAILED",
            "  ID         7",
            "  Error      the bank\n             \\u{1b}[31mis closed",
            "  Input      {\"a\":[1]}",
        ];
        assert_eq!(facts.lines(Paint::plain()), expected);
    }

    #[test]
    fn long_json_is_laid_out() {
        let long = format!("[\"{}\"]", "x".repeat(SHORT));
        let mut facts = Facts::new("t", "", None);
        facts.add_json("Output", Some(&RawValue::from_string(long).unwrap()));
        let lines = facts.lines(Paint::plain());
        assert!(lines[1].starts_with("  Output     [\n               \"xxx"), "{lines:?}");
    }
}
