//! Fires what is due: timers, timeouts, leases, delayed and retried work, follow-ups.
//!
//! Sleeps until the next due moment, and is woken when a commit brings an earlier one. Several processes may run
//! it on one database: each row is decided under lock, and whoever comes second finds it gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use flovyn_engine::reply::Fired;
use flovyn_engine::request::FireDue;
use flovyn_engine::state::{ClockKind, Due};
use flovyn_engine::{Code, Now, Reply, Row};
use flovyn_store::StoreResult;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::loops::{Options, Stopped};
use crate::service::Service;
use crate::stats::Stats;

/// A row that could not be fired is left alone for so long.
const SET_ASIDE: Duration = Duration::from_secs(30);
/// Rows that may be set aside at once.
const MAX_SET_ASIDE: usize = 1_000;
/// How soon the loop looks again while rows are being fired: they hide from it when the next one is due.
const GLANCE: Duration = Duration::from_millis(2);

/// How commits tell the loop of an earlier moment.
#[derive(Debug)]
pub(crate) struct DueSignal {
    sleeping_until_ms: [AtomicI64; 2],
    notify: Notify,
}

impl Default for DueSignal {
    fn default() -> Self {
        Self {
            sleeping_until_ms: [AtomicI64::new(i64::MIN), AtomicI64::new(i64::MIN)],
            notify: Notify::new(),
        }
    }
}

impl DueSignal {
    /// New moments, by clock: the loop wakes only if one is earlier than what it sleeps for.
    pub(crate) fn hint(&self, product_ms: Option<i64>, lease_ms: Option<i64>) {
        let earlier = |moment: Option<i64>, target: &AtomicI64| {
            moment.is_some_and(|at| at < target.load(Ordering::SeqCst))
        };
        if earlier(product_ms, &self.sleeping_until_ms[0]) || earlier(lease_ms, &self.sleeping_until_ms[1]) {
            self.notify.notify_one();
        }
    }

    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }
}

type Key = <Due as Row>::Key;

#[derive(Debug)]
pub struct DueLoop {
    service: Service,
    page: usize,
    poll: Duration,
    set_aside: BTreeMap<Key, Instant>,
    /// Rows whose firing has been submitted. The loop does not wait for them: what falls due meanwhile would be late.
    under_way: BTreeSet<Key>,
    firing: JoinSet<Vec<(Key, bool)>>,
}

impl DueLoop {
    pub fn new(service: Service, options: &Options) -> Self {
        Self {
            service,
            page: options.due_page,
            poll: options.poll,
            set_aside: BTreeMap::new(),
            under_way: BTreeSet::new(),
            firing: JoinSet::new(),
        }
    }

