//! Reads one execution.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use flovyn_engine::Code;
use flovyn_engine::ids::{ExecutionId, canonical_id};
use flovyn_engine::state;
use flovyn_rest_types::{Execution, StatusNow};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::access::Caller;
use super::body::json;
use super::error::RestError;
use super::execution_info::whole;

/// Reads an id from a path. Text that is not a UUID is not found; a UUID in another spelling is refused.
pub(super) fn id(text: &str, code: Code, what: &str) -> Result<Uuid, RestError> {
    let found = canonical_id(text).filter(|id| !id.is_nil());
    if found.is_none() && Uuid::try_parse(text).is_ok_and(|id| !id.is_nil()) {
        return Err(misspelt(what, text));
    }
    found.ok_or_else(|| RestError::new(code, format!("{what} '{text}' not found")))
}

/// The error for a UUID that is not in the standard spelling.
pub(super) fn misspelt(what: &str, text: &str) -> RestError {
    RestError::new(Code::InvalidId, format!("{what} '{text}' is not a UUID in lower case with hyphens"))
}

pub(super) fn execution_id(text: &str) -> Result<ExecutionId, RestError> {
    id(text, Code::ExecutionNotFound, "Workflow execution")
}

pub(super) async fn find(caller: &Caller, id: ExecutionId) -> Result<state::Execution, RestError> {
    let row = caller.store().execution_get(caller.tenant_id(), id).await?.filter(|row| !row.purging);
    row.ok_or_else(|| missing(id))
}

fn missing(id: ExecutionId) -> RestError {
    RestError::new(Code::ExecutionNotFound, format!("Workflow execution '{id}' not found"))
}

/// The execution when it finishes, or its current state when the time is up.
pub(super) async fn wait_for(
    caller: &Caller,
    id: ExecutionId,
    wait: Duration,
) -> Result<Execution, RestError> {
    let row = crate::finish::finished(caller.api(), caller.tenant_id(), id, wait).await?;
    let row = row.filter(|row| !row.purging).ok_or_else(|| missing(id))?;
    whole(caller, &row).await
}

/// Get an execution
///
/// With its labels, input and outcome. For an open execution, also what it waits for.
#[utoipa::path(
    get,
    path = "/workflow-executions/{executionId}",
    operation_id = "getExecution",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution")),
    responses((status = 200, description = "The execution", body = Execution)),
)]
pub(super) async fn get(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<Execution>, RestError> {
    let row = find(&caller, execution_id(&name)?).await?;
    Ok(Json(whole(&caller, &row).await?))
}

/// Get the status of an execution
#[utoipa::path(
    get,
    path = "/workflows/{executionId}/status",
    operation_id = "getWorkflowStatus",
    tag = "Workflows",
    params(("executionId" = String, Path, description = "Id of the execution")),
    responses((status = 200, description = "Its status", body = StatusNow)),
)]
pub(super) async fn status(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<StatusNow>, RestError> {
    let row = find(&caller, execution_id(&name)?).await?;
    Ok(Json(StatusNow { workflow_execution_id: row.id.to_string(), status: row.status.to_string() }))
}

/// The values that a workflow has set with `set_state`: any JSON, by key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = BTreeMap<String, Value>)]
pub(super) struct ExecutionState(BTreeMap<String, Option<Box<RawValue>>>);

/// Get the state of an execution
#[utoipa::path(
    get,
    path = "/workflow-executions/{executionId}/state",
    operation_id = "getExecutionState",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution")),
    responses((status = 200, description = "Values by key", body = ExecutionState)),
)]
pub(super) async fn state(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<ExecutionState>, RestError> {
    let row = find(&caller, execution_id(&name)?).await?;
    Ok(Json(state_of(&caller, &row).await?))
}

pub(super) async fn state_of(caller: &Caller, row: &state::Execution) -> Result<ExecutionState, RestError> {
    let (store, tenant_id) = (caller.store(), caller.tenant_id());
    let mut state = BTreeMap::new();
    for entry in store.execution_states(tenant_id, row.id).await? {
        // Each value is stored in the event that set it.
        let event = store.event_page(tenant_id, row.id, entry.sequence - 1, 1).await?.into_iter().next();
        let value = event.and_then(|logged| logged.event.payload).unwrap_or_default();
        state.insert(entry.name.to_string(), json(&value));
    }
    Ok(ExecutionState(state))
}
