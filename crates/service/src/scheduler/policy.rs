//! The scheduler's differences between databases.

use std::fmt::Debug;
use std::time::Duration;

use super::backlog::Load;
use super::tricks::Tricks;

/// The number of batches beside the loop that may be in flight at a time, if batches overlap.
pub(crate) const MAX_IN_FLIGHT: usize = 2;

/// The numbers of requests from which batches overlap.
#[derive(Debug, Clone, Copy)]
pub struct SideBySideFrom {
    /// On PostgreSQL, a batch of this many requests runs beside the loop. A smaller batch is faster in the loop.
    pub beside_requests: usize,
    /// If this many requests wait, a second batch begins.
    pub second_requests: usize,
    /// Requests that change this many rows count as enough, whatever their number.
    pub many_rows: usize,
}

impl Default for SideBySideFrom {
    fn default() -> Self {
        Self { beside_requests: 8, second_requests: 96, many_rows: 2_000 }
    }
}

impl SideBySideFrom {
    fn is_much(self, requests: usize, rows: usize) -> bool {
        requests >= self.second_requests || rows >= self.many_rows
    }
}

/// The scheduler's differences between databases.
pub(crate) trait Policy: Debug + Send {
    /// Whether batches are decided one after the other and must be answered in that order.
    fn in_order(&self) -> bool;
    /// Whether batches overlap, given whether several tenants are active.
    fn overlaps(&self, several_tenants: bool) -> bool;
    /// Whether enough requests wait to be worth a second transaction.
    fn is_much(&self, load: Load) -> bool;
    /// Whether a batch runs beside the loop. `in_flight`: the number of other batches in flight; `left`: the requests
    /// that stay in the backlog.
    fn runs_beside(&self, batch: Load, in_flight: usize, left: Load) -> bool;
    /// Whether large claims of one session go into different batches.
    fn claims_take_turns(&self) -> bool;
    /// How long a start that was handed to a worker waits for its first step before it is written. Zero: the start is
    /// written first.
    fn first_step_within(&self) -> Duration;
    /// The number of turns that the loop stays awake for a first step.
    fn stays_awake_for(&self) -> usize;
    /// Whether batches of several tenants are kept so small that no batch takes long.
    fn adapts_pace(&self) -> bool;
}

/// SQLite: only this process writes, and its batches are decided one after the other. There is no network to wait for,
/// so a batch that is alone is faster in the loop itself.
#[derive(Debug)]
pub(crate) struct InProcess {
    /// `None`: batches never overlap on this database.
    pub(crate) from: Option<SideBySideFrom>,
    pub(crate) first_step_within: Duration,
    pub(crate) stays_awake_for: usize,
    pub(crate) tricks: Tricks,
}

impl Policy for InProcess {
    fn in_order(&self) -> bool {
        true
    }

    /// Batches are written one after the other anyway: no tenant should wait for two batches of another tenant.
    fn overlaps(&self, several_tenants: bool) -> bool {
        self.from.is_some() && !several_tenants
    }

    fn is_much(&self, load: Load) -> bool {
        self.from.is_some_and(|from| from.is_much(load.requests, load.rows + load.claimed_rows))
    }

    fn runs_beside(&self, batch: Load, in_flight: usize, left: Load) -> bool {
        in_flight > 0 || (self.is_much(batch) && self.is_much(left))
    }

    fn claims_take_turns(&self) -> bool {
        self.tricks.claim_turns
    }

    fn first_step_within(&self) -> Duration {
        if self.tricks.first_steps { self.first_step_within } else { Duration::ZERO }
    }

    fn stays_awake_for(&self) -> usize {
        if self.tricks.stay_awake { self.stays_awake_for } else { 0 }
    }

    fn adapts_pace(&self) -> bool {
        self.tricks.adaptive_pace
    }
}

/// PostgreSQL: other processes write as well. Two batches are two transactions, which may be decided in any order.
/// Requests whose rows the other batch has locked are deferred.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// `None`: batches never overlap on this database.
    pub(crate) from: Option<SideBySideFrom>,
    pub(crate) tricks: Tricks,
}

impl Policy for Elsewhere {
    fn in_order(&self) -> bool {
        false
    }

    fn overlaps(&self, _several_tenants: bool) -> bool {
        self.from.is_some()
    }

    /// Claims are not counted: a search alone is not worth a second transaction.
    fn is_much(&self, load: Load) -> bool {
        self.from.is_some_and(|from| from.is_much(load.requests, load.rows))
    }

    fn runs_beside(&self, batch: Load, _in_flight: usize, _left: Load) -> bool {
        let is_worth_it =
            |from: SideBySideFrom| batch.requests >= from.beside_requests || batch.rows >= from.many_rows;
        self.from.is_some_and(is_worth_it)
    }

    fn claims_take_turns(&self) -> bool {
        false
    }

    /// Other processes may lock, pause or change rows that an unwritten start depends on.
    fn first_step_within(&self) -> Duration {
        Duration::ZERO
    }

    fn stays_awake_for(&self) -> usize {
        0
    }

    fn adapts_pace(&self) -> bool {
        self.tricks.adaptive_pace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: SideBySideFrom = SideBySideFrom { beside_requests: 8, second_requests: 96, many_rows: 1_000 };
    const FEW: Load = Load { requests: 1, rows: 5, claimed_rows: 0 };
    const MANY: Load = Load { requests: FROM.second_requests, ..FEW };
    const LARGE: Load = Load { rows: FROM.many_rows, ..FEW };
    const CLAIMS: Load = Load { claimed_rows: FROM.many_rows, ..FEW };

    fn here(from: Option<SideBySideFrom>) -> InProcess {
        let (first_step_within, tricks) = (Duration::ZERO, Tricks::default());
        InProcess { from, first_step_within, stays_awake_for: 0, tricks }
    }

    #[test]
    fn with_a_database_elsewhere_a_batch_of_some_runs_beside_the_loop() {
        let elsewhere = Elsewhere { from: Some(FROM), tricks: Tricks::default() };
        assert!(elsewhere.runs_beside(MANY, 0, FEW) && elsewhere.runs_beside(LARGE, 0, FEW));
        assert!(!elsewhere.runs_beside(FEW, 0, MANY));
        assert!(elsewhere.is_much(MANY) && elsewhere.is_much(LARGE) && !elsewhere.is_much(CLAIMS));
        let never = Elsewhere { from: None, tricks: Tricks::default() };
        assert!(!never.overlaps(false) && !never.runs_beside(MANY, 0, MANY));
    }

    #[test]
    fn in_this_process_a_batch_runs_beside_the_loop_if_another_is_there_or_about_to_come() {
        let here = here(Some(FROM));
        assert!(!here.runs_beside(MANY, 0, FEW) && !here.runs_beside(FEW, 0, MANY));
        assert!(here.runs_beside(MANY, 0, MANY) && here.runs_beside(LARGE, 0, LARGE));
        assert!(here.runs_beside(FEW, 1, FEW));
        assert!(here.runs_beside(MANY, 0, CLAIMS), "they defer work");
        assert!(here.is_much(CLAIMS));
        assert!(here.overlaps(false) && !here.overlaps(true));
    }

    #[test]
    fn what_is_switched_off_is_not_done() {
        let tricks = Tricks::without("claim_turns,first_steps").unwrap();
        let policy = InProcess { first_step_within: Duration::from_millis(4), tricks, ..here(Some(FROM)) };
        assert!(!policy.claims_take_turns() && policy.first_step_within().is_zero());
    }
}
