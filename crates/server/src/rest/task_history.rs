//! The history of a task: its attempts and its log. Also for tasks of workflows.

use axum::Json;
use axum::extract::Path;
use flovyn_engine::failure::StoredFailure;
use flovyn_engine::state;
use flovyn_rest_types::{Attempt, Attempts, LogLine, Logs};
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::Caller;
use super::body::json;
use super::error::RestError;
use super::extract::Query;
use super::page::up_to;
use super::tasks::{find_any, task_id};

const DEFAULT_LOG_LINES: usize = 100;
const MAX_LOG_LINES: usize = 1_000;

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
        let StoredFailure { failure, retryable, .. } = StoredFailure::read(row.failure.as_ref());
        Attempt {
            attempt: row.attempt,
            started_ms: row.started_ms,
            finished_ms: row.finished_ms,
            duration_ms: row.finished_ms.saturating_sub(row.started_ms),
            status: row.status.to_string(),
            output: task.output.as_deref().filter(|_| completed).and_then(json),
            error: row.error.as_deref().map(str::to_owned),
            failure_type: failure.kind.as_deref().map(str::to_owned),
            failure_details: failure.details.as_deref().and_then(json),
            retryable,
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
        time_ms: row.time_ms,
        level: row.level.to_string(),
        message: row.message.to_string(),
    });
    Ok(Json(Logs { lines: lines.collect() }))
}
