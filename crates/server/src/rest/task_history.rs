//! The history of a task: its attempts and its log. Also for tasks of workflows.

use axum::Json;
use axum::extract::Path;
use flovyn_engine::state;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::access::Caller;
use super::body::json;
use super::error::RestError;
use super::extract::Query;
use super::names::{AttemptStatus, LogLevel};
use super::page::up_to;
use super::task_info::FailureInfo;
use super::tasks::{find_any, task_id};
use super::times::iso;

const DEFAULT_LOG_LINES: usize = 100;
const MAX_LOG_LINES: usize = 1_000;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskAttempt)]
pub(super) struct AttemptInfo {
    /// The number of the attempt, from 1.
    attempt: i64,
    #[schema(format = "date-time")]
    started_at: String,
    #[schema(format = "date-time")]
    finished_at: String,
    duration_ms: i64,
    #[schema(value_type = AttemptStatus)]
    status: String,
    /// Only for the attempt that completed the task: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    failure: FailureInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskAttemptList)]
pub(super) struct Attempts {
    attempts: Vec<AttemptInfo>,
}

/// List the attempts of a task
///
/// Attempts that have ended, oldest first.
#[utoipa::path(
    get,
    path = "/tasks/{taskId}/attempts",
    operation_id = "listTaskAttempts",
    tag = "Tasks",
    params(("taskId" = String, Path, description = "Id of the task")),
    responses((status = 200, description = "Its attempts", body = Attempts)),
)]
pub(super) async fn attempts(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<Attempts>, RestError> {
    let task = find_any(&caller, task_id(&name)?).await?;
    let rows = caller.store().attempt_list(caller.tenant_id(), task.id).await?;
    let attempts = task.ended_attempts(rows).into_iter().map(|row| {
        // The output is stored with the task; it belongs to the attempt that completed it.
        let completed = row.status == state::AttemptStatus::Completed;
        AttemptInfo {
            attempt: row.attempt,
            started_at: iso(row.started_ms),
            finished_at: iso(row.finished_ms),
            duration_ms: row.finished_ms.saturating_sub(row.started_ms),
            status: row.status.to_string(),
            output: task.output.as_deref().filter(|_| completed).and_then(json),
            error: row.error.as_deref().map(str::to_owned),
            failure: FailureInfo::of(row.failure.as_ref()),
            worker_id: row.worker.as_deref().map(str::to_owned),
        }
    });
    Ok(Json(Attempts { attempts: attempts.collect() }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct LogQuery {
    /// The number of the last known line. Later lines are returned.
    #[param(required = false)]
    after_line: i64,
    /// Default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskLogLine)]
pub(super) struct LogLine {
    line: i64,
    #[schema(format = "date-time")]
    time: String,
    #[schema(value_type = LogLevel)]
    level: String,
    message: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskLog)]
pub(super) struct Logs {
    lines: Vec<LogLine>,
}

/// Read the log of a task
#[utoipa::path(
    get,
    path = "/tasks/{taskId}/logs",
    operation_id = "getTaskLog",
    tag = "Tasks",
    params(("taskId" = String, Path, description = "Id of the task"), LogQuery),
    responses((status = 200, description = "A page of its log", body = Logs)),
)]
pub(super) async fn logs(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<LogQuery>,
) -> Result<Json<Logs>, RestError> {
    let limit = up_to(MAX_LOG_LINES, query.limit.unwrap_or(DEFAULT_LOG_LINES))?;
    let id = task_id(&name)?;
    find_any(&caller, id).await?;
    let rows = caller.store().task_log_page(caller.tenant_id(), id, query.after_line, limit).await?;
    let lines = rows.into_iter().map(|row| LogLine {
        line: row.line,
        time: iso(row.time_ms),
        level: row.level.to_string(),
        message: row.message.to_string(),
    });
    Ok(Json(Logs { lines: lines.collect() }))
}
