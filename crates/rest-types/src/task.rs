//! Tasks, their attempts and their logs.

use serde::Deserialize;

use crate::{Document, WaitingOn, has_ended, moment};

/// Standalone tasks, or the tasks of an execution.
#[derive(Debug, Clone, Deserialize)]
pub struct Tasks<T = Task> {
    pub tasks: Vec<T>,
    /// The number of matching tasks. `None` for the tasks of an execution, which are not counted.
    pub total: Option<i64>,
    #[serde(default)]
    pub total_is_lower_bound: bool,
    /// In the answer for an execution, names are in camel case.
    #[serde(alias = "nextCursor")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Task {
    pub id: String,
    pub task_type: String,
    pub status: String,
    pub queue: String,
    pub execution_count: i64,
    pub max_retries: i64,
    #[serde(default)]
    pub progress: f64,
    pub progress_details: Option<String>,
    pub worker_id: Option<String>,
    pub workflow_execution_id: Option<String>,
    pub idempotency_key: Option<String>,
    #[serde(rename = "created_at", with = "moment")]
    pub created_ms: i64,
    #[serde(rename = "scheduled_at", default, with = "moment::optional")]
    pub scheduled_ms: Option<i64>,
    #[serde(rename = "started_at", default, with = "moment::optional")]
    pub started_ms: Option<i64>,
    #[serde(rename = "completed_at", default, with = "moment::optional")]
    pub completed_ms: Option<i64>,
    pub input: Option<Document>,
    pub output: Option<Document>,
    pub error: Option<String>,
    /// The type that the application gave the failure. `None`: it has none.
    pub failure_type: Option<String>,
    pub failure_details: Option<Document>,
    /// `Some(false)`: a retry cannot help. `None`: unknown.
    pub retryable: Option<bool>,
    pub waiting_on: Option<WaitingOn>,
}

impl Task {
    pub fn has_ended(&self) -> bool {
        has_ended(&self.status)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct Attempts<A = Attempt> {
    pub attempts: Vec<A>,
}

/// One attempt of a task, after it ended.
#[derive(Debug, Clone, Deserialize)]
pub struct Attempt {
    pub attempt: i64,
    pub status: String,
    #[serde(rename = "started_at", with = "moment")]
    pub started_ms: i64,
    #[serde(rename = "finished_at", with = "moment")]
    pub finished_ms: i64,
    pub duration_ms: i64,
    pub error: Option<String>,
    /// The type that the application gave the failure. `None`: it has none.
    pub failure_type: Option<String>,
    pub failure_details: Option<Document>,
    /// `Some(false)`: a retry cannot help. `None`: unknown.
    pub retryable: Option<bool>,
    pub worker_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Logs<L = LogLine> {
    pub lines: Vec<L>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct LogLine {
    pub line: i64,
    pub level: String,
    pub message: String,
    #[serde(rename = "time", with = "moment")]
    pub time_ms: i64,
}
