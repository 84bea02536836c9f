//! An execution with all its details, for display. Its input and its outcome are read from its log.

use flovyn_engine::failure::Failure;
use flovyn_engine::ids::Payload;
use flovyn_engine::state::{EventKind, Execution};
use flovyn_engine::why::Waiting;
use flovyn_store::StoreResult;

use crate::api::Api;

#[derive(Debug)]
pub(crate) struct ExecutionView {
    pub(crate) labels: Vec<(String, String)>,
    /// The input, from the first event.
    pub(crate) input: Payload,
    /// The output, from the last event. `None` unless the execution is completed.
    pub(crate) output: Option<Payload>,
    /// The error, or the reason of the cancellation. `None` if the execution is open or completed.
    pub(crate) error: Option<String>,
    /// The failure type and details that the workflow reported with its error. Empty unless the execution failed.
    pub(crate) failure: Failure,
    /// The number of signals that were delivered but not read. Zero while the execution is open.
    pub(crate) unread_signals: i64,
    /// What the execution waits for. Empty if it has ended.
    pub(crate) waiting: Vec<Waiting>,
}

/// Reads the details of the execution in this row.
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
