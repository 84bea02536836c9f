//! Starting workflows: one, many, or with a signal.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use flovyn_auth::Role;
use flovyn_engine::reply::Started;
use flovyn_engine::request::{KeySpec, SignalWithStart, StartWorkflow, StartWorkflows};
use flovyn_engine::{Code, Reply};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::access::Caller;
use super::body::{Object, given, payload, read, read_or_default};
use super::error::RestError;
use super::executions::{ExecutionInfo, wait_for};
use super::extract::{Body, Query};
use super::times::{duration_ms, iso, moment};

/// A body may name the key, and so may this header.
const KEY_HEADER: &str = "idempotency-key";
/// Longest wait for a result.
const MAX_WAIT_MS: i64 = 300_000;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct TriggerWorkflowRequest {
    /// Only where the path does not name it.
    #[serde(alias = "workflowKind", alias = "workflow_kind")]
    kind: Option<String>,
    #[serde(deserialize_with = "given")]
    input: Option<Box<RawValue>>,
    #[serde(alias = "queue", alias = "task_queue")]
    task_queue: Option<String>,
    #[serde(alias = "priority_seconds")]
    priority_seconds: i64,
    version: Option<String>,
    #[serde(alias = "idempotency_key")]
    idempotency_key: Option<String>,
    #[serde(rename = "idempotencyKeyTTL", alias = "idempotencyKeyTtl", alias = "idempotency_key_ttl")]
    idempotency_key_ttl: Option<String>,
    #[serde(alias = "metadata")]
    labels: BTreeMap<String, String>,
    #[serde(alias = "scheduled_at")]
    scheduled_at: Option<String>,
    #[serde(alias = "execution_timeout")]
    execution_timeout: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TriggerWorkflowResponse {
    workflow_execution_id: String,
    status: String,
    kind: String,
    created_at: String,
    links: Links,
    idempotency_key_used: bool,
    idempotency_key_new: bool,
    /// Where the caller waited for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<ExecutionInfo>,
}

#[derive(Debug, Serialize)]
pub(super) struct Links {
    #[serde(rename = "self")]
    own: String,
    events: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wait {
    wait: Option<String>,
}

impl Wait {
    fn duration(&self) -> Result<Option<Duration>, RestError> {
        let Some(text) = &self.wait else { return Ok(None) };
        let ms = duration_ms("wait", Code::InvalidDuration, text)?;
        if ms > MAX_WAIT_MS {
            return Err(RestError::new(Code::InvalidDuration, "wait is up to 300s"));
        }
        Ok(Some(Duration::from_millis(ms.unsigned_abs())))
    }
}

type Created = (StatusCode, Json<TriggerWorkflowResponse>);

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
        return Err(RestError::new(Code::InvalidName, "the body names another kind than the path"));
    }
    request.kind = Some(kind);
    run(caller, request, &wait, &headers).await
}

/// The same with the kind in the body.
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
    if request.idempotency_key.is_none() {
        request.idempotency_key = header_key(headers)?;
    }
    let reply = caller.run(workflow(&caller, request)?).await?;
    let Reply::Started(started) = reply else { return Err(unexpected()) };
    let mut response = answer(&caller, &started);
    if let Some(wait) = wait {
        let execution = wait_for(&caller, started.execution_id, wait).await?;
        response.status.clone_from(&execution.status);
        response.execution = Some(execution);
    }
    let status = if started.key_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(response)))
}

pub(super) fn header_key(headers: &HeaderMap) -> Result<Option<String>, RestError> {
    let Some(value) = headers.get(KEY_HEADER) else { return Ok(None) };
    let text =
        value.to_str().map_err(|_| RestError::new(Code::InvalidName, "Idempotency-Key is not plain text"))?;
    Ok(Some(text.to_owned()))
}

fn workflow(caller: &Caller, request: TriggerWorkflowRequest) -> Result<StartWorkflow, RestError> {
    let ttl_ms = request.idempotency_key_ttl.as_deref();
    let ttl_ms = ttl_ms.map(|text| duration_ms("idempotencyKeyTTL", Code::InvalidTtl, text)).transpose()?;
    let timeout = request.execution_timeout.as_deref();
    let timeout =
        timeout.map(|text| duration_ms("executionTimeout", Code::InvalidDuration, text)).transpose()?;
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
        traceparent: caller.traceparent.clone(),
        ..StartWorkflow::new(kind, queue, payload(request.input, "{}"))
    })
}

fn answer(caller: &Caller, started: &Started) -> TriggerWorkflowResponse {
    caller.api().metrics().triggered(caller.tenant_id(), &started.kind, started.key_new);
    let path = format!("workflow-executions/{}", started.execution_id);
    TriggerWorkflowResponse {
        workflow_execution_id: started.execution_id.to_string(),
        status: started.status.to_string(),
        kind: started.kind.to_string(),
        created_at: iso(started.created_ms),
        links: Links { own: caller.link(&path), events: caller.link(&format!("{path}/events")) },
        idempotency_key_used: started.key_used,
        idempotency_key_new: started.key_new,
        execution: None,
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRequest {
    #[serde(alias = "items")]
    workflows: Vec<Object<TriggerWorkflowRequest>>,
}

#[derive(Debug, Serialize)]
pub(super) struct BatchResponse {
    workflows: Vec<TriggerWorkflowResponse>,
}

/// All of them, or none.
pub(super) async fn batch(
    caller: Caller,
    Body(body): Body,
) -> Result<(StatusCode, Json<BatchResponse>), RestError> {
    caller.must_be(Role::Operator)?;
    let request: BatchRequest = read(&body)?;
    let items =
        request.workflows.into_iter().map(|item| workflow(&caller, item.0)).collect::<Result<_, _>>()?;
    let Reply::StartedMany(started) = caller.run(StartWorkflows { items }).await? else {
        return Err(unexpected());
    };
    let workflows = started.iter().map(|started| answer(&caller, started)).collect();
    Ok((StatusCode::CREATED, Json(BatchResponse { workflows })))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignalWithStartRequest {
    #[serde(alias = "signal_name")]
    signal_name: String,
    #[serde(alias = "signal_value")]
    signal_value: Option<Box<RawValue>>,
    workflow: Object<TriggerWorkflowRequest>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignalWithStartResponse {
    workflow_execution_id: String,
    workflow_created: bool,
    signal_event_sequence: i64,
}

pub(super) async fn signal_with_start(
    caller: Caller,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<SignalWithStartResponse>), RestError> {
    caller.must_be(Role::Operator)?;
    let request: SignalWithStartRequest = read(&body)?;
    let Object(mut start) = request.workflow;
    if start.idempotency_key.is_none() {
        start.idempotency_key = header_key(&headers)?;
    }
    let start = workflow(&caller, start)?;
    let value = payload(request.signal_value, "null");
    let kind = start.kind.clone();
    let signal = SignalWithStart { start, name: request.signal_name.into(), value };
    let Reply::Signalled { execution_id, sequence, created } = caller.run(signal).await? else {
        return Err(unexpected());
    };
    caller.api().metrics().triggered(caller.tenant_id(), &kind, created);
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let response = SignalWithStartResponse {
        workflow_execution_id: execution_id.to_string(),
        workflow_created: created,
        signal_event_sequence: sequence,
    };
    Ok((status, Json(response)))
}

/// An engine that answers with the wrong kind of reply is a fault of ours.
pub(super) fn unexpected() -> RestError {
    tracing::error!("the engine gave another kind of reply than expected");
    RestError::new(Code::Internal, "an unexpected reply")
}
