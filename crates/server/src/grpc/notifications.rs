//! Notifies workers that a queue has work: a hint for workers that prefer notifications to polls.

use std::time::Duration;

use flovyn_engine::ids::Text;
use flovyn_engine::state::WorkClass;
use flovyn_proto::v1;
use futures::Stream;
use futures::stream;
use tonic::Status;

use super::call::Call;
use super::status::not_read;

/// How often a subscription checks for work.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A stream with one event each time a check finds work in the queue. It ends when the server is about to stop.
pub(super) fn of_queue(
    call: Call,
    queue: Text,
) -> impl Stream<Item = Result<v1::WorkAvailableEvent, Status>> + Send {
    stream::unfold((call, queue, true), |(call, queue, first)| async move {
        let mut first = first;
        loop {
            if !first {
                tokio::select! {
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    () = call.api().drains() => return None,
                }
            }
            first = false;
            match look(&call, &queue).await {
                Ok(None) => {}
                Ok(Some(event)) => return Some((Ok(event), (call, queue, false))),
                Err(status) => return Some((Err(status), (call, queue, false))),
            }
        }
    })
}

async fn look(call: &Call, queue: &Text) -> Result<Option<v1::WorkAvailableEvent>, Status> {
    let store = call.api().service().store();
    for class in [WorkClass::Workflow, WorkClass::Task] {
        let lanes = store.lanes_of_queue(call.tenant_id(), class, queue, 1).await.map_err(not_read)?;
        if !lanes.is_empty() {
            return Ok(Some(v1::WorkAvailableEvent {
                org_id: call.tenant_id().to_string(),
                queue: queue.to_string(),
                timestamp_ms: store.now().await.map_err(not_read)?.ms,
            }));
        }
    }
    Ok(None)
}
