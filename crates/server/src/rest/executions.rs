//! Executions: looking at them and acting on them.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use flovyn_auth::Role;
use flovyn_engine::ids::ExecutionId;
use flovyn_engine::request::{
    CancelWorkflow, DeleteWorkflow, RetryWorkflow, SignalWorkflow, TerminateWorkflow,
};
use flovyn_engine::state::{Execution, ExecutionStatus, SmallEnum};
use flovyn_engine::{Code, Reply};
use flovyn_store::ExecutionFilter;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::access::Caller;
use super::body::{json as raw, payload, read, read_or_default};
use super::cursor;
use super::error::RestError;
use super::extract::{Body, Query};
use super::page::page;
use super::tasks::TaskInfo;
use super::times::{iso, moment, optional_iso};
use super::trigger::unexpected;
use crate::view;
use crate::waiting;

/// Tasks of an execution in one answer.
const MAX_TASKS: usize = 1_000;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecutionInfo {
    id: String,
    kind: String,
    pub(super) status: String,
    task_queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    priority_seconds: i64,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    last_sequence: i64,
    cancel_requested: bool,
    // Not in listings.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_on: Option<Vec<Value>>,
}

fn listed(row: &Execution) -> ExecutionInfo {
    ExecutionInfo {
        id: row.id.to_string(),
        kind: row.kind.to_string(),
        status: row.status.to_string(),
        task_queue: row.queue.to_string(),
        version: row.workflow_version.as_deref().map(str::to_owned),
        priority_seconds: row.priority_seconds,
        created_at: iso(row.created_ms),
        scheduled_at: optional_iso(row.scheduled_ms),
        started_at: optional_iso(row.started_ms),
        finished_at: optional_iso(row.finished_ms),
        parent_id: row.parent_id.map(|id| id.to_string()),
        retry_of: row.retry_of.map(|id| id.to_string()),
        idempotency_key: row.idempotency_key.as_deref().map(str::to_owned),
        last_sequence: row.last_sequence,
        cancel_requested: row.cancel_requested_ms.is_some(),
        labels: None,
        input: None,
        output: None,
        error: None,
        waiting_on: None,
    }
}

/// Everything about one execution.
async fn whole(caller: &Caller, row: &Execution) -> Result<ExecutionInfo, RestError> {
    let view = view::execution(caller.api(), row).await?;
    let waiting = view.waiting.iter().map(waiting::describe).map(|item| item.json());
    Ok(ExecutionInfo {
        labels: Some(view.labels.into_iter().collect()),
        input: raw(&view.input),
        output: view.output.as_deref().and_then(raw),
        error: view.error,
        waiting_on: (!row.status.is_terminal()).then(|| waiting.collect()),
        ..listed(row)
    })
}

/// An id in a path. What is no id is not found either.
pub(super) fn id(text: &str, code: Code, what: &str) -> Result<Uuid, RestError> {
    let found = Uuid::try_parse(text).ok().filter(|id| !id.is_nil());
    found.ok_or_else(|| RestError::new(code, format!("{what} '{text}' not found")))
}

pub(super) fn execution_id(text: &str) -> Result<ExecutionId, RestError> {
    id(text, Code::ExecutionNotFound, "Workflow execution")
}

pub(super) async fn find(caller: &Caller, id: ExecutionId) -> Result<Execution, RestError> {
    let row = caller.store().execution_get(caller.tenant_id(), id).await?.filter(|row| !row.purging);
    row.ok_or_else(|| RestError::new(Code::ExecutionNotFound, format!("Workflow execution '{id}' not found")))
}

/// The execution when it has finished, or when the time is up.
pub(super) async fn wait_for(
    caller: &Caller,
    id: ExecutionId,
    wait: Duration,
) -> Result<ExecutionInfo, RestError> {
    let row = crate::finish::finished(caller.api(), caller.tenant_id(), id, wait).await?;
    match row.filter(|row| !row.purging) {
        Some(row) => whole(caller, &row).await,
        None => Err(RestError::new(Code::ExecutionNotFound, format!("Workflow execution '{id}' not found"))),
    }
}

