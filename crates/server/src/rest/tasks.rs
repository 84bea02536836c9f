//! Standalone tasks. Names are in snake case here, as their users know them.

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use flovyn_auth::Role;
use flovyn_engine::ids::TaskId;
use flovyn_engine::request::{CancelTask, CreateTask, CreateTasks, KeySpec, RetryTask, TaskSpec};
use flovyn_engine::state::{AttemptStatus, RetryPolicy, Task, TaskStatus};
use flovyn_engine::{Code, Reply};
use flovyn_store::TaskFilter;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::access::Caller;
use super::body::{Object, given, json, payload, read};
use super::cursor;
use super::error::RestError;
use super::executions::{id, one_of, sought};
use super::extract::{Body, Query};
use super::page::page;
use super::times::{duration_ms, iso, moment, optional_iso};
use super::trigger::{header_key, unexpected};
use crate::waiting;

/// Totals are exact up to this.
const COUNTED: i64 = 10_000;
const MAX_LOG_LINES: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateTaskRequest {
    #[serde(alias = "taskType", alias = "kind")]
    task_type: String,
    #[serde(default, deserialize_with = "given")]
    input: Option<Box<RawValue>>,
    #[serde(alias = "taskQueue")]
    queue: Option<String>,
    #[serde(alias = "maxRetries")]
    max_retries: Option<i64>,
    #[serde(alias = "scheduledAt")]
    scheduled_at: Option<String>,
    #[serde(default, alias = "prioritySeconds")]
    priority_seconds: i64,
    #[serde(alias = "timeoutMs")]
    timeout_ms: Option<i64>,
    #[serde(alias = "totalTimeoutMs")]
    total_timeout_ms: Option<i64>,
    #[serde(alias = "heartbeatTimeoutMs")]
    heartbeat_timeout_ms: Option<i64>,
    #[serde(alias = "retryPolicy")]
    retry_policy: Option<Object<RetryPolicyRequest>>,
    #[serde(alias = "idempotencyKey")]
    idempotency_key: Option<String>,
    #[serde(alias = "idempotencyKeyTTL", alias = "idempotencyKeyTtl")]
    idempotency_key_ttl: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryPolicyRequest {
    #[serde(alias = "initialMs")]
    initial_ms: i64,
    factor: f64,
    #[serde(alias = "capMs")]
    cap_ms: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct TaskInfo {
    id: String,
    tenant_id: String,
    task_type: String,
    status: String,
    input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    queue: String,
    execution_count: i64,
    max_retries: i64,
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_details: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_execution_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_on: Option<Value>,
}

impl TaskInfo {
    pub(super) fn of(row: &Task) -> Self {
        let done = row.status == TaskStatus::Completed;
        Self {
            id: row.id.to_string(),
            tenant_id: row.tenant_id.to_string(),
            task_type: row.task_type.to_string(),
            status: row.status.to_string(),
            input: json(&row.input),
            output: row.output.as_deref().and_then(json),
            error: row.error.as_deref().filter(|_| !done).map(str::to_owned),
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

pub(super) fn task_id(text: &str) -> Result<TaskId, RestError> {
    id(text, Code::TaskNotFound, "Task")
}

/// Any task, also one of a workflow.
pub(super) async fn find_any(caller: &Caller, id: TaskId) -> Result<Task, RestError> {
    let row = caller.store().task_get(caller.tenant_id(), id).await?.filter(|row| !row.purging);
    row.ok_or_else(|| missing(id))
}

/// A standalone task; those of workflows are found below their execution.
async fn find(caller: &Caller, id: TaskId) -> Result<Task, RestError> {
    let row = find_any(caller, id).await?;
    if row.execution_id.is_none() { Ok(row) } else { Err(missing(id)) }
}

fn missing(id: TaskId) -> RestError {
    RestError::new(Code::TaskNotFound, format!("Task '{id}' not found"))
}

fn create_of(caller: &Caller, request: CreateTaskRequest) -> Result<CreateTask, RestError> {
    let ttl_ms = request.idempotency_key_ttl.as_deref();
    let ttl_ms = ttl_ms.map(|text| duration_ms("idempotency_key_ttl", Code::InvalidTtl, text)).transpose()?;
    let spec = TaskSpec {
        queue: request.queue.map(Into::into),
        priority_seconds: request.priority_seconds,
        max_retries: request.max_retries,
        retry: request.retry_policy.map(|Object(policy)| RetryPolicy {
            initial_ms: policy.initial_ms,
            factor: policy.factor,
            cap_ms: policy.cap_ms,
        }),
        start_to_close_ms: request.timeout_ms,
        total_ms: request.total_timeout_ms,
        heartbeat_ms: request.heartbeat_timeout_ms,
        key: request.idempotency_key.map(|name| KeySpec { name: name.into(), ttl_ms }),
        ..TaskSpec::new(request.task_type, payload(request.input, "{}"))
    };
    let scheduled_ms =
        request.scheduled_at.as_deref().map(|text| moment("scheduled_at", text)).transpose()?;
    Ok(CreateTask { spec, execution_id: None, scheduled_ms, traceparent: caller.traceparent.clone() })
}

pub(super) async fn create(
    caller: Caller,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<TaskInfo>), RestError> {
    caller.must_be(Role::Operator)?;
    let mut request: CreateTaskRequest = read(&body)?;
    if request.idempotency_key.is_none() {
        request.idempotency_key = header_key(&headers)?;
    }
    let Reply::TaskCreated(created) = caller.run(create_of(&caller, request)?).await? else {
        return Err(unexpected());
    };
    let row = find(&caller, created.task_id).await?;
    let status = if created.key_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(TaskInfo::of(&row))))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRequest {
    #[serde(alias = "items")]
    tasks: Vec<Object<CreateTaskRequest>>,
}

#[derive(Debug, Serialize)]
pub(super) struct CreatedTask {
    id: String,
    status: String,
    idempotency_key_used: bool,
    idempotency_key_new: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct BatchResponse {
    tasks: Vec<CreatedTask>,
}

/// All of them, or none.
pub(super) async fn batch(
    caller: Caller,
    Body(body): Body,
) -> Result<(StatusCode, Json<BatchResponse>), RestError> {
    caller.must_be(Role::Operator)?;
    let request: BatchRequest = read(&body)?;
    let items = request.tasks.into_iter().map(|task| create_of(&caller, task.0)).collect::<Result<_, _>>()?;
    let Reply::TasksCreated(created) = caller.run(CreateTasks { items }).await? else {
        return Err(unexpected());
    };
    let tasks = created.into_iter().map(|task| CreatedTask {
        id: task.task_id.to_string(),
        status: task.status.to_string(),
        idempotency_key_used: task.key_used,
        idempotency_key_new: task.key_new,
    });
    Ok((StatusCode::CREATED, Json(BatchResponse { tasks: tasks.collect() })))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    status: Option<String>,
    #[serde(alias = "taskQueue")]
    queue: Option<String>,
    #[serde(alias = "taskType")]
    task_type: Option<String>,
    limit: Option<usize>,
    offset: Option<usize>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct TaskList {
    tasks: Vec<TaskInfo>,
    total: i64,
    /// There are more than were counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    total_is_lower_bound: bool,
    limit: usize,
    offset: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) async fn list(
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<TaskList>, RestError> {
    let page = page(query.limit, query.offset, query.cursor.as_deref())?;
    let status = query.status.as_deref().map(|text| one_of::<TaskStatus>("status", text)).transpose()?;
    let filter = TaskFilter {
        status,
        task_type: sought("task_type", query.task_type)?,
        queue: sought("queue", query.queue)?,
    };
    let rows = caller.store().task_list(caller.tenant_id(), &filter, page).await?;
    let total = caller.store().task_count(caller.tenant_id(), &filter, COUNTED).await?;
    let next = rows.last().filter(|_| rows.len() == page.limit);
    Ok(Json(TaskList {
        next_cursor: next.map(|row| cursor::write(row.created_ms, row.id)),
        tasks: rows.iter().map(TaskInfo::of).collect(),
        total,
        total_is_lower_bound: total >= COUNTED,
        limit: page.limit,
        offset: page.offset,
    }))
}

pub(super) async fn get(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<TaskInfo>, RestError> {
    let row = find(&caller, task_id(&name)?).await?;
    let waiting = caller.api().service().why_task(caller.tenant_id(), row.id).await?;
    let mut info = TaskInfo::of(&row);
    // One that has finished waits for nothing.
    let waiting = waiting.as_ref().filter(|_| !row.status.is_terminal());
    info.waiting_on = waiting.map(waiting::describe).map(|item| item.json());
    Ok(Json(info))
}

/// Only a pending one. The row stays, as CANCELLED.
pub(super) async fn cancel(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Operator)?;
    let row = find(&caller, task_id(&name)?).await?;
    caller.run(CancelTask { task_id: row.id, cooperative: false }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A failed one, by hand.
pub(super) async fn retry(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<TaskInfo>, RestError> {
    caller.must_be(Role::Operator)?;
    let row = find(&caller, task_id(&name)?).await?;
    caller.run(RetryTask { task_id: row.id }).await?;
    Ok(Json(TaskInfo::of(&find(&caller, row.id).await?)))
}

#[derive(Debug, Serialize)]
pub(super) struct AttemptInfo {
    attempt: i64,
    started_at: String,
    finished_at: String,
    duration_ms: i64,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Attempts {
    attempts: Vec<AttemptInfo>,
}

pub(super) async fn attempts(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<Attempts>, RestError> {
    let task = find_any(&caller, task_id(&name)?).await?;
    let rows = caller.store().attempt_list(caller.tenant_id(), task.id).await?;
    let attempts = rows.into_iter().map(|row| AttemptInfo {
        attempt: row.attempt,
        started_at: iso(row.started_ms),
        finished_at: iso(row.finished_ms),
        duration_ms: row.finished_ms.saturating_sub(row.started_ms),
        status: row.status.to_string(),
        // The output is the task's own: the attempt that completed it is the one that has it.
        output: task.output.as_deref().filter(|_| row.status == AttemptStatus::Completed).and_then(json),
        error: row.error.as_deref().map(str::to_owned),
        worker_id: row.worker.as_deref().map(str::to_owned),
    });
    Ok(Json(Attempts { attempts: attempts.collect() }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LogQuery {
    after_line: i64,
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct LogLine {
    line: i64,
    time: String,
    level: String,
    message: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Logs {
    lines: Vec<LogLine>,
}

pub(super) async fn logs(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<LogQuery>,
) -> Result<Json<Logs>, RestError> {
    let limit = query.limit.unwrap_or(100);
    if !(1..=MAX_LOG_LINES).contains(&limit) {
        return Err(RestError::new(Code::InvalidPage, format!("limit is from 1 to {MAX_LOG_LINES}")));
    }
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
