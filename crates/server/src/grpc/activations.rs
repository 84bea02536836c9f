//! Activations as messages, for polls and for the worker stream.

use flovyn_engine::ids::Payload;
use flovyn_engine::reply::Activation;
use flovyn_proto::v1;
use tonic::Status;

use super::call::Call;
use super::convert::narrow;
use super::executions;

/// The execution's input. It is read from the store only if the activation does not include the first event.
pub(super) async fn input(call: &Call, activation: &Activation) -> Result<Payload, Status> {
    let held = activation.new_events.as_ref().and_then(|events| events.first());
    if let Some((event, _)) = held.filter(|(event, _)| event.sequence == 1) {
        return Ok(event.payload.clone().unwrap_or_default());
    }
    executions::input(call, activation.execution.id).await
}

pub(super) fn execution(activation: &Activation, input: Payload) -> v1::WorkflowExecution {
    let row = &activation.execution;
    v1::WorkflowExecution {
        id: row.id.to_string(),
        kind: row.kind.to_string(),
        org_id: row.tenant_id.to_string(),
        input,
        queue: row.queue.to_string(),
        priority_ms: row.priority_seconds.saturating_mul(1_000),
        created_at_ms: row.created_ms,
        current_sequence: narrow(row.last_sequence),
        workflow_version: row.workflow_version.as_deref().map(str::to_owned),
        workflow_task_time_millis: row.created_ms,
        claim_token: activation.token,
        events_after: row.base_sequence,
        provisional: activation.provisional,
        ..v1::WorkflowExecution::default()
    }
}
