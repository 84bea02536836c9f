//! Starts workflows: one, many, or with a signal.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use flovyn_auth::Role;
use flovyn_engine::reply;
use flovyn_engine::request::{KeySpec, SignalWithStart, StartWorkflow, StartWorkflows};
use flovyn_engine::{Code, Reply};
use flovyn_rest_types::{Links, Started};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::access::Caller;
use super::body::{Object, given, payload, read, read_or_default};
use super::create::{created, read_batch};
use super::error::{RestError, unexpected};
use super::executions::wait_for;
use super::extract::{Body, Query};
use super::key_header::key;
use super::times::{duration_ms, moment};

/// The longest wait for a result.
const MAX_WAIT_MS: i64 = 300_000;

/// A workflow to start. All fields are optional, except `kind` if the path does not name it. Names in snake case are
/// accepted too.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct TriggerWorkflowRequest {
    /// The kind of the workflow, only if the path does not name it.
    #[serde(alias = "workflowKind", alias = "workflow_kind")]
    #[schema(min_length = 1, max_length = 255)]
    kind: Option<String>,
    /// Any JSON up to 1 MiB. Default `{}`.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Value)]
    input: Option<Box<RawValue>>,
    /// Default: the queue `default`.
    #[serde(alias = "queue", alias = "task_queue")]
    #[schema(min_length = 1, max_length = 255)]
    task_queue: Option<String>,
    /// A lower number runs earlier; it may be negative.
    #[serde(alias = "priority_seconds")]
    priority_seconds: i64,
    /// The version of the kind that a worker must have to run it.
    version: Option<String>,
    /// The same as the header `Idempotency-Key`.
    #[serde(alias = "idempotency_key")]
    #[schema(min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
    /// From `1s` to `30d`. Default `24h`.
    #[serde(rename = "idempotencyKeyTTL", alias = "idempotencyKeyTtl", alias = "idempotency_key_ttl")]
    #[schema(pattern = "^[0-9]+[smhd]$")]
    idempotency_key_ttl: Option<String>,
    /// Up to 20 labels for searching.
    #[serde(alias = "metadata")]
    labels: BTreeMap<String, String>,
    /// The execution does not start before this time.
    #[serde(alias = "scheduled_at")]
    #[schema(format = "date-time")]
    scheduled_at: Option<String>,
    /// The time limit from start to end, such as `2h`.
    #[serde(alias = "execution_timeout")]
    #[schema(pattern = "^[0-9]+[smhd]$")]
    execution_timeout: Option<String>,
    /// The total time for clean-up after a cancel request, such as `10m`; `0s` for no clean-up. Default: the value of
    /// the workflow's
    /// definition, or else no limit while the clean-up makes progress.
    #[serde(alias = "cancel_grace")]
    #[schema(pattern = "^[0-9]+[smhd]$")]
    cancel_grace: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Wait {
    /// How long to wait for the result before answering, up to `300s`.
    #[param(pattern = "^[0-9]+[smhd]$", example = "0s")]
    wait: Option<String>,
}

impl Wait {
    fn duration(&self) -> Result<Option<Duration>, RestError> {
        let Some(text) = &self.wait else { return Ok(None) };
        let ms = duration_ms("wait", Code::InvalidDuration, text)?;
        if ms > MAX_WAIT_MS {
            return Err(RestError::new(Code::InvalidDuration, "wait must be at most 300s"));
        }
        Ok(Some(Duration::from_millis(ms.unsigned_abs())))
    }
}

type Created = (StatusCode, Json<Started>);

