//! An execution with everything that belongs to it, for whoever shows it. Input and outcome are in its log.

use flovyn_engine::failure::Failure;
use flovyn_engine::ids::Payload;
use flovyn_engine::state::{EventKind, Execution};
use flovyn_engine::why::Waiting;
use flovyn_store::StoreResult;

use crate::api::Api;

#[derive(Debug)]
pub(crate) struct ExecutionView {
    pub(crate) labels: Vec<(String, String)>,
    /// From its first event.
    pub(crate) input: Payload,
    /// Of a completed one, from its last event.
    pub(crate) output: Option<Payload>,
    /// Of one that ended otherwise: the error, or the reason of its cancellation.
    pub(crate) error: Option<String>,
    /// Of a failed one: what its workflow said beside the error.
    pub(crate) failure: Failure,
    /// Of one that has ended: signals that were delivered to it and that it did not read.
    pub(crate) unread_signals: i64,
    /// Of an open one: what it waits for.
    pub(crate) waiting: Vec<Waiting>,
}

/// Gathers it. The row says for which tenant.
pub(crate) async fn execution(api: &Api, row: &Execution) -> StoreResult<ExecutionView> {
    let (store, tenant_id) = (api.service().store(), row.tenant_id);
    let labels = store.execution_labels(tenant_id, row.id).await?;
    let first = store.event_page(tenant_id, row.id, 0, 1).await?;
    let mut view = ExecutionView {
        labels: labels.into_iter().map(|label| (label.name.to_string(), label.value.to_string())).collect(),
        input: first.into_iter().next().and_then(|logged| logged.event.payload).unwrap_or_default(),
        output: None,
        error: None,
        failure: Failure::default(),
        unread_signals: 0,
        waiting: Vec::new(),
    };
    if !row.status.is_terminal() {
        view.waiting = api.service().why_execution(tenant_id, row.id).await?.unwrap_or_default();
        return Ok(view);
    }
    let last = store.event_page(tenant_id, row.id, row.last_sequence - 1, 1).await?;
    if let Some(event) = last.into_iter().next().map(|logged| logged.event) {
        view.unread_signals = event.number.unwrap_or_default();
        match event.kind {
            EventKind::WorkflowCompleted => view.output = Some(event.payload.unwrap_or_default()),
            _ => {
                view.failure = event.failure().failure;
                view.error = Some(event.text.as_deref().unwrap_or_default().to_owned());
            }
        }
    }
    Ok(view)
}
