//! One row of a log, as the fold sees it.

use serde_json::Value;

/// Who caused an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A command of this workflow.
    Command,
    /// The world outside.
    External,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogEvent {
    pub(crate) sequence: i64,
    /// As on the wire, such as `TASK_COMPLETED`.
    pub(crate) kind: String,
    pub(crate) origin: Origin,
    pub(crate) time_ms: i64,
    pub(crate) data: Value,
}

impl LogEvent {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.data.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn value(&self, key: &str) -> Value {
        self.data.get(key).cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.data.get(key).and_then(Value::as_bool).unwrap_or(false)
    }
}

/// The origin of events whose log does not say: most kinds have only one.
pub(crate) fn usual_origin(kind: &str) -> Origin {
    match kind {
        "OPERATION_COMPLETED"
        | "STATE_SET"
        | "STATE_CLEARED"
        | "TASK_SCHEDULED"
        | "TASK_CANCEL_REQUESTED"
        | "PROMISE_CREATED"
        | "CHILD_WORKFLOW_INITIATED"
        | "CHILD_WORKFLOW_CANCEL_REQUESTED"
        | "TIMER_STARTED"
        | "TIMER_CANCELLED"
        | "WORKFLOW_COMPLETED"
        | "WORKFLOW_EXECUTION_FAILED"
        | "WORKFLOW_CANCELLED" => Origin::Command,
        _ => Origin::External,
    }
}
