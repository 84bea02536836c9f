//! Actions on an execution.

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use flovyn_auth::Role;
use flovyn_engine::Reply;
use flovyn_engine::request::{
    CancelWorkflow, DeleteWorkflow, KeySpec, ReleaseHeldBack, RetryWorkflow, SignalWorkflow,
    TerminateWorkflow,
};
use flovyn_rest_types::{Retried, RetryLinks, StatusNow};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::Caller;
use super::body::{payload, read, read_or_default};
use super::create::created;
use super::error::{RestError, unexpected};
use super::executions::execution_id;
use super::extract::Body;
use super::key_header::header_key;

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CancelRequest {
    /// The reason, kept in the history.
    pub(super) reason: String,
    /// Whether its children are cancelled too. Default true.
    pub(super) cascade: Option<bool>,
}

/// Cancel an execution
///
/// If the worker supports cancellation, the workflow is asked to stop and may clean up first. Otherwise it is cancelled
/// at once.
#[utoipa::path(
    post,
    path = "/workflow-executions/{executionId}/cancel",
    operation_id = "cancelExecution",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution")),
    request_body = Option<CancelRequest>,
    responses((status = 200, description = "The current status", body = StatusNow)),
)]
pub(super) async fn cancel(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Body(body): Body,
) -> Result<Json<StatusNow>, RestError> {
    caller.must_be(Role::Operator)?;
    let request: CancelRequest = read_or_default(&body)?;
    let execution_id = execution_id(&name)?;
    let cascade = request.cascade.unwrap_or(true);
    let reply = caller.run(CancelWorkflow { execution_id, reason: request.reason.into(), cascade }).await?;
    let Reply::Cancelled { status } = reply else { return Err(unexpected()) };
    Ok(Json(StatusNow { workflow_execution_id: execution_id.to_string(), status: status.to_string() }))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TerminateRequest {
    /// The reason, kept in the history.
    pub(super) reason: String,
}

/// Terminate an execution
///
/// The execution is cancelled at once, without clean-up. Its open tasks are cancelled too. Its children continue;
/// cancel or
/// terminate them one by one.
#[utoipa::path(
    post,
    path = "/workflow-executions/{executionId}/terminate",
    operation_id = "terminateExecution",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution")),
    request_body = Option<TerminateRequest>,
    responses((status = 200, description = "The current status", body = StatusNow)),
)]
pub(super) async fn terminate(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Body(body): Body,
) -> Result<Json<StatusNow>, RestError> {
    caller.must_be(Role::Operator)?;
    let request: TerminateRequest = read_or_default(&body)?;
    let execution_id = execution_id(&name)?;
    let reply = caller.run(TerminateWorkflow { execution_id, reason: request.reason.into() }).await?;
    let Reply::Cancelled { status } = reply else { return Err(unexpected()) };
    Ok(Json(StatusNow { workflow_execution_id: execution_id.to_string(), status: status.to_string() }))
}

/// Release a held-back execution
///
/// An execution is held back after its worker failed on an activation. Until its delay ends, only a worker of another
/// build
/// takes it. After this request, a worker of any build takes it.
#[utoipa::path(
    post,
    path = "/workflow-executions/{executionId}/release",
    operation_id = "releaseExecution",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution")),
    responses((status = 200, description = "The current status", body = StatusNow)),
)]
pub(super) async fn release(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<StatusNow>, RestError> {
    caller.must_be(Role::Operator)?;
    let execution_id = execution_id(&name)?;
    let Reply::Released { status } = caller.run(ReleaseHeldBack { execution_id }).await? else {
        return Err(unexpected());
    };
    Ok(Json(StatusNow { workflow_execution_id: execution_id.to_string(), status: status.to_string() }))
}

/// Retry a failed or cancelled execution
///
/// Starts a new execution with the same input, linked to the old one.
#[utoipa::path(
    post,
    path = "/workflow-executions/{executionId}/retry",
    operation_id = "retryExecution",
    tag = "Executions",
    params(
        ("executionId" = String, Path, description = "Id of the failed or cancelled execution"),
        ("Idempotency-Key" = Option<String>, Header, description = "Sent again with it, the same retry is answered, as long as it has not failed and the key has not expired"),
    ),
    responses(
        (status = 201, description = "The new execution", body = Retried),
        (status = 200, description = "The execution that holds the idempotency key", body = Retried),
    ),
)]
pub(super) async fn retry(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Retried>), RestError> {
    caller.must_be(Role::Operator)?;
    let retry_of = execution_id(&name)?;
    let key = header_key(&headers)?.map(|name| KeySpec { name: name.into(), ttl_ms: None });
    let reply = caller.run(RetryWorkflow { execution_id: retry_of, key }).await?;
    let Reply::Started(started) = reply else { return Err(unexpected()) };
    let path = format!("workflow-executions/{}", started.execution_id);
    let answer = Retried {
        workflow_execution_id: started.execution_id.to_string(),
        retry_of: retry_of.to_string(),
        status: started.status.to_string(),
        links: RetryLinks { own: caller.link(&path) },
    };
    Ok((created(started.key_new), Json(answer)))
}

/// Delete a finished execution
///
/// Deletes the execution with its history and its tasks.
#[utoipa::path(
    delete,
    path = "/workflow-executions/{executionId}",
    operation_id = "deleteExecution",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution")),
    responses((status = 204, description = "The execution is deleted")),
)]
pub(super) async fn delete(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Admin)?;
    caller.run(DeleteWorkflow { execution_id: execution_id(&name)? }).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SignalRequest {
    #[serde(alias = "signalName", alias = "signal_name")]
    #[schema(min_length = 1, max_length = 255)]
    pub(super) name: String,
    /// Any JSON. Default null.
    #[serde(alias = "signalValue", alias = "signal_value")]
    #[schema(value_type = Value, required = false)]
    pub(super) value: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignalResponse {
    /// The sequence number of the signal's event in the history.
    signal_event_sequence: i64,
}

/// Send a signal to an execution
#[utoipa::path(
    post,
    path = "/workflow-executions/{executionId}/signal",
    operation_id = "signalExecution",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution")),
    request_body = SignalRequest,
    responses((status = 202, description = "The signal is in the history", body = SignalResponse)),
)]
pub(super) async fn signal(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Body(body): Body,
) -> Result<(StatusCode, Json<SignalResponse>), RestError> {
    caller.must_be(Role::Operator)?;
    let request: SignalRequest = read(&body)?;
    let signal = SignalWorkflow {
        execution_id: execution_id(&name)?,
        name: request.name.into(),
        value: payload(request.value, "null"),
    };
    let Reply::Signalled { sequence, .. } = caller.run(signal).await? else { return Err(unexpected()) };
    Ok((StatusCode::ACCEPTED, Json(SignalResponse { signal_event_sequence: sequence })))
}
