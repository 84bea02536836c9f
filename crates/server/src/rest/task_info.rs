//! The JSON of a task. Its names are in snake case, as users of the tasks API expect.

use flovyn_engine::failure::StoredFailure;
use flovyn_engine::state;
use flovyn_engine::state::TaskStatus as Status;
use flovyn_rest_types::Task;

use super::body::json;

pub(super) fn task_info(row: &state::Task) -> Task {
    let done = row.status == Status::Completed;
    // Rows of earlier versions have no stored failure.
    let StoredFailure { failure, retryable, .. } =
        StoredFailure::read(row.failure.as_ref().filter(|_| !done));
    Task {
        id: row.id.to_string(),
        tenant_id: row.tenant_id.to_string(),
        task_type: row.task_type.to_string(),
        status: row.status.to_string(),
        input: json(&row.input),
        output: row.output.as_deref().and_then(json),
        error: row.error.as_deref().filter(|_| !done).map(str::to_owned),
        failure_type: failure.kind.as_deref().map(str::to_owned),
        failure_details: failure.details.as_deref().and_then(json),
        retryable,
        queue: row.queue.to_string(),
        execution_count: row.execution_count,
        max_retries: row.max_retries,
        progress: if done { 1.0 } else { row.progress },
        progress_details: row.progress_details.as_deref().map(str::to_owned),
        worker_id: row.worker.as_deref().map(str::to_owned),
        workflow_execution_id: row.execution_id.map(|id| id.to_string()),
        idempotency_key: row.idempotency_key.as_deref().map(str::to_owned),
        created_ms: row.created_ms,
        scheduled_ms: row.scheduled_ms,
        started_ms: row.started_ms,
        completed_ms: row.finished_ms,
        waiting_on: None,
    }
}
