//! What the server says, as far as the commands use it. Fields that are not named here are left out.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An answer, both as it was sent and as it is understood here.
#[derive(Debug, Clone)]
pub(crate) struct Answer<T> {
    pub(crate) sent: Box<RawValue>,
    pub(crate) value: T,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Answer<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let sent = Box::<RawValue>::deserialize(from)?;
        let value = serde_json::from_str(sent.get()).map_err(serde::de::Error::custom)?;
        Ok(Self { sent, value })
    }
}

/// The answer to a start or a retry.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Started {
    pub(crate) workflow_execution_id: String,
    #[serde(default)]
    pub(crate) idempotency_key_used: bool,
    #[serde(default)]
    pub(crate) idempotency_key_new: bool,
}

/// The answer to cancelling.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StatusNow {
    pub(crate) status: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Executions {
    pub(crate) executions: Vec<Answer<Execution>>,
    pub(crate) next_cursor: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Execution {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) task_queue: String,
    pub(crate) version: Option<String>,
    #[serde(rename = "createdAt", deserialize_with = "moment_ms")]
    pub(crate) created_ms: i64,
    #[serde(rename = "startedAt", default, deserialize_with = "optional_moment_ms")]
    pub(crate) started_ms: Option<i64>,
    #[serde(rename = "finishedAt", default, deserialize_with = "optional_moment_ms")]
    pub(crate) finished_ms: Option<i64>,
    #[serde(rename = "scheduledAt", default, deserialize_with = "optional_moment_ms")]
    pub(crate) scheduled_ms: Option<i64>,
    pub(crate) last_sequence: i64,
    #[serde(default)]
    pub(crate) cancel_requested: bool,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) parent_id: Option<String>,
    pub(crate) retry_of: Option<String>,
    pub(crate) input: Option<Box<RawValue>>,
    pub(crate) output: Option<Box<RawValue>>,
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) waiting_on: Vec<WaitingOn>,
}

impl Execution {
    pub(crate) fn has_ended(&self) -> bool {
        has_ended(&self.status)
    }
}

/// Whether an execution or a task stays as it is.
pub(crate) fn has_ended(status: &str) -> bool {
    matches!(status, "COMPLETED" | "FAILED" | "CANCELLED")
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingOn {
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) message: String,
    pub(crate) until_ms: Option<i64>,
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase().replace('_', " ");
        write!(f, "{kind} {}", self.name)
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Events {
    pub(crate) events: Vec<Answer<LogEvent>>,
    pub(crate) next_since_sequence: Option<i64>,
}

/// One event of a history.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogEvent {
    #[serde(default)]
    pub(crate) sequence: i64,
    pub(crate) event_type: String,
    pub(crate) timestamp_ms: i64,
    #[serde(default)]
    pub(crate) data: Value,
}

impl LogEvent {
    /// A text among the event's data; empty if there is none.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.data[key].as_str().unwrap_or_default()
    }

    /// Nothing comes after it.
    pub(crate) fn is_last(&self) -> bool {
        matches!(
            self.event_type.as_str(),
            "WORKFLOW_COMPLETED" | "WORKFLOW_EXECUTION_FAILED" | "WORKFLOW_CANCELLED"
        )
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Tasks {
    pub(crate) tasks: Vec<Answer<Task>>,
    /// Below an execution names are in camel case.
    #[serde(alias = "nextCursor")]
    pub(crate) next_cursor: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) task_type: String,
    pub(crate) status: String,
    pub(crate) queue: String,
    pub(crate) execution_count: i64,
    pub(crate) max_retries: i64,
    #[serde(default)]
    pub(crate) progress: f64,
    pub(crate) progress_details: Option<String>,
    pub(crate) worker_id: Option<String>,
    pub(crate) workflow_execution_id: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    #[serde(rename = "created_at", deserialize_with = "moment_ms")]
    pub(crate) created_ms: i64,
    #[serde(rename = "scheduled_at", default, deserialize_with = "optional_moment_ms")]
    pub(crate) scheduled_ms: Option<i64>,
    #[serde(rename = "started_at", default, deserialize_with = "optional_moment_ms")]
    pub(crate) started_ms: Option<i64>,
    #[serde(rename = "completed_at", default, deserialize_with = "optional_moment_ms")]
    pub(crate) completed_ms: Option<i64>,
    pub(crate) input: Option<Box<RawValue>>,
    pub(crate) output: Option<Box<RawValue>>,
    pub(crate) error: Option<String>,
    pub(crate) waiting_on: Option<WaitingOn>,
}

impl Task {
    pub(crate) fn has_ended(&self) -> bool {
        has_ended(&self.status)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Attempts {
    pub(crate) attempts: Vec<Answer<Attempt>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) attempt: i64,
    pub(crate) status: String,
    #[serde(rename = "started_at", deserialize_with = "moment_ms")]
    pub(crate) started_ms: i64,
    #[serde(rename = "finished_at", deserialize_with = "moment_ms")]
    pub(crate) finished_ms: i64,
    pub(crate) error: Option<String>,
    pub(crate) worker_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Log {
    pub(crate) lines: Vec<Answer<LogLine>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LogLine {
    pub(crate) line: i64,
    pub(crate) level: String,
    pub(crate) message: String,
    #[serde(rename = "time", deserialize_with = "moment_ms")]
    pub(crate) time_ms: i64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Queues {
    pub(crate) queues: Vec<Answer<Queue>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) paused: bool,
    pub(crate) pending_workflows: i64,
    pub(crate) pending_tasks: i64,
    #[serde(rename = "oldestAt", default, deserialize_with = "optional_moment_ms")]
    pub(crate) oldest_ms: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Workers {
    pub(crate) workers: Vec<Answer<Worker>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) build_id: String,
    pub(crate) task_queue: Option<String>,
    pub(crate) alive: bool,
    #[serde(rename = "lastHeartbeatAt", deserialize_with = "moment_ms")]
    pub(crate) seen_ms: i64,
    pub(crate) workflows: Vec<String>,
    pub(crate) tasks: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Tenant {
    pub(crate) id: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerTokens {
    pub(crate) worker_tokens: Vec<Answer<WorkerToken>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WorkerToken {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Only when it is made.
    pub(crate) token: Option<String>,
    #[serde(rename = "createdAt", deserialize_with = "moment_ms")]
    pub(crate) created_ms: i64,
    #[serde(rename = "expiresAt", default, deserialize_with = "optional_moment_ms")]
    pub(crate) expires_ms: Option<i64>,
    #[serde(rename = "revokedAt", default, deserialize_with = "optional_moment_ms")]
    pub(crate) revoked_ms: Option<i64>,
}

/// ISO 8601, in milliseconds.
pub(super) fn moment_ms<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let text = String::deserialize(from)?;
    let time: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
    Ok(time.as_millisecond())
}

pub(super) fn optional_moment_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let time: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
    Ok(Some(time.as_millisecond()))
}
