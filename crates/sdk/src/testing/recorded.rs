//! Reads recorded histories.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::replay::command::Row;
use crate::replay::event::usual_origin;
use crate::replay::{LogEvent, Origin, Outcome};

/// The commands in a history, each with its sequence and a description with its input.
///
/// # Errors
/// Fails if the history cannot be read.
pub fn recorded_commands(history: &Value) -> Result<Vec<(i64, String)>> {
    let rows = events(history)?.into_iter().filter(|event| event.origin == Origin::Command);
    let rows = rows.filter_map(|event| Row::read(&event));
    Ok(rows.map(|row| (row.sequence, row.describe_fully())).collect())
}

pub(super) fn events(history: &Value) -> Result<Vec<LogEvent>> {
    let events = history.get("events").unwrap_or(history).as_array();
    let events = events.ok_or_else(|| Error::failed("the history must be an array of events"))?;
    events.iter().map(event).collect()
}

fn event(value: &Value) -> Result<LogEvent> {
    let one_of = |keys: &[&str]| keys.iter().find_map(|key| value.get(key));
    let missing = |what: &str| Error::failed(format!("an event of the history has no {what}: {value}"));
    let sequence = one_of(&["sequence", "sequenceNumber"]).and_then(Value::as_i64);
    let kind = one_of(&["eventType", "kind", "type"]).and_then(Value::as_str);
    let kind = kind.ok_or_else(|| missing("eventType"))?.to_owned();
    let origin = match one_of(&["origin"]).and_then(Value::as_str) {
        Some("COMMAND") => Origin::Command,
        Some("EXTERNAL") => Origin::External,
        _ => usual_origin(&kind),
    };
    Ok(LogEvent {
        sequence: sequence.ok_or_else(|| missing("sequence"))?,
        origin,
        time_ms: one_of(&["timestampMs", "timeMs"]).and_then(Value::as_i64).unwrap_or_default(),
        data: one_of(&["data", "eventData"]).cloned().unwrap_or(Value::Null),
        kind,
    })
}

/// How the workflow itself ended, according to the history.
#[derive(Debug, PartialEq)]
pub(super) struct Ending {
    sequence: i64,
    kind: &'static str,
    /// The output, error or reason. `None`: the history does not include it.
    with: Option<Value>,
}

impl Ending {
    pub(super) fn read(event: &LogEvent) -> Option<Self> {
        let (kind, key) = match event.kind.as_str() {
            "WORKFLOW_COMPLETED" => ("completed", "output"),
            "WORKFLOW_EXECUTION_FAILED" => ("failed", "error"),
            "WORKFLOW_CANCELLED" => ("was cancelled", "reason"),
            _ => return None,
        };
        // Ignore an end from outside, by an operator or a timeout: it does not depend on the code.
        let own = event.origin == Origin::Command;
        own.then(|| Self { sequence: event.sequence, kind, with: event.data.get(key).cloned() })
    }

    /// Fails if the code ends in a different way. If `strict`, the output or error must also be the same.
    pub(super) fn compare(&self, outcome: &Outcome, strict: bool) -> Result<()> {
        let (kind, with) = match outcome {
            Outcome::Suspended => ("still waits", None),
            Outcome::Completed(output) => ("completed", Some(output.clone())),
            Outcome::Failed(error) => ("failed", Some(error.to_string().into())),
            Outcome::Cancelled(reason) => ("was cancelled", Some(reason.clone().into())),
        };
        if self.kind == kind && (!strict || self.with.is_none() || self.with == with) {
            return Ok(());
        }
        let tell = |kind: &str, with: &Option<Value>| match with {
            None => format!("the workflow {kind}"),
            Some(with) => format!("the workflow {kind} with {with}"),
        };
        let (expected, found) = (tell(self.kind, &self.with), tell(kind, &with));
        Err(self.violation(&format!("in the history {expected}, but with this code {found}")))
    }

    pub(super) fn violation(&self, message: &str) -> Error {
        Error::DeterminismViolation(format!("DETERMINISM_VIOLATION at event {}: {message}", self.sequence))
    }
}
