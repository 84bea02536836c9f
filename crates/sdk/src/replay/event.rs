//! One event of a log, as replay sees it.

use serde_json::Value;

use crate::error::Failure;

/// The cause of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A command of this workflow.
    Command,
    /// Something outside the workflow.
    External,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogEvent {
    pub(crate) sequence: i64,
    /// The name on the wire, such as `TASK_COMPLETED`.
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

    /// For a deferred end (refused because a signal arrived first): the last event that the workflow had seen when it
    /// ended. `None`: another event.
    pub(crate) fn deferred_end(&self) -> Option<i64> {
        let seen = (self.kind == "WORKFLOW_SUSPENDED").then(|| self.data.get("seenThrough"))?;
        seen.and_then(Value::as_i64)
    }

    pub(crate) fn is_signal(&self) -> bool {
        self.kind == "SIGNAL_RECEIVED"
    }

    /// The failure of a task or child.
    pub(crate) fn failure(&self) -> Failure {
        let kind = self.data.get("failureType").and_then(Value::as_str);
        let attempts = self.data.get("attempts").and_then(Value::as_u64);
        Failure {
            // A cancelled child has no failure of its own.
            kind: kind.or(self.flag("cancelled").then_some("CANCELLED")).map(str::to_owned),
            details: self.data.get("failureDetails").cloned(),
            retryable: self.data.get("retryable").and_then(Value::as_bool).unwrap_or(true),
            attempts: attempts.and_then(|count| u32::try_from(count).ok()),
        }
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.data.get(key).and_then(Value::as_bool).unwrap_or(false)
    }
}

/// The origin of an event if its log does not say. Most kinds have only one possible origin.
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
