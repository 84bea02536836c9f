//! Queues: how much waits in them, and pausing them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use flovyn_auth::Role;
use flovyn_engine::request::{PauseQueue, ResumeQueue};
use flovyn_engine::state::WorkClass;
use serde::Serialize;

use super::access::Caller;
use super::error::RestError;
use super::times::iso;

/// Depths are exact up to this.
const COUNTED: i64 = 10_000;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueueInfo {
    name: String,
    paused: bool,
    pending_workflows: i64,
    pending_tasks: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_at: Option<String>,
    #[serde(skip)]
    oldest_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(super) struct QueueList {
    queues: Vec<QueueInfo>,
}

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

pub(super) async fn pause(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Operator)?;
    caller.run(PauseQueue { queue: name.into() }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn resume(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Operator)?;
    caller.run(ResumeQueue { queue: name.into() }).await?;
    Ok(StatusCode::NO_CONTENT)
}
