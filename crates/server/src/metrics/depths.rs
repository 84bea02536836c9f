//! How much work waits in each queue: read when somebody asks, but never so often that reading would take more than a
//! small part of the time. Each queue is counted up to a limit, so that a backlog of millions costs no more.

use std::time::{Duration, Instant};

use flovyn_engine::ids::TenantId;
use flovyn_store::{QueueDepth, Store, StoreResult};
use tokio::sync::Mutex;

/// What is counted of one queue, at most. The help text of the metric says so too.
const COUNTED: i64 = 10_000;
/// Queues that are shown, and tenants that are looked at, at most.
const QUEUES: usize = 1_000;
const TENANTS: usize = 1_000;
/// A reading is good for so many times as long as it took.
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
    /// Of several who ask at once, one reads.
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

/// The same of one tenant, read each time.
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
            tracing::debug!(QUEUES, "there are more queues with work than are shown");
            queues.truncate(QUEUES);
            break;
        }
    }
    Ok(queues)
}
