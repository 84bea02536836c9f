//! Tasks, their attempts and their logs.

use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use crate::openapi;
use crate::{Document, WaitingOn, has_ended, moment};

// Standalone tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TaskList, bound = ""))]
pub struct Tasks<T = Task> {
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Task>))]
    pub tasks: Vec<T>,
    /// The number of matching tasks. Exact below 10,000.
    pub total: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub total_is_lower_bound: bool,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub limit: usize,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub offset: usize,
    /// Present only if there may be more tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

// The tasks of an execution. They are not counted, and names are in camel case.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(bound = ""))]
pub struct ExecutionTasks<T = Task> {
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Task>))]
    pub tasks: Vec<T>,
    /// Present only if there may be more tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Task {
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub id: String,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, format = "uuid"))]
    pub tenant_id: String,
    pub task_type: String,
    #[cfg_attr(feature = "openapi", schema(schema_with = openapi::task_status))]
    pub status: String,
    /// Any JSON.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub input: Option<Document>,
    /// Only if completed: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub output: Option<Document>,
    /// The error of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The type that the application gave the failure, such as `CARD_DECLINED`, or `TIMEOUT` for a time limit. Absent
    /// if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_type: Option<String>,
    /// Any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub failure_details: Option<Document>,
    /// `false`: the attempt reported that a retry cannot help. `true`: the task failed for another reason, such as no
    /// attempts left. Absent: a retry follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    pub queue: String,
    /// The number of attempts so far.
    pub execution_count: i64,
    pub max_retries: i64,
    /// The progress, from 0 to 1.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_details: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// Absent for standalone tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub workflow_execution_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(rename = "created_at", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub created_ms: i64,
    /// The task does not start before this time.
    #[serde(
        rename = "scheduled_at",
        default,
        with = "moment::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = "date-time"))]
    pub scheduled_ms: Option<i64>,
    #[serde(
        rename = "started_at",
        default,
        with = "moment::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = "date-time"))]
    pub started_ms: Option<i64>,
    #[serde(
        rename = "completed_at",
        default,
        with = "moment::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = "date-time"))]
    pub completed_ms: Option<i64>,
    /// Only if the task is open and was requested by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<WaitingOn>,
}

impl Task {
    pub fn has_ended(&self) -> bool {
        has_ended(&self.status)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TaskAttemptList, bound = ""))]
pub struct Attempts<A = Attempt> {
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Attempt>))]
    pub attempts: Vec<A>,
}

// One attempt of a task, after it ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TaskAttempt))]
pub struct Attempt {
    /// The number of the attempt, from 1.
    pub attempt: i64,
    #[serde(rename = "started_at", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub started_ms: i64,
    #[serde(rename = "finished_at", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub finished_ms: i64,
    pub duration_ms: i64,
    #[cfg_attr(feature = "openapi", schema(schema_with = openapi::attempt_status))]
    pub status: String,
    /// Only for the attempt that completed the task: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub output: Option<Document>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The type that the application gave the failure, such as `CARD_DECLINED`, or `TIMEOUT` for a time limit. Absent
    /// if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_type: Option<String>,
    /// Any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub failure_details: Option<Document>,
    /// `false`: the attempt reported that a retry cannot help. `true`: the task failed for another reason, such as no
    /// attempts left. Absent: a retry follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TaskLog, bound = ""))]
pub struct Logs<L = LogLine> {
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<LogLine>))]
    pub lines: Vec<L>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TaskLogLine))]
pub struct LogLine {
    pub line: i64,
    #[serde(rename = "time", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub time_ms: i64,
    #[cfg_attr(feature = "openapi", schema(schema_with = openapi::log_level))]
    pub level: String,
    pub message: String,
}
