//! The JSON of a workflow execution.

use flovyn_engine::state;
use flovyn_rest_types::Execution;

use super::access::Caller;
use super::body::json;
use super::error::RestError;
use crate::{view, waiting};

/// The fields that listings show.
pub(super) fn listed(row: &state::Execution) -> Execution {
    Execution {
        id: row.id.to_string(),
        kind: row.kind.to_string(),
        status: row.status.to_string(),
        task_queue: row.queue.to_string(),
        version: row.workflow_version.as_deref().map(str::to_owned),
        priority_seconds: row.priority_seconds,
        created_ms: row.created_ms,
        scheduled_ms: row.scheduled_ms,
        started_ms: row.started_ms,
        finished_ms: row.finished_ms,
        parent_id: row.parent_id.map(|id| id.to_string()),
        retry_of: row.retry_of.map(|id| id.to_string()),
        idempotency_key: row.idempotency_key.as_deref().map(str::to_owned),
        last_sequence: row.last_sequence,
        cancel_requested: row.cancel_requested_ms.is_some(),
        labels: None,
        input: None,
        output: None,
        error: None,
        failure_type: None,
        failure_details: None,
        unread_signals: 0,
        waiting_on: None,
    }
}

/// All fields of one execution.
pub(super) async fn whole(caller: &Caller, row: &state::Execution) -> Result<Execution, RestError> {
    let view = view::execution(caller.api(), row).await?;
    let waiting = view.waiting.iter().map(waiting::describe);
    Ok(Execution {
        labels: Some(view.labels.into_iter().collect()),
        input: json(&view.input),
        output: view.output.as_deref().and_then(json),
        error: view.error,
        failure_type: view.failure.kind.as_deref().map(str::to_owned),
        failure_details: view.failure.details.as_deref().and_then(json),
        unread_signals: view.unread_signals.max(0),
        waiting_on: (!row.status.is_terminal()).then(|| waiting.collect()),
        ..listed(row)
    })
}
