//! Follows an execution live: first the logged events after `Last-Event-ID`, then new ones. Events are always read from
//! the durable log, so none is missed or out of order.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use flovyn_engine::ids::ExecutionId;
use flovyn_service::Watch;
use futures::Stream;
use futures::stream;

use super::access::Caller;
use super::error::RestError;
use super::events;
use super::executions::{execution_id, find};

/// Events per database read.
const PAGE: usize = 100;
/// How often the log is read, on a database that other processes write to.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The position of a follower.
struct Follower {
    caller: Caller,
    watch: Watch,
    id: ExecutionId,
    last: i64,
    page: std::vec::IntoIter<flovyn_rest_types::Event>,
}

/// Follow an execution live
///
/// Server-sent events: each event has the same form as in the history, with its sequence number as the id. To resume
/// after a
/// broken connection, send `Last-Event-ID`. The stream ends when the execution ends.
#[utoipa::path(
    get,
    path = "/workflow-executions/{executionId}/stream",
    operation_id = "followExecution",
    tag = "Executions",
    params(
        ("executionId" = String, Path, description = "Id of the execution"),
        ("Last-Event-ID" = Option<i64>, Header, description = "The sequence number of the last known event"),
    ),
    responses((
        status = 200, description = "Events as they occur", content_type = "text/event-stream", body = String,
        example = "id: 1\nevent: WORKFLOW_STARTED\ndata: {\"sequence\":1,\"eventType\":\"WORKFLOW_STARTED\"}\n\n",
    )),
)]
pub(super) async fn execution(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, RestError> {
    let id = execution_id(&name)?;
    // Subscribe before reading, so that no event in between is missed.
    let watch = caller.api().service().watch(caller.tenant_id(), id);
    find(&caller, id).await?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let follower =
        Follower { caller, watch, id, last: last.unwrap_or(0).max(0), page: Vec::new().into_iter() };
    let events = stream::unfold(follower, next);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

async fn next(mut follower: Follower) -> Option<(Result<Event, Infallible>, Follower)> {
    loop {
        if let Some(info) = follower.page.next() {
            follower.last = info.sequence;
            let event = Event::default().id(info.sequence.to_string()).event(&info.event_type);
            // This value always serialises.
            let event = event.json_data(&info).unwrap_or_default();
            return Some((Ok(event), follower));
        }
        let (store, tenant_id) = (follower.caller.store().clone(), follower.caller.tenant_id());
        let page = store.event_page(tenant_id, follower.id, follower.last, PAGE).await.ok()?;
        if !page.is_empty() {
            follower.page = page.iter().map(events::event).collect::<Vec<_>>().into_iter();
            continue;
        }
        let row = store.execution_get(tenant_id, follower.id).await.ok()??;
        if row.status.is_terminal() && follower.last >= row.last_sequence {
            return None;
        }
        let api = follower.caller.api().clone();
        let look = async {
            if store.is_shared() {
                tokio::time::sleep(LOOK_EVERY).await
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            () = follower.watch.changed() => {}
            () = look => {}
            () = api.drains() => return None,
        }
    }
}
