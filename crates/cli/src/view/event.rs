//! Prints one event of a history on one line. Events of later servers are printed too.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::pretty;
use super::words::{duration, moment, printable};
use crate::client::answers::LogEvent;
use crate::terminal::{Colour, Paint};

/// Fields that name what an event is about. `DETAILS` lists fields with further information.
const NAMES: [&str; 9] = [
    "workflowKind",
    "taskType",
    "promiseName",
    "childExecutionName",
    "timerId",
    "signalName",
    "operationName",
    "key",
    "failureType",
];
const DETAILS: [&str; 7] = ["error", "reason", "output", "value", "result", "signalValue", "input"];

/// Length of the longest event type.
const TYPE_WIDTH: usize = 25;

/// Formats events. Later events of a task have only its id, so the formatter remembers the task's type.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    task_types: HashMap<String, String>,
}

/// The text of an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventText {
    pub(crate) about: String,
    pub(crate) details: String,
    pub(crate) colour: Option<Colour>,
}

impl Teller {
    pub(crate) fn tell(&mut self, event: &LogEvent) -> EventText {
        let task_id = event.text("taskExecutionId");
        if event.event_type == "TASK_SCHEDULED" {
            self.task_types.insert(task_id.to_string(), event.text("taskType").into_owned());
        }
        let name = NAMES.iter().map(|key| event.text(key)).find(|name| !name.is_empty());
        // The title of a failed task is its type; the type of its failure is shown with the error.
        let task_type = self.task_type(&task_id).map(Cow::Borrowed);
        let name = task_type.or(name).unwrap_or_default();
        EventText { about: printable(&name), details: details(event), colour: colour(&event.event_type) }
    }

    /// The type of a task whose scheduling event was formatted before.
    pub(crate) fn task_type(&self, task_id: &str) -> Option<&str> {
        self.task_types.get(task_id).map(String::as_str)
    }

    /// One line with sequence number and time, for live output.
    pub(crate) fn line(&mut self, event: &LogEvent, paint: Paint) -> String {
        let EventText { about, details, colour } = self.tell(event);
        let name = format!("{:TYPE_WIDTH$}", event.event_type);
        let name = colour.map_or_else(|| name.clone(), |colour| paint.with(colour, &name));
        let time = paint.with(Colour::Dim, &moment(event.timestamp_ms));
        format!("{:>5}  {time}  {name}  {about}  {details}", event.sequence).trim_end().to_owned()
    }
}

fn details(event: &LogEvent) -> String {
    if let Some(ms) = event.read("durationMs").or_else(|| event.read("timeoutMs")) {
        return duration(ms);
    }
    if event.event_type == "CHILD_WORKFLOW_INITIATED" {
        return printable(&event.text("childWorkflowKind"));
    }
    let Some(key) = DETAILS.into_iter().find(|key| event.field(key).is_some()) else { return String::new() };
    match event.read::<String>(key).filter(|_| matches!(key, "error" | "reason")) {
        Some(words) => printable(&format!("{}{words}", failure_type(event))),
        None => pretty::one_line(event.field(key).map_or("", RawValue::get)),
    }
}

/// The failure type of a task or child. For the workflow's own failure, the type is the title of the event.
fn failure_type(event: &LogEvent) -> String {
    match (event.event_type.as_str(), event.text("failureType")) {
        ("WORKFLOW_EXECUTION_FAILED", _) => String::new(),
        (_, name) if name.is_empty() => String::new(),
        (_, name) => format!("{name}: "),
    }
}

fn colour(event_type: &str) -> Option<Colour> {
    let (_, end) = event_type.rsplit_once('_')?;
    match end {
        "COMPLETED" | "RESOLVED" | "FIRED" => Some(Colour::Green),
        "FAILED" | "REJECTED" | "TIMEOUT" => Some(Colour::Red),
        "CANCELLED" | "REQUESTED" => Some(Colour::Magenta),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(event_type: &str, data: Value) -> LogEvent {
        LogEvent {
            sequence: 7,
            event_type: event_type.into(),
            timestamp_ms: 1_736_937_000_000,
            data: serde_json::from_value(data).unwrap(),
            ..LogEvent::default()
        }
    }

    #[test]
    fn an_event_says_what_it_is_about() {
        let mut teller = Teller::default();
        let mut text = |event_type: &str, data: Value| {
            let EventText { about, details, .. } = teller.tell(&event(event_type, data));
            format!("{about} | {details}")
        };
        let id = "0190";
        let scheduled = json!({ "taskExecutionId": id, "taskType": "charge", "input": { "cents": 5 } });
        assert_eq!(text("TASK_SCHEDULED", scheduled), "charge | {\"cents\":5}");
        let failed = json!({ "taskExecutionId": id, "error": "the bank\nis closed" });
        assert_eq!(text("TASK_FAILED", failed), "charge | the bank\\nis closed");
        let failed = json!({ "taskExecutionId": id, "error": "no funds", "failureType": "DECLINED" });
        assert_eq!(text("TASK_FAILED", failed), "charge | DECLINED: no funds");
        let failed = json!({ "childExecutionName": "pay", "error": "no funds", "failureType": "DECLINED" });
        assert_eq!(text("CHILD_WORKFLOW_FAILED", failed), "pay | DECLINED: no funds");
        let failed = json!({ "error": "no funds", "failureType": "DECLINED" });
        assert_eq!(text("WORKFLOW_EXECUTION_FAILED", failed), "DECLINED | no funds");
        assert_eq!(text("TIMER_STARTED", json!({ "timerId": "t", "durationMs": 60_000 })), "t | 1m 00s");
        assert_eq!(text("SOMETHING_NEW", json!({ "value": [1] })), " | [1]");
        assert_eq!(text("WORKFLOW_CANCELLED", Value::Null), " | ");
    }

    #[test]
    fn a_line_has_number_and_time() {
        let signal = event("SIGNAL_RECEIVED", json!({ "signalName": "courier", "signalValue": "Grace" }));
        let line = Teller::default().line(&signal, Paint::plain());
        assert_eq!(line, "    7  2025-01-15T10:30:00.000Z  SIGNAL_RECEIVED            courier  \"Grace\"");
    }
}
