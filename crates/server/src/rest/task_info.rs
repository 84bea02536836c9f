//! The JSON of a task. Its names are in snake case, as users of the tasks API expect.

use flovyn_engine::failure::StoredFailure;
use flovyn_engine::ids::Payload;
use flovyn_engine::state::Task;
use flovyn_engine::state::TaskStatus as Status;
use flovyn_rest_types::WaitingOn;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::json;
use super::names::TaskStatus;
use super::times::{iso, optional_iso};

/// A task.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Task)]
pub(super) struct TaskInfo {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    tenant_id: String,
    task_type: String,
    #[schema(value_type = TaskStatus)]
    status: String,
    /// Any JSON.
    #[schema(value_type = Value)]
    input: Option<Box<RawValue>>,
    /// Only if completed: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<Box<RawValue>>,
    /// The error of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    failure: FailureInfo,
    queue: String,
    /// The number of attempts so far.
    execution_count: i64,
    max_retries: i64,
    /// The progress, from 0 to 1.
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_details: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<String>,
    /// Absent for standalone tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    workflow_execution_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[schema(format = "date-time")]
    created_at: String,
    /// The task does not start before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    completed_at: Option<String>,
    /// Only if the task is open and was requested by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiting_on: Option<WaitingOn>,
}

/// The details of a failed attempt, without its error message.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FailureInfo {
    /// The type that the application gave the failure, such as `CARD_DECLINED`, or `TIMEOUT` for a time limit. Absent
    /// if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_type: Option<String>,
    /// Any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    failure_details: Option<Box<RawValue>>,
    /// `false`: the attempt reported that a retry cannot help. `true`: the task failed for another reason, such as no
    /// attempts left. Absent: a retry follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
}

impl FailureInfo {
    /// Reads the stored failure. Rows of earlier versions have none.
    pub(super) fn of(stored: Option<&Payload>) -> Self {
        let StoredFailure { failure, retryable, .. } = StoredFailure::read(stored);
        Self {
            failure_type: failure.kind.as_deref().map(str::to_owned),
            failure_details: failure.details.as_deref().and_then(json),
            retryable,
        }
    }
}

impl TaskInfo {
    pub(super) fn of(row: &Task) -> Self {
        let done = row.status == Status::Completed;
        Self {
            id: row.id.to_string(),
            tenant_id: row.tenant_id.to_string(),
            task_type: row.task_type.to_string(),
            status: row.status.to_string(),
            input: json(&row.input),
            output: row.output.as_deref().and_then(json),
            error: row.error.as_deref().filter(|_| !done).map(str::to_owned),
            failure: FailureInfo::of(row.failure.as_ref().filter(|_| !done)),
            queue: row.queue.to_string(),
            execution_count: row.execution_count,
            max_retries: row.max_retries,
            progress: if done { 1.0 } else { row.progress },
            progress_details: row.progress_details.as_deref().map(str::to_owned),
            worker_id: row.worker.as_deref().map(str::to_owned),
            workflow_execution_id: row.execution_id.map(|id| id.to_string()),
            idempotency_key: row.idempotency_key.as_deref().map(str::to_owned),
            created_at: iso(row.created_ms),
            scheduled_at: optional_iso(row.scheduled_ms),
            started_at: optional_iso(row.started_ms),
            completed_at: optional_iso(row.finished_ms),
            waiting_on: None,
        }
    }
}
