//! Executions by their key: the open execution that holds the key, or else the last one that held it.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use flovyn_auth::Role;
use flovyn_engine::request::{ActByKey, KeyedAction};
use flovyn_engine::{Code, Reply, state};
use flovyn_rest_types::{Execution, StatusNow};
use serde::Serialize;
use utoipa::ToSchema;

use super::access::Caller;
use super::body::{payload, read, read_or_default};
use super::error::{RestError, unexpected};
use super::execution_actions::{CancelRequest, SignalRequest, TerminateRequest};
use super::execution_info::whole;
use super::executions::{ExecutionState, state_of};
use super::extract::Body;
use super::filter::sought;

type KeyPath = Path<(String, String)>;

async fn find(caller: &Caller, key: &str) -> Result<state::Execution, RestError> {
    sought("key", Some(key.to_owned()))?;
    let row = crate::by_key::execution(caller.store().as_ref(), caller.tenant_id(), key).await?;
    let missing = || RestError::new(Code::ExecutionNotFound, format!("no execution has the key '{key}'"));
    row.ok_or_else(missing)
}

/// Get an execution by its key
///
/// The open execution that holds the key, or else the last one that held it. A slash in a key is sent as `%2F`.
#[utoipa::path(
    get,
    path = "/workflow-executions/by-key/{key}",
    operation_id = "getExecutionByKey",
    tag = "Executions",
    params(("key" = String, Path, description = "Workflow key or idempotency key", min_length = 1, max_length = 255)),
    responses((status = 200, description = "The execution", body = Execution)),
)]
pub(super) async fn get(caller: Caller, Path((_, key)): KeyPath) -> Result<Json<Execution>, RestError> {
    let row = find(&caller, &key).await?;
    Ok(Json(whole(&caller, &row).await?))
}

/// Get the state of an execution by its key
#[utoipa::path(
    get,
    path = "/workflow-executions/by-key/{key}/state",
    operation_id = "getExecutionStateByKey",
    tag = "Executions",
    params(("key" = String, Path, description = "Workflow key or idempotency key", min_length = 1, max_length = 255)),
    responses((status = 200, description = "Values by key", body = ExecutionState)),
)]
pub(super) async fn state(
    caller: Caller,
    Path((_, key)): KeyPath,
) -> Result<Json<ExecutionState>, RestError> {
    let row = find(&caller, &key).await?;
    Ok(Json(state_of(&caller, &row).await?))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignalByKeyResponse {
    /// The execution that received the signal.
    #[schema(format = "uuid")]
    workflow_execution_id: String,
    /// The sequence number of the signal's event in the history.
    signal_event_sequence: i64,
}

/// Send a signal to the execution of a key
///
/// The signal is refused if the last execution with this key has finished; use `signal-with-start` to start the next
/// one.
#[utoipa::path(
    post,
    path = "/workflow-executions/by-key/{key}/signal",
    operation_id = "signalExecutionByKey",
    tag = "Executions",
    params(("key" = String, Path, description = "Workflow key or idempotency key", min_length = 1, max_length = 255)),
    request_body = SignalRequest,
    responses((status = 202, description = "The signal is in the history", body = SignalByKeyResponse)),
)]
pub(super) async fn signal(
    caller: Caller,
    Path((_, key)): KeyPath,
    Body(body): Body,
) -> Result<(StatusCode, Json<SignalByKeyResponse>), RestError> {
    caller.must_be(Role::Operator)?;
    let request: SignalRequest = read(&body)?;
    let action = KeyedAction::Signal { name: request.name.into(), value: payload(request.value, "null") };
    let Reply::ByKey { execution_id, reply } = caller.run(ActByKey { key: key.into(), action }).await? else {
        return Err(unexpected());
    };
    let Reply::Signalled { sequence, .. } = *reply else { return Err(unexpected()) };
    let answer = SignalByKeyResponse {
        workflow_execution_id: execution_id.to_string(),
        signal_event_sequence: sequence,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// Cancel the execution of a key
///
/// If the worker supports cancellation, the workflow is asked to stop and may clean up first. Otherwise it is cancelled
/// at once.
#[utoipa::path(
    post,
    path = "/workflow-executions/by-key/{key}/cancel",
    operation_id = "cancelExecutionByKey",
    tag = "Executions",
    params(("key" = String, Path, description = "Workflow key or idempotency key", min_length = 1, max_length = 255)),
    request_body = Option<CancelRequest>,
    responses((status = 200, description = "The current status", body = StatusNow)),
)]
pub(super) async fn cancel(
    caller: Caller,
    Path((_, key)): KeyPath,
    Body(body): Body,
) -> Result<Json<StatusNow>, RestError> {
    caller.must_be(Role::Operator)?;
    let request: CancelRequest = read_or_default(&body)?;
    let cascade = request.cascade.unwrap_or(true);
    stop(&caller, key, KeyedAction::Cancel { reason: request.reason.into(), cascade }).await
}

/// Terminate the execution of a key
///
/// The execution is cancelled at once, without clean-up.
#[utoipa::path(
    post,
    path = "/workflow-executions/by-key/{key}/terminate",
    operation_id = "terminateExecutionByKey",
    tag = "Executions",
    params(("key" = String, Path, description = "Workflow key or idempotency key", min_length = 1, max_length = 255)),
    request_body = Option<TerminateRequest>,
    responses((status = 200, description = "The current status", body = StatusNow)),
)]
pub(super) async fn terminate(
    caller: Caller,
    Path((_, key)): KeyPath,
    Body(body): Body,
) -> Result<Json<StatusNow>, RestError> {
    caller.must_be(Role::Operator)?;
    let request: TerminateRequest = read_or_default(&body)?;
    stop(&caller, key, KeyedAction::Terminate { reason: request.reason.into() }).await
}

async fn stop(caller: &Caller, key: String, action: KeyedAction) -> Result<Json<StatusNow>, RestError> {
    let Reply::ByKey { execution_id, reply } = caller.run(ActByKey { key: key.into(), action }).await? else {
        return Err(unexpected());
    };
    let Reply::Cancelled { status } = *reply else { return Err(unexpected()) };
    Ok(Json(StatusNow { workflow_execution_id: execution_id.to_string(), status: status.to_string() }))
}
