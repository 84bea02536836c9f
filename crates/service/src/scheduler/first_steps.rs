//! Starts that wait for their first step.
//!
//! If there is nothing else to do, a workflow that a waiting worker can take is handed over before its start is
//! written. Its first step usually arrives within milliseconds, and both are written in one commit. That saves work
//! and makes short workflows end sooner. No caller is answered before the start is written. If the server dies before
//! that, the workflow never started: the worker has held back all effects that cannot be undone, and its step is
//! refused.
//!
//! A provisional start goes to the head of the very next batch, and no other batch is in flight beside that batch.

use std::time::{Duration, Instant};

use flovyn_engine::ids::ExecutionId;
use rustc_hash::FxHashMap;

use super::{FirstStep, Kind, Queued};

/// How long starts of a kind are written first after a slow first step: it came too late, or could not be made before
/// its start was durable. The time is doubled after each further slow step, up to `SLOW_FOR_LONGEST`.
const SLOW_FOR: Duration = Duration::from_millis(100);
const SLOW_FOR_LONGEST: Duration = Duration::from_secs(60);
/// The most starts that are handed over first. More starts save commits by sharing one.
const FEW: usize = 2;
/// The most kinds that are remembered as slow.
const MAX_SLOW: usize = 1_000;

#[derive(Debug)]
pub(super) struct FirstSteps<J> {
    /// How long a start waits for its first step if nothing else happens. Zero: starts are always written first.
    patience: Duration,
    /// The provisional starts, and the time until which they wait.
    held: Option<(Vec<(ExecutionId, J)>, Instant)>,
    slow: FxHashMap<Kind, Slow>,
}

/// A kind whose starts are written first, until this time.
#[derive(Debug, Clone, Copy)]
struct Slow {
    until: Instant,
    lasts: Duration,
}

impl<J: Queued> FirstSteps<J> {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, held: None, slow: FxHashMap::default() }
    }

    /// Whether workers may receive the executions of this batch before it is written.
    pub(super) fn may_notify(&self, batch: &[J], now: Instant) -> bool {
        let is_quick = |kind| self.slow.get(&kind).is_none_or(|slow| now >= slow.until);
        !self.patience.is_zero()
            && self.held.is_none()
            && (1..=FEW).contains(&batch.len())
            && batch.iter().all(|job| job.starts().is_some_and(is_quick))
    }

    pub(super) fn hold(&mut self, starts: Vec<(ExecutionId, J)>, now: Instant) {
        self.held = Some((starts, now + self.patience));
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.held.is_some()
    }

    /// The end of the wait for first steps. `None`: no start waits.
    pub(super) fn until(&self) -> Option<Instant> {
        self.held.as_ref().map(|(_, until)| *until)
    }

    /// Whether a start waits for its first step and its time is not over.
    pub(super) fn may_still_come(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Whether a start waits for its first step and its time is over.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| now >= until)
    }

    /// Puts the provisional starts at the head of a batch.
    pub(super) fn join(&mut self, batch: &mut Vec<J>, now: Instant) {
        let Some((starts, until)) = self.held.take() else { return };
        for (execution_id, start) in &starts {
            let Some(kind) = start.starts() else { continue };
            match batch.iter().find_map(|job| job.first_step_of(*execution_id)) {
                Some(FirstStep::Made) => drop(self.slow.remove(&kind)),
                Some(FirstStep::Released) => self.remember_slow(kind, now),
                None if now >= until => self.remember_slow(kind, now),
                None => {}
            }
        }
        batch.splice(0..0, starts.into_iter().map(|(_, start)| start));
    }

    fn remember_slow(&mut self, kind: Kind, now: Instant) {
        if self.slow.len() >= MAX_SLOW {
            self.slow.clear();
        }
        let lasts = self.slow.get(&kind).map_or(SLOW_FOR, |slow| slow.lasts * 2).min(SLOW_FOR_LONGEST);
        self.slow.insert(kind, Slow { until: now + lasts, lasts });
    }
}