pub(super) async fn get(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<ExecutionInfo>, RestError> {
    let row = find(&caller, execution_id(&name)?).await?;
    Ok(Json(whole(&caller, &row).await?))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusInfo {
    workflow_execution_id: String,
    status: String,
}

pub(super) async fn status(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<StatusInfo>, RestError> {
    let row = find(&caller, execution_id(&name)?).await?;
    Ok(Json(StatusInfo { workflow_execution_id: row.id.to_string(), status: row.status.to_string() }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListQuery {
    status: Option<String>,
    kind: Option<String>,
    #[serde(alias = "queue", alias = "task_queue")]
    task_queue: Option<String>,
    /// `name:value`
    label: Option<String>,
    #[serde(alias = "parent_id")]
    parent_id: Option<String>,
    #[serde(alias = "created_after")]
    created_after: Option<String>,
    #[serde(alias = "created_before")]
    created_before: Option<String>,
    limit: Option<usize>,
    offset: Option<usize>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecutionList {
    executions: Vec<ExecutionInfo>,
    limit: usize,
    offset: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) async fn list(
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<ExecutionList>, RestError> {
    let page = page(query.limit, query.offset, query.cursor.as_deref())?;
    let filter = filter(query)?;
    listing(&caller, &filter, page).await
}

pub(super) async fn children(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<ListQuery>,
) -> Result<Json<ExecutionList>, RestError> {
    let parent = find(&caller, execution_id(&name)?).await?;
    let page = page(query.limit, query.offset, query.cursor.as_deref())?;
    let filter = ExecutionFilter { parent_id: Some(parent.id), ..filter(query)? };
    listing(&caller, &filter, page).await
}

async fn listing(
    caller: &Caller,
    filter: &ExecutionFilter,
    page: flovyn_store::Page,
) -> Result<Json<ExecutionList>, RestError> {
    let rows = caller.store().execution_list(caller.tenant_id(), filter, page).await?;
    let next = rows.last().filter(|_| rows.len() == page.limit);
    let next_cursor = next.map(|row| cursor::write(row.created_ms, row.id));
    let executions = rows.iter().map(listed).collect();
    Ok(Json(ExecutionList { executions, limit: page.limit, offset: page.offset, next_cursor }))
}

/// One of an enumeration by its name.
pub(super) fn one_of<E: SmallEnum>(field: &str, text: &str) -> Result<E, RestError> {
    E::ALL.iter().find(|known| known.name() == text).copied().ok_or_else(|| {
        let names: Vec<&str> = E::ALL.iter().map(|known| known.name()).collect();
        RestError::new(
            Code::InvalidValue,
            format!("Invalid {field}: '{text}'. Expected: {}", names.join(", ")),
        )
    })
}

/// Text to search for: what no row can hold is refused before a database sees it.
pub(super) fn sought(
    field: &str,
    text: Option<String>,
) -> Result<Option<flovyn_engine::ids::Text>, RestError> {
    match text {
        Some(text) if text.contains('\0') => {
            Err(RestError::new(Code::InvalidText, format!("{field} contains U+0000")))
        }
        Some(text) if !text.is_empty() => Ok(Some(text.into())),
        _ => Ok(None),
    }
}

fn filter(query: ListQuery) -> Result<ExecutionFilter, RestError> {
    let status = query.status.as_deref().map(|text| one_of::<ExecutionStatus>("status", text)).transpose()?;
    let label = match sought("label", query.label)? {
        None => None,
        Some(text) => {
            let wrong = || RestError::new(Code::InvalidValue, "Invalid label. Expected: name:value");
            let (name, value) = text.split_once(':').ok_or_else(wrong)?;
            Some((name.into(), value.into()))
        }
    };
    let parent_id = query.parent_id.as_deref().map(|text| {
        Uuid::try_parse(text)
            .map_err(|_| RestError::new(Code::InvalidId, format!("parentId '{text}' is not a UUID")))
    });
    let time = |field: &str, text: Option<String>| text.map(|text| moment(field, &text)).transpose();
    Ok(ExecutionFilter {
        status,
        kind: sought("kind", query.kind)?,
        queue: sought("taskQueue", query.task_queue)?,
        label,
        parent_id: parent_id.transpose()?,
        created_from_ms: time("createdAfter", query.created_after)?,
        created_before_ms: time("createdBefore", query.created_before)?,
        ..ExecutionFilter::default()
    })
}

#[derive(Debug, Serialize)]
pub(super) struct Tasks {
    tasks: Vec<TaskInfo>,
}

pub(super) async fn tasks(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<Tasks>, RestError> {
    let row = find(&caller, execution_id(&name)?).await?;
    let rows = caller.store().execution_tasks(caller.tenant_id(), row.id, false, None, MAX_TASKS).await?;
    Ok(Json(Tasks { tasks: rows.iter().map(TaskInfo::of).collect() }))
}

/// The state as the workflow set it: each value is in the event that set it.
pub(super) async fn state(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Json<BTreeMap<String, Option<Box<RawValue>>>>, RestError> {
    let row = find(&caller, execution_id(&name)?).await?;
    let (store, tenant_id) = (caller.store(), caller.tenant_id());
    let mut state = BTreeMap::new();
    for entry in store.execution_states(tenant_id, row.id).await? {
        let event = store.event_page(tenant_id, row.id, entry.sequence - 1, 1).await?.into_iter().next();
        let value = event.and_then(|logged| logged.event.payload).unwrap_or_default();
        state.insert(entry.name.to_string(), raw(&value));
    }
    Ok(Json(state))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Reason {
    reason: String,
    cascade: Option<bool>,
}

pub(super) async fn cancel(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Body(body): Body,
) -> Result<Json<StatusInfo>, RestError> {
    caller.must_be(Role::Operator)?;
    let request: Reason = read_or_default(&body)?;
    let execution_id = execution_id(&name)?;
    let cascade = request.cascade.unwrap_or(true);
    let reply = caller.run(CancelWorkflow { execution_id, reason: request.reason.into(), cascade }).await?;
    let Reply::Cancelled { status } = reply else { return Err(unexpected()) };
    Ok(Json(StatusInfo { workflow_execution_id: execution_id.to_string(), status: status.to_string() }))
}

pub(super) async fn terminate(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Body(body): Body,
) -> Result<Json<StatusInfo>, RestError> {
    caller.must_be(Role::Operator)?;
    let request: Reason = read_or_default(&body)?;
    let execution_id = execution_id(&name)?;
    let reply = caller.run(TerminateWorkflow { execution_id, reason: request.reason.into() }).await?;
    let Reply::Cancelled { status } = reply else { return Err(unexpected()) };
    Ok(Json(StatusInfo { workflow_execution_id: execution_id.to_string(), status: status.to_string() }))
}

/// A new execution, linked to the failed one.
pub(super) async fn retry(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<(StatusCode, Json<Value>), RestError> {
    caller.must_be(Role::Operator)?;
    let retry_of = execution_id(&name)?;
    let reply = caller.run(RetryWorkflow { execution_id: retry_of }).await?;
    let Reply::Started(started) = reply else { return Err(unexpected()) };
    let path = format!("workflow-executions/{}", started.execution_id);
    let answer = json!({
        "workflowExecutionId": started.execution_id.to_string(),
        "retryOf": retry_of.to_string(),
        "status": started.status.to_string(),
        "links": { "self": caller.link(&path) },
    });
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Only a finished one.
pub(super) async fn delete(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Admin)?;
    caller.run(DeleteWorkflow { execution_id: execution_id(&name)? }).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignalRequest {
    #[serde(alias = "signalName", alias = "signal_name")]
    name: String,
    #[serde(alias = "signalValue", alias = "signal_value")]
    value: Option<Box<RawValue>>,
}

pub(super) async fn signal(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Body(body): Body,
) -> Result<(StatusCode, Json<Value>), RestError> {
    caller.must_be(Role::Operator)?;
    let request: SignalRequest = read(&body)?;
    let signal = SignalWorkflow {
        execution_id: execution_id(&name)?,
        name: request.name.into(),
        value: payload(request.value, "null"),
    };
    let Reply::Signalled { sequence, .. } = caller.run(signal).await? else { return Err(unexpected()) };
    Ok((StatusCode::ACCEPTED, Json(json!({ "signalEventSequence": sequence }))))
}
