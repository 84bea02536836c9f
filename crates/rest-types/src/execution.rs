//! Executions, and the answers to starting and stopping them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::{Document, has_ended, moment};

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Executions<E = Execution> {
    pub executions: Vec<E>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    pub id: String,
    pub kind: String,
    pub status: String,
    pub task_queue: String,
    pub version: Option<String>,
    pub priority_seconds: i64,
    #[serde(rename = "createdAt", deserialize_with = "moment::ms")]
    pub created_ms: i64,
    #[serde(rename = "scheduledAt", default, deserialize_with = "moment::optional_ms")]
    pub scheduled_ms: Option<i64>,
    #[serde(rename = "startedAt", default, deserialize_with = "moment::optional_ms")]
    pub started_ms: Option<i64>,
    #[serde(rename = "finishedAt", default, deserialize_with = "moment::optional_ms")]
    pub finished_ms: Option<i64>,
    pub parent_id: Option<String>,
    pub retry_of: Option<String>,
    pub idempotency_key: Option<String>,
    pub last_sequence: i64,
    #[serde(default)]
    pub cancel_requested: bool,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub input: Option<Document>,
    pub output: Option<Document>,
    pub error: Option<String>,
    /// The type that the workflow gave the failure. `None`: it has none.
    pub failure_type: Option<String>,
    pub failure_details: Option<Document>,
    /// The number of signals that it had received but not read when it ended.
    #[serde(default)]
    pub unread_signals: i64,
    #[serde(default)]
    pub waiting_on: Vec<WaitingOn>,
}

impl Execution {
    pub fn has_ended(&self) -> bool {
        has_ended(&self.status)
    }
}

/// Why an execution or a task does not run now.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingOn {
    pub kind: String,
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub message: String,
    pub until_ms: Option<i64>,
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase().replace('_', " ");
        write!(f, "{kind} {}", self.name)
    }
}

/// The answer to a start or a retry.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    pub workflow_execution_id: String,
    #[serde(default)]
    pub idempotency_key_used: bool,
    #[serde(default)]
    pub idempotency_key_new: bool,
}

/// The answer to cancel and terminate requests.
#[derive(Debug, Clone, Deserialize)]
pub struct StatusNow {
    pub status: String,
}
