//! The clock of `flovyn dev --virtual-clock`: product time moves only when told to, leases stay on real time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use flovyn_engine::Now;
use flovyn_engine::state::{ClockKind, ExecutionStatus, TaskStatus};
use flovyn_service::Service;
use flovyn_store::{Clock, ExecutionFilter, Page, StoreResult, SystemClock, TaskFilter};
use tokio::time::Instant;

/// How often to look whether what was started has settled.
const LOOK: Duration = Duration::from_millis(5);
/// Claimed work may take so long before time goes on without it.
const CLAIMED: Duration = Duration::from_secs(10);
/// Work that waits is left alone after so long: nobody seems to take it.
const WAITING: Duration = Duration::from_millis(500);
/// Rows looked at per tenant; beyond them, time moves without waiting.
const PAGE: usize = 1_000;

#[derive(Debug)]
pub struct VirtualClock {
    ms: AtomicI64,
    // One advance at a time: two would overtake each other's due moments.
    advancing: tokio::sync::Mutex<()>,
}

impl Default for VirtualClock {
    /// Stands at the real time.
    fn default() -> Self {
        Self { ms: AtomicI64::new(SystemClock.now().ms), advancing: tokio::sync::Mutex::default() }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Now {
        Now { ms: self.ms.load(Ordering::SeqCst), lease_ms: SystemClock.now().lease_ms }
    }
}

impl VirtualClock {
    /// Moves time forward, stopping at every due moment until what it starts has settled. Returns the new time.
    ///
    /// # Errors
    /// When the store cannot be read. Time then stands where it got to.
    pub async fn advance(&self, service: &Service, by_ms: i64) -> StoreResult<i64> {
        let _alone = self.advancing.lock().await;
        settle(service, self.now().ms).await?;
        let target_ms = self.now().ms.saturating_add(by_ms);
        while let Some(next_ms) = service.store().due_next(ClockKind::Product).await? {
            let now_ms = self.now().ms;
            // A row that is due and stays is set aside by the loop: stepping cannot help it.
            if next_ms > target_ms || next_ms <= now_ms {
                break;
            }
            self.move_to(service, next_ms);
            settle(service, next_ms).await?;
        }
        self.move_to(service, target_ms);
        settle(service, target_ms).await?;
        Ok(target_ms)
    }

    fn move_to(&self, service: &Service, ms: i64) {
        self.ms.fetch_max(ms, Ordering::SeqCst);
        service.clock_moved();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Idle,
    /// Work that somebody might take.
    Waiting,
    /// Due rows not yet fired, or work that somebody has.
    Busy,
}

/// Waits until nothing more happens by itself at this moment, or for as long as is reasonable.
async fn settle(service: &Service, now_ms: i64) -> StoreResult<()> {
    let (mut busy_until, mut waiting_until) = (Instant::now() + CLAIMED, Instant::now() + WAITING);
    let mut commits = service.stats().figures().commits;
    loop {
        let until = match activity(service, now_ms).await? {
            Activity::Idle => return Ok(()),
            Activity::Waiting => waiting_until,
            Activity::Busy => busy_until,
        };
        if Instant::now() >= until {
            return Ok(());
        }
        let commits_now = service.stats().figures().commits;
        if commits_now != commits {
            commits = commits_now;
            (busy_until, waiting_until) = (Instant::now() + CLAIMED, Instant::now() + WAITING);
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn activity(service: &Service, now_ms: i64) -> StoreResult<Activity> {
    let store = service.store();
    if !store.due_page(ClockKind::Product, now_ms, 1).await?.is_empty() {
        return Ok(Activity::Busy);
    }
    let mut activity = Activity::Idle;
    for tenant in store.tenant_list(None, PAGE).await? {
        let open = ExecutionFilter { open_only: true, ..ExecutionFilter::default() };
        let page = Page { after: None, offset: 0, limit: PAGE };
        for execution in store.execution_list(tenant.id, &open, page).await? {
            if execution.status == ExecutionStatus::Running {
                return Ok(Activity::Busy);
            }
            let tasks = store.execution_tasks(tenant.id, execution.id, true, None, PAGE).await?;
            if tasks.iter().any(|task| task.status == TaskStatus::Running) {
                return Ok(Activity::Busy);
            }
        }
        let running = TaskFilter { status: Some(TaskStatus::Running), ..TaskFilter::default() };
        if store.task_count(tenant.id, &running, 1).await? > 0 {
            return Ok(Activity::Busy);
        }
        if store.queue_depths(tenant.id, 1).await?.iter().any(|depth| depth.ready > 0) {
            activity = Activity::Waiting;
        }
    }
    Ok(activity)
}
