//! Follows a task live: the task after each change, and the data that it streams. Ends with the task.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::Path;
use axum::response::sse::{Event, KeepAlive, Sse};
use flovyn_engine::state::Task;
use flovyn_service::Watch;
use futures::Stream;
use futures::stream;

use super::access::Caller;
use super::error::RestError;
use super::task_info::task_info;
use super::tasks::{find_any, task_id};
use crate::live::LiveWatch;

/// How often the task is read, on a database that other processes write to.
const LOOK_EVERY: Duration = Duration::from_millis(500);

struct Follower {
    caller: Caller,
    changes: Watch,
    live: LiveWatch,
    /// The task as it was last sent.
    shown: Option<Task>,
}

/// Follow a task live
///
/// Server-sent events: `task` with the task after each change, `data` with the data that the task streams. The stream
/// ends when the
/// task ends.
#[utoipa::path(
    get,
    path = "/tasks/{taskId}/stream",
    operation_id = "followTask",
    tag = "Tasks",
    params(("taskId" = String, Path, description = "Id of the task")),
    responses((
        status = 200, description = "Events as they occur", content_type = "text/event-stream", body = String,
        example = "id: 3\nevent: task\ndata: {\"task_type\":\"send-email\",\"status\":\"RUNNING\"}\n\n",
    )),
)]
pub(super) async fn task(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, RestError> {
    let id = task_id(&name)?;
    // Subscribe before reading, so that no change in between is missed.
    let changes = caller.api().service().watch(caller.tenant_id(), id);
    let live = caller.api().live().watch(caller.tenant_id(), id);
    let row = find_any(&caller, id).await?;
    let follower = Follower { caller, changes, live, shown: None };
    Ok(Sse::new(stream::unfold((follower, Some(row)), next)).keep_alive(KeepAlive::default()))
}

/// The next event, and the task if it was just read.
async fn next(
    (mut follower, mut read): (Follower, Option<Task>),
) -> Option<(Result<Event, Infallible>, (Follower, Option<Task>))> {
    loop {
        if let Some(row) = read.take()
            && follower.shown.as_ref() != Some(&row)
        {
            // This value always serialises.
            let event = Event::default().event("task").id(row.version.to_string());
            let event = event.json_data(task_info(&row)).unwrap_or_default();
            follower.shown = Some(row);
            return Some((Ok(event), (follower, None)));
        }
        let shown = follower.shown.as_ref()?;
        if shown.status.is_terminal() {
            return None;
        }
        let id = shown.id;
        let (store, api) = (follower.caller.store().clone(), follower.caller.api().clone());
        let look = async {
            if store.is_shared() {
                tokio::time::sleep(LOOK_EVERY).await
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            datum = follower.live.next() => {
                let event = Event::default().event("data").id(datum.sequence.to_string()).data(one_line(&datum.payload));
                return Some((Ok(event), (follower, None)));
            }
            () = follower.changes.changed() => {}
            () = look => {}
            () = api.drains() => return None,
        }
        read = Some(store.task_get(follower.caller.tenant_id(), id).await.ok()??);
    }
}

/// Removes line breaks, which do not change the meaning of JSON. The data of an event must not contain carriage
/// returns.
fn one_line(json: &str) -> String {
    json.replace(['\r', '\n'], " ")
}