    pub(crate) async fn run(mut self, mut stopped: Stopped) {
        while !*stopped.borrow() {
            // Until it is known how long to sleep, every new moment matters.
            self.sleep_target(i64::MAX, i64::MAX);
            let sleep = match self.look().await {
                Ok(0) => self.until_next().await,
                Ok(_) => Duration::ZERO,
                Err(error) => {
                    tracing::warn!(%error, "the due loop could not read; trying again");
                    self.poll
                }
            };
            if sleep.is_zero() {
                continue;
            }
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = self.service.shared.due_signal.notify.notified() => {}
                Some(fired) = self.firing.join_next() => self.take_in(fired),
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Fires one page of what is due on each clock, and waits for it. Returns how many rows it took on.
    pub async fn tick(&mut self) -> StoreResult<usize> {
        let count = self.look().await?;
        while let Some(fired) = self.firing.join_next().await {
            self.take_in(fired);
        }
        Ok(count)
    }

    /// Submits one page of what is due on each clock. Returns how many rows it took on.
    async fn look(&mut self) -> StoreResult<usize> {
        while let Some(fired) = self.firing.try_join_next() {
            self.take_in(fired);
        }
        let now = self.service.store().now().await?;
        self.set_aside.retain(|_, since| since.elapsed() < SET_ASIDE);
        let product = self.page_of(ClockKind::Product, now.ms).await?;
        let lease = self.page_of(ClockKind::Lease, now.lease_ms).await?;
        let rows: Vec<Due> = product.into_iter().chain(lease).collect();
        let count = rows.len();
        if count > 0 {
            self.under_way.extend(rows.iter().map(Row::key));
            let service = self.service.clone();
            self.firing.spawn(async move {
                let fired = rows.into_iter().map(|row| fire(&service, row));
                futures::future::join_all(fired).await
            });
        }
        Ok(count)
    }

    fn take_in(&mut self, fired: Result<Vec<(Key, bool)>, JoinError>) {
        let Ok(fired) = fired else {
            // Better to fire a row that has been fired, which does nothing, than never to look at it again.
            self.under_way.clear();
            return;
        };
        for (key, done) in fired {
            self.under_way.remove(&key);
            if !done && self.set_aside.len() < MAX_SET_ASIDE {
                self.set_aside.insert(key, Instant::now());
            }
        }
    }

    async fn page_of(&self, clock: ClockKind, until_ms: i64) -> StoreResult<Vec<Due>> {
        // Rows that are not to be fired now must not hide those behind them.
        let limit = self.page + self.set_aside.len() + self.under_way.len();
        let mut rows = self.service.store().due_page(clock, until_ms, limit).await?;
        rows.retain(|row| !self.set_aside.contains_key(&row.key()) && !self.under_way.contains(&row.key()));
        rows.truncate(self.page);
        Ok(rows)
    }

    /// How long nothing will be due, at most one poll.
    async fn until_next(&self) -> Duration {
        let store = self.service.store();
        let (Ok(now), Ok(product), Ok(lease)) = (
            store.now().await,
            store.due_next(ClockKind::Product).await,
            store.due_next(ClockKind::Lease).await,
        ) else {
            return self.poll;
        };
        let Now { ms, lease_ms } = now;
        let poll_ms = i64::try_from(self.poll.as_millis()).unwrap_or(i64::MAX);
        let until = |next: Option<i64>, now_ms: i64| {
            next.map_or(poll_ms, |at| at.saturating_sub(now_ms)).clamp(0, poll_ms)
        };
        let (product_sleep, lease_sleep) = (until(product, ms), until(lease, lease_ms));
        let mut sleep_ms = product_sleep.min(lease_sleep);
        if sleep_ms == 0 && !self.under_way.is_empty() {
            return GLANCE;
        }
        if sleep_ms == 0 && !self.set_aside.is_empty() {
            sleep_ms = poll_ms;
        }
        self.sleep_target(ms.saturating_add(sleep_ms), lease_ms.saturating_add(sleep_ms));
        Duration::from_millis(sleep_ms.unsigned_abs())
    }

    fn sleep_target(&self, product_ms: i64, lease_ms: i64) {
        let signal = &self.service.shared.due_signal;
        signal.sleeping_until_ms[0].store(product_ms, Ordering::SeqCst);
        signal.sleeping_until_ms[1].store(lease_ms, Ordering::SeqCst);
    }
}

/// The row's key, and whether it is settled: what would fail again at once is set aside.
async fn fire(service: &Service, due: Due) -> (Key, bool) {
    let (key, class, id) = (due.key(), due.class, due.id);
    let stats = &service.shared.stats;
    match service.call(due.tenant_id, FireDue { due }).await {
        Ok(Reply::Fired(Fired::Acted { late_ms })) => {
            Stats::add(&stats.fired, 1);
            service.shared.meters.fired(class, late_ms);
        }
        Ok(Reply::Fired(Fired::Stale)) => Stats::add(&stats.stale, 1),
        Ok(_) => {}
        Err(refusal) => {
            tracing::warn!(%refusal, %class, %id, "a due row could not be fired");
            // A database that was away comes back.
            return (key, !matches!(refusal.code, Code::Internal | Code::StoreRefused));
        }
    }
    (key, true)
}
