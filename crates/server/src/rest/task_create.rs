//! Creates standalone tasks: one or many.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use flovyn_auth::Role;
use flovyn_engine::request::{CreateTask, CreateTasks, KeySpec, TaskSpec};
use flovyn_engine::state::RetryPolicy;
use flovyn_engine::{Code, Reply};
use flovyn_rest_types::Task;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::Caller;
use super::body::{Object, given, payload, read};
use super::create::{created, read_batch};
use super::error::{RestError, unexpected};
use super::extract::Body;
use super::key_header::key;
use super::names::TaskStatus;
use super::task_info::task_info;
use super::tasks::find;
use super::times::{duration_ms, moment};

/// A standalone task to create. Names in camel case are accepted too.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateTaskRequest {
    #[serde(alias = "taskType", alias = "kind")]
    #[schema(min_length = 1, max_length = 255)]
    task_type: String,
    /// Any JSON up to 1 MiB. Default `{}`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Value, required = false)]
    input: Option<Box<RawValue>>,
    /// Default: the queue `default`.
    #[serde(alias = "taskQueue")]
    #[schema(min_length = 1, max_length = 255)]
    queue: Option<String>,
    /// The maximum number of attempts.
    #[serde(alias = "maxRetries")]
    max_retries: Option<i64>,
    /// The task does not start before this time.
    #[serde(alias = "scheduledAt")]
    #[schema(format = "date-time")]
    scheduled_at: Option<String>,
    /// A lower number runs earlier; it may be negative.
    #[serde(default, alias = "prioritySeconds")]
    priority_seconds: i64,
    /// The time limit of one attempt.
    #[serde(alias = "timeoutMs")]
    timeout_ms: Option<i64>,
    /// The time limit of all attempts together.
    #[serde(alias = "totalTimeoutMs")]
    total_timeout_ms: Option<i64>,
    /// The longest time between two heartbeats of its worker.
    #[serde(alias = "heartbeatTimeoutMs")]
    heartbeat_timeout_ms: Option<i64>,
    #[serde(alias = "retryPolicy")]
    #[schema(value_type = Option<RetryPolicyRequest>)]
    retry_policy: Option<Object<RetryPolicyRequest>>,
    /// The same as the header `Idempotency-Key`.
    #[serde(alias = "idempotencyKey")]
    #[schema(min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
    /// From `1s` to `30d`. Default `24h`.
    #[serde(alias = "idempotencyKeyTTL", alias = "idempotencyKeyTtl")]
    #[schema(pattern = "^[0-9]+[smhd]$")]
    idempotency_key_ttl: Option<String>,
}

/// The delays between attempts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RetryPolicy)]
pub(super) struct RetryPolicyRequest {
    /// The delay before the second attempt.
    #[serde(alias = "initialMs")]
    initial_ms: i64,
    /// The factor from each delay to the next.
    #[schema(minimum = 1, maximum = 100)]
    factor: f64,
    /// The longest delay.
    #[serde(alias = "capMs")]
    cap_ms: i64,
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

/// Create a standalone task
#[utoipa::path(
    post,
    path = "/tasks",
    operation_id = "createTask",
    tag = "Tasks",
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `idempotency_key` in the body")),
    request_body = CreateTaskRequest,
    responses(
        (status = 201, description = "The new task", body = Task),
        (status = 200, description = "The task that holds the idempotency key", body = Task),
    ),
)]
pub(super) async fn create(
    caller: Caller,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<Task>), RestError> {
    caller.must_be(Role::Operator)?;
    let mut request: CreateTaskRequest = read(&body)?;
    request.idempotency_key = key(&headers, request.idempotency_key.take())?;
    let Reply::TaskCreated(reply) = caller.run(create_of(&caller, request)?).await? else {
        return Err(unexpected());
    };
    let row = find(&caller, reply.task_id).await?;
    Ok((created(reply.key_new), Json(task_info(&row))))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateTasksRequest {
    #[serde(alias = "items")]
    #[schema(value_type = Vec<CreateTaskRequest>, min_items = 1, max_items = 1_000)]
    tasks: Vec<Object<CreateTaskRequest>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CreatedTask {
    #[schema(format = "uuid")]
    id: String,
    #[schema(value_type = TaskStatus)]
    status: String,
    idempotency_key_used: bool,
    /// False if the task already existed.
    idempotency_key_new: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CreateTasksResponse {
    /// In the order of the request.
    tasks: Vec<CreatedTask>,
}

/// Create many standalone tasks
///
/// Creates all tasks or none. Set keys in the items: the header `Idempotency-Key` is refused.
#[utoipa::path(
    post,
    path = "/tasks/batch",
    operation_id = "createTasks",
    tag = "Tasks",
    request_body = CreateTasksRequest,
    responses(
        (status = 201, description = "At least one task is new", body = CreateTasksResponse),
        (status = 200, description = "All tasks already existed", body = CreateTasksResponse),
    ),
)]
pub(super) async fn batch(
    caller: Caller,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<CreateTasksResponse>), RestError> {
    let items = |request: CreateTasksRequest| request.tasks;
    let items = read_batch(&caller, &headers, &body, items, |item| create_of(&caller, item))?;
    let Reply::TasksCreated(replies) = caller.run(CreateTasks { items }).await? else {
        return Err(unexpected());
    };
    let any_new = replies.iter().any(|task| task.key_new);
    let tasks = replies.into_iter().map(|task| CreatedTask {
        id: task.task_id.to_string(),
        status: task.status.to_string(),
        idempotency_key_used: task.key_used,
        idempotency_key_new: task.key_new,
    });
    Ok((created(any_new), Json(CreateTasksResponse { tasks: tasks.collect() })))
}
