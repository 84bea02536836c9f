//! Queues: the number of queued items, pause and resume.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use flovyn_auth::Role;
use flovyn_engine::request::{PauseQueue, ResumeQueue};
use flovyn_engine::state::WorkClass;
use flovyn_rest_types::{Queue, Queues};

use super::access::Caller;
use super::error::RestError;

/// Depths up to this number are exact.
const COUNTED: i64 = 10_000;

/// List queues
///
/// Queues with waiting items, and paused queues.
#[utoipa::path(
    get,
    path = "/queues",
    operation_id = "listQueues",
    tag = "Queues",
    responses((status = 200, description = "The queues", body = Queues)),
)]
pub(super) async fn list(caller: Caller) -> Result<Json<Queues>, RestError> {
    let (store, tenant_id) = (caller.store(), caller.tenant_id());
    let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
    for depth in store.queue_depths(tenant_id, COUNTED).await? {
        let queue = queues.entry(depth.queue.to_string()).or_default();
        match depth.class {
            WorkClass::Task => queue.pending_tasks += depth.ready,
            _ => queue.pending_workflows += depth.ready,
        }
        queue.oldest_ms = queue.oldest_ms.into_iter().chain(depth.oldest_sort_ms).min();
    }
    for paused in store.paused_queue_list(tenant_id).await? {
        queues.entry(paused.name.to_string()).or_default().paused = true;
    }
    let named = queues.into_iter().map(|(name, queue)| Queue { name, ..queue });
    Ok(Json(Queues { queues: named.collect() }))
}

/// Pause a queue
///
/// No work is handed out from the queue until it is resumed. Running work continues.
#[utoipa::path(
    post,
    path = "/queues/{queue}/pause",
    operation_id = "pauseQueue",
    tag = "Queues",
    params(("queue" = String, Path, description = "Name of the queue")),
    responses((status = 204, description = "The queue is paused")),
)]
pub(super) async fn pause(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Operator)?;
    caller.run(PauseQueue { queue: name.into() }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Resume a queue
#[utoipa::path(
    post,
    path = "/queues/{queue}/resume",
    operation_id = "resumeQueue",
    tag = "Queues",
    params(("queue" = String, Path, description = "Name of the queue")),
    responses((status = 204, description = "The queue is resumed")),
)]
pub(super) async fn resume(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Operator)?;
    caller.run(ResumeQueue { queue: name.into() }).await?;
    Ok(StatusCode::NO_CONTENT)
}
