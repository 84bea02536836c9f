//! The shared parts of a simulated run: the database, its clock, the faults, the trace, and the first broken promise.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::{Now, invariants};
use flovyn_store::memory::MemoryStore;
use flovyn_store::{Clock, Store};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lockstep::BEGIN_MS;
use crate::rng::Rng;

use super::chaos::{Chaos, Fault};
use super::locks::Locks;
use super::record::Record;
use super::{Figures, Plan, Violation};

/// The database's clock: virtual time, which a fault may set.
#[derive(Debug)]
pub(super) struct DatabaseClock {
    origin: Instant,
    step_ms: AtomicI64,
}

impl Clock for DatabaseClock {
    fn now(&self) -> Now {
        let elapsed = i64::try_from(self.origin.elapsed().as_millis()).unwrap_or(i64::MAX);
        Now::same(BEGIN_MS + elapsed + self.step_ms.load(Ordering::SeqCst))
    }
}

pub(super) struct World {
    pub(super) memory: Arc<dyn Store>,
    pub(super) clock: Arc<DatabaseClock>,
    /// Rows are locked as in PostgreSQL. Otherwise only versions detect conflicts between writers.
    pub(super) locking: bool,
    /// One server has the database to itself, and knows it.
    pub(super) alone: bool,
    pub(super) lock_freed: Notify,
    inner: Mutex<Inner>,
}

pub(super) struct Inner {
    pub(super) chaos: Chaos,
    pub(super) rng: Rng,
    pub(super) locks: Locks,
    pub(super) record: Record,
    pub(super) figures: Figures,
    pub(super) turns: BTreeMap<String, i64>,
    transactions: u64,
    trace: Vec<String>,
    violation: Option<Violation>,
}

impl World {
    pub(super) fn new(plan: &Plan) -> Arc<Self> {
        let clock = Arc::new(DatabaseClock { origin: Instant::now(), step_ms: AtomicI64::new(0) });
        let inner = Inner {
            chaos: Chaos::new(plan.seed, plan.allowed.clone()),
            rng: Rng::new(plan.seed ^ 0x5157),
            locks: Locks::default(),
            record: Record::default(),
            figures: Figures::default(),
            turns: BTreeMap::new(),
            transactions: 0,
            trace: Vec::new(),
            violation: None,
        };
        Arc::new(Self {
            memory: Arc::new(MemoryStore::new(clock.clone())),
            clock,
            locking: plan.seed.is_multiple_of(2),
            alone: plan.seed % 4 == 3,
            lock_freed: Notify::new(),
            inner: Mutex::new(inner),
        })
    }

    /// Locked briefly, never across an await.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the trace.
    pub(super) fn say(&self, line: impl FnOnce() -> String) {
        let at_ms = self.clock.origin.elapsed().as_millis();
        let mut inner = self.lock();
        if inner.violation.is_none() {
            inner.trace.push(format!("{at_ms:>7} {}", line()));
        }
    }

    pub(super) fn strikes(&self, fault: Fault, whom: impl FnOnce() -> String) -> bool {
        let strikes = self.lock().chaos.strikes(fault);
        if strikes {
            self.say(|| format!("! {} {}", fault.name(), whom()));
        }
        strikes
    }

    /// A number below `bound`.
    pub(super) fn below(&self, bound: usize) -> usize {
        self.lock().rng.below(bound)
    }

    pub(super) async fn sleep(&self, ms: usize) {
        tokio::time::sleep(Duration::from_millis(ms as u64)).await;
    }

    /// Lets the time pass that a message takes.
    pub(super) async fn travel(&self) {
        let slow = self.strikes(Fault::Delay, || "message".to_owned());
        let ms = if slow { 100 + self.below(3_000) } else { 1 + self.below(8) };
        self.sleep(ms).await;
    }

    /// Records the first broken promise, which ends the run.
    pub(super) fn violated(&self, check: &'static str, message: String) {
        self.say(|| format!("X {check}: {message}"));
        self.lock().violation.get_or_insert(Violation { check, message });
    }

    pub(super) fn has_failed(&self) -> bool {
        self.lock().violation.is_some()
    }

    pub(super) async fn snapshot(&self) -> Snapshot {
        self.memory.snapshot().await.expect("memory always answers")
    }

    /// Checks P2 to P8 on all rows.
    pub(super) async fn check(&self) {
        if self.has_failed() {
            return;
        }
        let found = invariants::check(&self.snapshot().await, self.clock.now());
        if let Some(first) = found.first() {
            let check = match first.promise {
                invariants::Promised::P2 => "P2",
                invariants::Promised::P3 => "P3",
                invariants::Promised::P4 => "P4",
                invariants::Promised::P5 => "P5",
                invariants::Promised::P6 => "P6",
                invariants::Promised::P7 => "P7",
                invariants::Promised::P8 => "P8",
                invariants::Promised::P11 => "P11",
                invariants::Promised::P12 => "P12",
                invariants::Promised::P13 => "P13",
            };
            let all: Vec<String> = found.iter().map(ToString::to_string).collect();
            self.violated(check, all.join("; "));
        }
    }

    /// Sets the database's clock.
    pub(super) fn step_clock(&self) {
        if self.strikes(Fault::ClockStep, || "of the database".to_owned()) {
            let by_ms = self.below(4_000) as i64 - 2_000;
            self.clock.step_ms.fetch_add(by_ms, Ordering::SeqCst);
        }
    }

    pub(super) fn begin(&self) -> u64 {
        let mut inner = self.lock();
        inner.transactions += 1;
        inner.transactions
    }

    pub(super) fn take_trace(&self) -> (Vec<String>, Option<Violation>, Figures) {
        let mut inner = self.lock();
        let mut figures = std::mem::take(&mut inner.figures);
        figures.faults = inner.chaos.struck().iter().map(|(fault, count)| (fault.name(), *count)).collect();
        (std::mem::take(&mut inner.trace), inner.violation.take(), figures)
    }
}
