//! Reads and controls standalone tasks.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use flovyn_auth::Role;
use flovyn_engine::Code;
use flovyn_engine::ids::TaskId;
use flovyn_engine::request::{CancelTask, RetryTask};
use flovyn_engine::state;
use flovyn_rest_types::{Task, Tasks};
use flovyn_store::TaskFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::Caller;
use super::error::RestError;
use super::executions::id;
use super::extract::Query;
use super::filter::{one_of, sought};
use super::names::TaskStatus;
use super::page::{next, page};
use super::task_info::task_info;
use crate::waiting;

/// Totals up to this number are exact.
const COUNTED: i64 = 10_000;

pub(super) fn task_id(text: &str) -> Result<TaskId, RestError> {
    id(text, Code::TaskNotFound, "Task")
}

/// Finds any task, including tasks of workflows.
pub(super) async fn find_any(caller: &Caller, id: TaskId) -> Result<state::Task, RestError> {
    let row = caller.store().task_get(caller.tenant_id(), id).await?.filter(|row| !row.purging);
    row.ok_or_else(|| missing(id))
}

/// Finds a standalone task. Tasks of workflows are found below their execution.
pub(super) async fn find(caller: &Caller, id: TaskId) -> Result<state::Task, RestError> {
    let row = find_any(caller, id).await?;
    if row.execution_id.is_none() { Ok(row) } else { Err(missing(id)) }
}

fn missing(id: TaskId) -> RestError {
    RestError::new(Code::TaskNotFound, format!("Task '{id}' not found"))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// `FAILED` selects tasks that need attention.
    #[param(value_type = Option<TaskStatus>)]
    status: Option<String>,
    #[serde(alias = "taskQueue")]
    queue: Option<String>,
    #[serde(alias = "taskType")]
    task_type: Option<String>,
    /// Default 50.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    #[param(maximum = 10_000)]
    offset: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// List standalone tasks
///
/// Newest first. Tasks must match all given filters.
#[utoipa::path(
    get,
    path = "/tasks",
    operation_id = "listTasks",
    tag = "Tasks",
    params(ListQuery),
    responses((status = 200, description = "A page of tasks", body = Tasks)),
)]
pub(super) async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<Tasks>, RestError> {
    let page = page(query.limit, query.offset, query.cursor.as_deref())?;
    let filter = TaskFilter {
        status: one_of("status", query.status.as_deref())?,
        task_type: sought("task_type", query.task_type)?,
        queue: sought("queue", query.queue)?,
    };
    let rows = caller.store().task_list(caller.tenant_id(), &filter, page).await?;
    let total = caller.store().task_count(caller.tenant_id(), &filter, COUNTED).await?;
    Ok(Json(Tasks {
        next_cursor: next(&rows, page, |row| (row.created_ms, row.id)),
        tasks: rows.iter().map(task_info).collect(),
        total,
        total_is_lower_bound: total >= COUNTED,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// Get a standalone task
#[utoipa::path(
    get,
    path = "/tasks/{taskId}",
    operation_id = "getTask",
    tag = "Tasks",
    params(("taskId" = String, Path, description = "Id of the task")),
    responses((status = 200, description = "The task", body = Task)),
)]
pub(super) async fn get(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<Task>, RestError> {
    let row = find(&caller, task_id(&name)?).await?;
    let waiting = caller.api().service().why_task(caller.tenant_id(), row.id).await?;
    let mut info = task_info(&row);
    // A finished task waits for nothing.
    let waiting = waiting.as_ref().filter(|_| !row.status.is_terminal());
    info.waiting_on = waiting.map(waiting::describe);
    Ok(Json(info))
}

/// Cancel a pending task
///
/// The task stays, with the status CANCELLED. A running task cannot be cancelled this way.
#[utoipa::path(
    delete,
    path = "/tasks/{taskId}",
    operation_id = "cancelTask",
    tag = "Tasks",
    params(("taskId" = String, Path, description = "Id of the task")),
    responses((status = 204, description = "The task is cancelled")),
)]
pub(super) async fn cancel(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Operator)?;
    let row = find(&caller, task_id(&name)?).await?;
    caller.run(CancelTask { task_id: row.id, cooperative: false }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Retry a failed task
///
/// The task gets its full number of attempts again.
#[utoipa::path(
    post,
    path = "/tasks/{taskId}/retry",
    operation_id = "retryTask",
    tag = "Tasks",
    params(("taskId" = String, Path, description = "Id of the task")),
    responses((status = 200, description = "The task, pending again", body = Task)),
)]
pub(super) async fn retry(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<Task>, RestError> {
    caller.must_be(Role::Operator)?;
    let row = find(&caller, task_id(&name)?).await?;
    caller.run(RetryTask { task_id: row.id }).await?;
    Ok(Json(task_info(&find(&caller, row.id).await?)))
}
