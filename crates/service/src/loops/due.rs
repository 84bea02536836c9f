//! Fires due rows: timers, timeouts, leases, delayed and retried work, follow-ups.
//!
//! Rows that become due within the next seconds are kept in memory ([`Soon`](super::soon::Soon)), so that nothing has
//! to be read when they are due. From time to time the loop reads ahead in the database to find rows that other
//! processes wrote. Several processes may run this loop on one database. Each row is decided under a lock, and the
//! second process finds that the row has gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flovyn_engine::reply::Fired;
use flovyn_engine::request::FireDue;
use flovyn_engine::state::Due;
use flovyn_engine::{Code, Now, Reply, Row};
use flovyn_store::StoreResult;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::soon::{CLOCKS, Key, Soon, now_on};
use crate::loops::{Options, Stopped};
use crate::service::Service;
use crate::stats::Stats;

/// How long a row that could not be fired is left alone.
const SET_ASIDE: Duration = Duration::from_secs(30);
/// The most rows that may be set aside at once.
const MAX_SET_ASIDE: usize = 1_000;
/// The most rows that are being fired at once. More would only fill the request queue that all callers share.
const MAX_IN_FLIGHT: usize = 4_096;
/// How far ahead the loop reads. It reads again when half of that time is over.
const AHEAD_MS: i64 = 2_000;

#[derive(Debug)]
pub struct DueLoop {
    service: Service,
    page: usize,
    poll: Duration,
    set_aside: BTreeMap<Key, Instant>,
    /// Rows whose firing has been submitted. The loop does not wait for them, because rows that become due meanwhile
    /// would be late.
    in_flight: BTreeSet<Key>,
    firing: JoinSet<Vec<(Key, bool)>>,
}

impl DueLoop {
    pub fn new(service: Service, options: &Options) -> Self {
        Self {
            service,
            page: options.due_page,
            poll: options.poll,
            set_aside: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            firing: JoinSet::new(),
        }
    }

    fn soon(&self) -> &Soon {
        &self.service.shared.soon
    }

    pub(crate) async fn run(mut self, mut stopped: Stopped) {
        while !*stopped.borrow() {
            let sleep = match self.turn().await {
                Ok(sleep) => sleep,
                Err(error) => {
                    tracing::warn!(%error, "the due loop cannot read the database; trying again");
                    self.poll
                }
            };
            if sleep.is_zero() {
                // Other tasks get a turn: many due rows must not block the rest of the server.
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = self.service.shared.soon.is_sooner() => {}
                Some(fired) = self.firing.join_next() => self.take_in(fired),
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Reads ahead if it is time, and fires the due rows. Returns how long the loop can sleep.
    async fn turn(&mut self) -> StoreResult<Duration> {
        let mut now = self.service.store().now().await?;
        if self.soon().wants_look(now, AHEAD_MS / 2) {
            self.look(now).await?;
            now = self.service.store().now().await?;
        }
        let full = self.fire(now) >= self.page;
        let sleep_ms = self.soon().sleep_ms(now, AHEAD_MS / 2);
        Ok(match full {
            true => Duration::ZERO,
            // When a firing ends, there is room again, and the loop is notified.
            false if self.in_flight.len() >= MAX_IN_FLIGHT => self.poll,
            false => Duration::from_millis(sleep_ms),
        })
    }

    /// Fires up to a page of due rows on each clock, and waits for the outcome. Returns how many rows it fired.
    pub async fn tick(&mut self) -> StoreResult<usize> {
        let now = self.service.store().now().await?;
        self.look(now).await?;
        let count = self.fire(now);
        while let Some(fired) = self.firing.join_next().await {
            self.take_in(fired);
        }
        Ok(count)
    }

    /// Reads a page of the rows that become due soon, on each clock.
    async fn look(&mut self, now: Now) -> StoreResult<()> {
        self.set_aside.retain(|_, since| since.elapsed() < SET_ASIDE);
        for clock in CLOCKS {
            let until_ms = now_on(clock, now).saturating_add(AHEAD_MS);
            // This comes first, because rows that are written from now on may be missing in the read.
            self.soon().cover(clock, until_ms);
            // Rows that are not to be fired now must not hide the rows behind them.
            let limit = self.page + self.set_aside.len() + self.in_flight.len();
            let read = self.service.store().due_page(clock, until_ms, limit).await;
            if read.is_err() {
                self.soon().cover(clock, i64::MIN);
            }
            let mut rows = read?;
            let last_ms = rows.last().filter(|_| rows.len() == limit).map(|row| row.due_ms);
            rows.retain(|row| {
                !self.set_aside.contains_key(&row.key()) && !self.in_flight.contains(&row.key())
            });
            self.soon().found(clock, rows, last_ms);
        }
        Ok(())
    }

    /// Submits the due rows, up to a page on each clock. Returns how many rows it submitted.
    fn fire(&mut self, now: Now) -> usize {
        while let Some(fired) = self.firing.try_join_next() {
            self.take_in(fired);
        }
        let room = MAX_IN_FLIGHT.saturating_sub(self.in_flight.len());
        let rows = self.soon().take_due(now, self.page.min(room));
        let count = rows.len();
        if count > 0 {
            self.in_flight.extend(rows.iter().map(Row::key));
            let service = self.service.clone();
            self.firing.spawn(async move {
                let fired = rows.into_iter().map(|row| fire(&service, row));
                futures::future::join_all(fired).await
            });
        }
        count
    }

    fn take_in(&mut self, fired: Result<Vec<(Key, bool)>, JoinError>) {
        let Ok(fired) = fired else {
            // After a panic of a firing the rows in flight are unknown. Firing a row twice has no effect, so all of
            // them are forgotten.
            self.in_flight.clear();
            return;
        };
        for (key, done) in fired {
            self.in_flight.remove(&key);
            if !done && self.set_aside.len() < MAX_SET_ASIDE {
                self.set_aside.insert(key, Instant::now());
            }
        }
    }
}

/// Fires one row. Returns its key, and whether the row is settled. A row that would fail again immediately is not
/// settled.
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
            tracing::warn!(%refusal, %class, %id, "cannot fire a due row");
            // An unreachable database comes back, so the row can be tried again immediately.
            return (key, !matches!(refusal.code, Code::Internal | Code::StoreRefused));
        }
    }
    (key, true)
}
