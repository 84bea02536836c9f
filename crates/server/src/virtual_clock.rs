//! The clock of `flovyn dev --virtual-clock`. Product time moves only on request; leases use real time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use flovyn_engine::Now;
use flovyn_engine::state::{ClockKind, ExecutionStatus, TaskStatus};
use flovyn_service::Service;
use flovyn_store::{Clock, ExecutionFilter, Page, StoreResult, SystemClock, TaskFilter};
use tokio::time::Instant;

/// How often to check whether the system has settled.
const LOOK: Duration = Duration::from_millis(5);
/// How long to wait for claimed work and due rows before time moves on without them. A commit restarts the wait.
const CLAIMED: Duration = Duration::from_secs(10);
/// How long to wait for ready work that nobody claims before time moves on without it.
const WAITING: Duration = Duration::from_millis(500);
/// The most rows that are checked per tenant. Time moves without waiting for further rows.
const PAGE: usize = 1_000;

#[derive(Debug)]
pub struct VirtualClock {
    ms: AtomicI64,
    // Only one advance runs at a time: two could skip each other's due times.
    advancing: tokio::sync::Mutex<()>,
}

impl Default for VirtualClock {
    /// Starts at the real time.
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
    /// Moves time forward and stops at every due time until the work that it starts has settled. Returns the new
    /// time.
    ///
    /// # Errors
    /// Fails if the store cannot be read. Time then stays at the last due time that was reached.
    pub async fn advance(&self, service: &Service, by_ms: i64) -> StoreResult<i64> {
        let _alone = self.advancing.lock().await;
        settle(service, self.now().ms).await?;
        let target_ms = self.now().ms.saturating_add(by_ms);
        while let Some(next_ms) = service.store().due_next(ClockKind::Product).await? {
            let now_ms = self.now().ms;
            // If a due row remains, the loop has set it aside, so stepping further cannot fire it.
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
    /// There is ready work that a worker might claim.
    Waiting,
    /// There are due rows that have not fired, or work that a worker has claimed.
    Busy,
}

/// Waits until nothing more happens at this time without external input, or until the time limit.
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
