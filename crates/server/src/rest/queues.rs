//! Queues: the number of queued items, pause and resume.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use flovyn_auth::Role;
use flovyn_engine::request::{PauseQueue, ResumeQueue};
use flovyn_engine::state::WorkClass;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::Caller;
use super::error::RestError;
use super::times::iso;

/// Depths up to this number are exact.
const COUNTED: i64 = 10_000;

/// A queue. Depths up to 10,000 are exact.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Queue)]
pub(super) struct QueueInfo {
    name: String,
    paused: bool,
    pending_workflows: i64,
    pending_tasks: i64,
    /// Since when the oldest item waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    oldest_at: Option<String>,
    #[serde(skip)]
    oldest_ms: Option<i64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct QueueList {
    queues: Vec<QueueInfo>,
}

/// List queues
///
/// Queues with waiting items, and paused queues.
#[utoipa::path(
    get,
    path = "/queues",
    operation_id = "listQueues",
    tag = "Queues",
    responses((status = 200, description = "The queues", body = QueueList)),
)]
pub(super) async fn list(caller: Caller) -> Result<Json<QueueList>, RestError> {
    let (store, tenant_id) = (caller.store(), caller.tenant_id());
    let mut queues: BTreeMap<String, QueueInfo> = BTreeMap::new();
    for depth in store.queue_depths(tenant_id, COUNTED).await? {
        let queue = queues.entry(depth.queue.to_string()).or_default();
        match depth.class {
            WorkClass::Task => queue.pending_tasks += depth.ready,
            _ => queue.pending_workflows += depth.ready,
        }
        let oldest = queue.oldest_ms.into_iter().chain(depth.oldest_sort_ms).min();
        queue.oldest_ms = oldest;
        queue.oldest_at = oldest.map(iso);
    }
    for paused in store.paused_queue_list(tenant_id).await? {
        queues.entry(paused.name.to_string()).or_default().paused = true;
    }
    let named = queues.into_iter().map(|(name, queue)| QueueInfo { name, ..queue });
    Ok(Json(QueueList { queues: named.collect() }))
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
