//! Picks the requests of the next batch: tenants in turn, up to the limits.

use std::time::Instant;

use super::claim_turns::ClaimTurns;
use super::{Queued, Scheduler};

/// A batch is full at either limit, or when it has as many requests as its pace allows.
const MAX_BYTES: usize = 4 << 20;
const MAX_ROWS: usize = 5_000;
/// A request that was deferred this often runs alone and waits for its rows.
const MAX_MISSES: u32 = 5;

pub(super) struct Picked<J> {
    pub(super) jobs: Vec<J>,
    /// Whether this is a single request that waits for its rows.
    pub(super) alone: bool,
    /// Claims whose pollers have gone.
    pub(super) abandoned: Vec<J>,
}

impl<J: Queued> Scheduler<J> {
    pub(super) fn pick(&mut self, now: Instant) -> Picked<J> {
        let (size, several) = (self.pace.size(now), self.backlog.tenants() > 1);
        let mut picked = Picked { jobs: Vec::new(), alone: false, abandoned: Vec::new() };
        let (mut claim_turns, mut next_time) = (ClaimTurns::default(), Vec::new());
        let (mut bytes, mut rows) = (0, 0);
        while let Some(job) = self.backlog.front() {
            if job.is_abandoned() {
                picked.abandoned.extend(self.backlog.pop_front());
                continue;
            }
            if self.policy.claims_take_turns() && !claim_turns.has(job) {
                next_time.extend(self.backlog.pop_front());
                continue;
            }
            let alone = job.misses() >= MAX_MISSES;
            bytes += job.bytes();
            rows += job.rows();
            let only_one_left = several && self.backlog.tenants() == 1;
            let max_requests = if only_one_left { size.filled_up_to } else { size.max_requests };
            let is_full = picked.jobs.len() >= max_requests || bytes > MAX_BYTES || rows > MAX_ROWS || alone;
            if is_full && !picked.jobs.is_empty() {
                break;
            }
            picked.jobs.extend(self.backlog.pop_front());
            if is_full {
                picked.alone = alone;
                break;
            }
        }
        self.requeue(next_time);
        self.pace.asked(picked.jobs.iter().map(Queued::tenant), now);
        // Claims go last, so that they can take work that the other requests of this batch make ready. The sort is
        // stable: all other requests keep their order.
        picked.jobs.sort_by_key(|job| job.claim().is_some());
        picked
    }
}
