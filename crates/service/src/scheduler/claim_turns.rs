//! Claims of one session for much work take turns. Those that were answered together come back together: if all of them were in
//! one batch, the worker would have nothing to do until the next batch with its claims.

use flovyn_engine::ids::WorkerId;
use flovyn_engine::state::WorkClass;
use rustc_hash::FxHashMap;

use super::{ClaimFacts, Queued};

/// How much work the claims of a session may take in a batch, unless it is a single claim.
const MAX_CLAIMED: usize = 256;

/// How much they take in a batch so far.
#[derive(Debug, Default)]
pub(super) struct ClaimTurns {
    claimed: FxHashMap<(WorkerId, WorkClass), usize>,
}

impl ClaimTurns {
    /// Whether a request may go into the batch. Everything but claims of a session always may.
    pub(super) fn has(&mut self, job: &impl Queued) -> bool {
        let Some(ClaimFacts { session: Some(session), class, max }) = job.claim() else { return true };
        let claimed = self.claimed.entry((session, class)).or_default();
        let has = *claimed == 0 || *claimed + max <= MAX_CLAIMED;
        *claimed += if has { max } else { 0 };
        has
    }
}
