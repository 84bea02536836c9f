//! The amount of work that waits in each queue. It is read on request, but so rarely that reading takes only a small
//! part of the time. Each queue is counted up to a limit, so that a backlog of millions costs no more.

use std::time::{Duration, Instant};

use flovyn_engine::ids::TenantId;
use flovyn_store::{QueueDepth, Store, StoreResult};
use tokio::sync::Mutex;

/// The most requests that are counted per queue. The help text of the metric states the same limit.
const COUNTED: i64 = 10_000;
/// The most queues that are shown, and the most tenants that are read.
const QUEUES: usize = 1_000;
const TENANTS: usize = 1_000;
/// A reading is reused for this many times the duration that it took.
const GOOD_FOR: u32 = 20;

#[derive(Debug, Default)]
pub(crate) struct Depths {
    last: Mutex<Option<Reading>>,
}

#[derive(Debug)]
struct Reading {
    at: Instant,
    took: Duration,
    queues: Vec<(TenantId, QueueDepth)>,
}

impl Depths {
    /// The depths of all queues. If several callers ask at once, only one of them reads.
    pub(crate) async fn read(&self, store: &dyn Store) -> StoreResult<Vec<(TenantId, QueueDepth)>> {
        let mut last = self.last.lock().await;
        if let Some(reading) = last.as_ref().filter(|reading| reading.at.elapsed() < reading.took * GOOD_FOR)
        {
            return Ok(reading.queues.clone());
        }
        let begin = Instant::now();
        let queues = read(store).await?;
        *last = Some(Reading { at: Instant::now(), took: begin.elapsed(), queues: queues.clone() });
        Ok(queues)
    }
}

/// The depths of one tenant's queues, read on every call.
pub(crate) async fn of_tenant(store: &dyn Store, tenant_id: TenantId) -> StoreResult<Vec<QueueDepth>> {
    let mut queues = store.queue_depths(tenant_id, COUNTED).await?;
    queues.truncate(QUEUES);
    Ok(queues)
}

async fn read(store: &dyn Store) -> StoreResult<Vec<(TenantId, QueueDepth)>> {
    let mut queues = Vec::new();
    for tenant in store.tenant_list(None, TENANTS).await? {
        let depths = store.queue_depths(tenant.id, COUNTED).await?;
        queues.extend(depths.into_iter().map(|depth| (tenant.id, depth)));
        if queues.len() >= QUEUES {
            tracing::debug!(QUEUES, "there are more queues with work than the metrics show");
            queues.truncate(QUEUES);
            break;
        }
    }
    Ok(queues)
}