/// Trigger a workflow
///
/// Starts an execution of this kind. If the idempotency key is in use, the execution that holds it is returned.
#[utoipa::path(
    post,
    path = "/workflows/{kind}/trigger",
    operation_id = "triggerWorkflow",
    tag = "Workflows",
    params(
        ("kind" = String, Path, description = "Kind of the workflow", min_length = 1, max_length = 255),
        ("Idempotency-Key" = Option<String>, Header, description = "The same as `idempotencyKey` in the body"),
        Wait,
    ),
    request_body = Option<TriggerWorkflowRequest>,
    responses(
        (status = 201, description = "The new execution", body = Started),
        (status = 200, description = "The execution that holds the idempotency key", body = Started),
    ),
)]
pub(super) async fn trigger(
    caller: Caller,
    Path((_, kind)): Path<(String, String)>,
    Query(wait): Query<Wait>,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Created, RestError> {
    caller.must_be(Role::Operator)?;
    let mut request: TriggerWorkflowRequest = read_or_default(&body)?;
    if request.kind.as_ref().is_some_and(|named| *named != kind) {
        return Err(RestError::new(Code::InvalidName, "the body and the path name different kinds"));
    }
    request.kind = Some(kind);
    run(caller, request, &wait, &headers).await
}

/// Start a workflow
///
/// Like triggering a workflow, with the kind in the body.
#[utoipa::path(
    post,
    path = "/workflow-executions",
    operation_id = "startWorkflow",
    tag = "Workflows",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "The same as `idempotencyKey` in the body"),
        Wait,
    ),
    request_body = TriggerWorkflowRequest,
    responses(
        (status = 201, description = "The new execution", body = Started),
        (status = 200, description = "The execution that holds the idempotency key", body = Started),
    ),
)]
pub(super) async fn start(
    caller: Caller,
    Query(wait): Query<Wait>,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Created, RestError> {
    caller.must_be(Role::Operator)?;
    run(caller, read(&body)?, &wait, &headers).await
}

async fn run(
    caller: Caller,
    mut request: TriggerWorkflowRequest,
    wait: &Wait,
    headers: &HeaderMap,
) -> Result<Created, RestError> {
    let wait = wait.duration()?;
    request.idempotency_key = key(headers, request.idempotency_key.take())?;
    let reply = caller.run(workflow(&caller, request)?).await?;
    let Reply::Started(started) = reply else { return Err(unexpected()) };
    let mut response = answer(&caller, &started);
    if let Some(wait) = wait {
        let execution = wait_for(&caller, started.execution_id, wait).await?;
        response.status.clone_from(&execution.status);
        response.execution = Some(execution);
    }
    Ok((created(started.key_new), Json(response)))
}

fn workflow(caller: &Caller, request: TriggerWorkflowRequest) -> Result<StartWorkflow, RestError> {
    let ttl_ms = request.idempotency_key_ttl.as_deref();
    let ttl_ms = ttl_ms.map(|text| duration_ms("idempotencyKeyTTL", Code::InvalidTtl, text)).transpose()?;
    let timeout = request.execution_timeout.as_deref();
    let timeout =
        timeout.map(|text| duration_ms("executionTimeout", Code::InvalidDuration, text)).transpose()?;
    let grace = request.cancel_grace.as_deref();
    let grace = grace.map(|text| duration_ms("cancelGrace", Code::InvalidDuration, text)).transpose()?;
    let scheduled = request.scheduled_at.as_deref().map(|text| moment("scheduledAt", text)).transpose()?;
    let kind = request.kind.ok_or_else(|| RestError::new(Code::InvalidName, "kind is missing"))?;
    let queue = request.task_queue.unwrap_or_else(|| "default".to_owned());
    Ok(StartWorkflow {
        priority_seconds: request.priority_seconds,
        workflow_version: request.version.map(Into::into),
        labels: request.labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        key: request.idempotency_key.map(|name| KeySpec { name: name.into(), ttl_ms }),
        scheduled_ms: scheduled,
        execution_timeout_ms: timeout,
        cancel_grace_ms: grace,
        traceparent: caller.traceparent.clone(),
        ..StartWorkflow::new(kind, queue, payload(request.input, "{}"))
    })
}

fn answer(caller: &Caller, started: &reply::Started) -> Started {
    caller.api().metrics().triggered(caller.tenant_id(), &started.kind, started.key_new);
    let path = format!("workflow-executions/{}", started.execution_id);
    Started {
        workflow_execution_id: started.execution_id.to_string(),
        status: started.status.to_string(),
        kind: started.kind.to_string(),
        created_ms: started.created_ms,
        links: Links { own: caller.link(&path), events: caller.link(&format!("{path}/events")) },
        idempotency_key_used: started.key_used,
        idempotency_key_new: started.key_new,
        execution: None,
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TriggerWorkflowsRequest {
    #[serde(alias = "items")]
    #[schema(value_type = Vec<TriggerWorkflowRequest>, min_items = 1, max_items = 1_000)]
    workflows: Vec<Object<TriggerWorkflowRequest>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TriggerWorkflowsResponse {
    /// In the order of the request.
    workflows: Vec<Started>,
}

/// Start many workflows
///
/// Starts all workflows or none. Set keys in the items: the header `Idempotency-Key` is refused.
#[utoipa::path(
    post,
    path = "/workflows/batch",
    operation_id = "triggerWorkflows",
    tag = "Workflows",
    request_body = TriggerWorkflowsRequest,
    responses(
        (status = 201, description = "At least one execution is new", body = TriggerWorkflowsResponse),
        (status = 200, description = "All executions already existed", body = TriggerWorkflowsResponse),
    ),
)]
pub(super) async fn batch(
    caller: Caller,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<TriggerWorkflowsResponse>), RestError> {
    let items = |request: TriggerWorkflowsRequest| request.workflows;
    let items = read_batch(&caller, &headers, &body, items, |item| workflow(&caller, item))?;
    let Reply::StartedMany(started) = caller.run(StartWorkflows { items }).await? else {
        return Err(unexpected());
    };
    let workflows = started.iter().map(|started| answer(&caller, started)).collect();
    let any_new = started.iter().any(|started| started.key_new);
    Ok((created(any_new), Json(TriggerWorkflowsResponse { workflows })))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SignalWithStartRequest {
    #[serde(alias = "signal_name")]
    #[schema(min_length = 1, max_length = 255)]
    signal_name: String,
    /// Any JSON. Default null.
    #[serde(alias = "signal_value")]
    #[schema(value_type = Value, required = false)]
    signal_value: Option<Box<RawValue>>,
    /// Needs `idempotencyKey`. The execution holds this key while it is open.
    #[schema(value_type = TriggerWorkflowRequest)]
    workflow: Object<TriggerWorkflowRequest>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignalWithStartResponse {
    #[schema(format = "uuid")]
    workflow_execution_id: String,
    /// False if an existing execution received the signal.
    workflow_created: bool,
    /// The sequence number of the signal's event in the history.
    signal_event_sequence: i64,
}

/// Signal a workflow and start it if necessary
///
/// The open execution that holds the key receives the signal. If there is none, an execution is started with the
/// signal. It holds
/// the key until it ends; `idempotencyKeyTTL` counts from that time.
#[utoipa::path(
    post,
    path = "/workflow-executions/signal-with-start",
    operation_id = "signalWithStart",
    tag = "Workflows",
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `idempotencyKey` of the workflow")),
    request_body = SignalWithStartRequest,
    responses(
        (status = 201, description = "An execution was started", body = SignalWithStartResponse),
        (status = 200, description = "An existing execution received the signal", body = SignalWithStartResponse),
    ),
)]
pub(super) async fn signal_with_start(
    caller: Caller,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<SignalWithStartResponse>), RestError> {
    caller.must_be(Role::Operator)?;
    let request: SignalWithStartRequest = read(&body)?;
    let Object(mut start) = request.workflow;
    start.idempotency_key = key(&headers, start.idempotency_key.take())?;
    let start = workflow(&caller, start)?;
    let value = payload(request.signal_value, "null");
    let kind = start.kind.clone();
    let signal = SignalWithStart { start, name: request.signal_name.into(), value };
    let Reply::Signalled { execution_id, sequence, created: is_new } = caller.run(signal).await? else {
        return Err(unexpected());
    };
    caller.api().metrics().triggered(caller.tenant_id(), &kind, is_new);
    let response = SignalWithStartResponse {
        workflow_execution_id: execution_id.to_string(),
        workflow_created: is_new,
        signal_event_sequence: sequence,
    };
    Ok((created(is_new), Json(response)))
}
