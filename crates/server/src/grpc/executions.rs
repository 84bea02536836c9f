//! Executions and tasks as applications see them.

use flovyn_engine::Code;
use flovyn_engine::failure::StoredFailure;
use flovyn_engine::ids::{ExecutionId, Payload, TaskId};
use flovyn_engine::state::{Execution, Task};
use flovyn_proto::v1;
use flovyn_rest_types::WaitingOn;
use tonic::Status;

use super::call::Call;
use super::convert::{failure_fields, narrow};
use super::status::{not_read, refuse};
use crate::view;
use crate::waiting;

/// Finds an execution. The error is the same for one of another tenant and for one that does not exist.
pub(super) async fn find(call: &Call, id: ExecutionId) -> Result<Execution, Status> {
    let row = call.api().service().store().execution_get(call.tenant_id(), id).await.map_err(not_read)?;
    row.filter(|row| !row.purging)
        .ok_or_else(|| refuse(Code::ExecutionNotFound, format!("no execution {id}")))
}

/// Finds the open execution that holds a key, or else the last one that held it.
pub(super) async fn find_by_key(call: &Call, key: &str) -> Result<Execution, Status> {
    super::convert::can_be_sought("key", key)?;
    let store = call.api().service().store();
    let row = crate::by_key::execution(store.as_ref(), call.tenant_id(), key).await.map_err(not_read)?;
    row.ok_or_else(|| refuse(Code::ExecutionNotFound, format!("no execution has the key '{key}'")))
}

/// Finds a task. The error is the same for one of another tenant and for one that does not exist.
pub(super) async fn find_task(call: &Call, id: TaskId) -> Result<Task, Status> {
    let row = call.api().service().store().task_get(call.tenant_id(), id).await.map_err(not_read)?;
    row.filter(|row| !row.purging).ok_or_else(|| refuse(Code::TaskNotFound, format!("no task {id}")))
}

/// The fields of an execution that a listing shows.
pub(super) fn listed(row: &Execution) -> v1::ExecutionInfo {
    v1::ExecutionInfo {
        id: row.id.to_string(),
        kind: row.kind.to_string(),
        status: row.status.to_string(),
        queue: row.queue.to_string(),
        workflow_version: row.workflow_version.as_deref().map(str::to_owned),
        priority_seconds: narrow(row.priority_seconds),
        parent_id: row.parent_id.map(|id| id.to_string()),
        retry_of: row.retry_of.map(|id| id.to_string()),
        idempotency_key: row.idempotency_key.as_deref().map(str::to_owned),
        created_at_ms: row.created_ms,
        started_at_ms: row.started_ms,
        finished_at_ms: row.finished_ms,
        last_sequence: row.last_sequence,
        cancel_requested: row.cancel_requested_ms.is_some(),
        traceparent: row.traceparent.as_deref().map(str::to_owned),
        ..v1::ExecutionInfo::default()
    }
}

/// The input, which is stored in the first event.
pub(super) async fn input(call: &Call, id: ExecutionId) -> Result<Payload, Status> {
    let store = call.api().service().store();
    let first = store.event_page(call.tenant_id(), id, 0, 1).await.map_err(not_read)?;
    Ok(first.into_iter().next().and_then(|logged| logged.event.payload).unwrap_or_default())
}

/// An execution with all fields.
pub(super) async fn whole(call: &Call, row: Execution) -> Result<v1::ExecutionInfo, Status> {
    let view = view::execution(call.api(), &row).await.map_err(not_read)?;
    let (failure_type, failure_details) = failure_fields(view.failure);
    Ok(v1::ExecutionInfo {
        labels: view.labels.into_iter().collect(),
        input: view.input,
        output: view.output,
        error: view.error,
        failure_type,
        failure_details,
        unread_signals: view.unread_signals,
        waiting_on: view.waiting.iter().map(waiting::describe).map(waiting_on).collect(),
        ..listed(&row)
    })
}

pub(super) async fn task(call: &Call, row: Task) -> Result<v1::TaskInfo, Status> {
    let waiting = match row.status.is_terminal() {
        true => None,
        false => call.api().service().why_task(call.tenant_id(), row.id).await.map_err(not_read)?,
    };
    Ok(v1::TaskInfo {
        id: row.id.to_string(),
        task_type: row.task_type.to_string(),
        status: row.status.to_string(),
        queue: row.queue.to_string(),
        workflow_execution_id: row.execution_id.map(|id| id.to_string()).unwrap_or_default(),
        execution_count: narrow(row.execution_count),
        max_retries: narrow(row.max_retries),
        input: row.input,
        output: row.output,
        error: row.error.as_deref().map(str::to_owned),
        progress: row.progress,
        progress_details: row.progress_details.as_deref().unwrap_or_default().to_owned(),
        created_at_ms: row.created_ms,
        started_at_ms: row.started_ms,
        finished_at_ms: row.finished_ms,
        waiting_on: waiting.as_ref().map(waiting::describe).map(waiting_on),
        failure: row.failure.as_ref().map(task_failure),
    })
}

fn task_failure(stored: &Payload) -> v1::TaskFailure {
    let StoredFailure { failure, retryable, .. } = StoredFailure::read(Some(stored));
    let (failure_type, failure_details) = failure_fields(failure);
    v1::TaskFailure { failure_type, failure_details, non_retryable: retryable == Some(false) }
}

fn waiting_on(item: WaitingOn) -> v1::WaitingOn {
    let WaitingOn { kind, id, name, message, until_ms } = item;
    v1::WaitingOn { kind, id, name, message, until_ms }
}
