//! Large claims of one session take turns. Claims that were answered together are sent again together. If all of them
//! were in one batch, the worker would have nothing to do until the next batch with its claims.

use flovyn_engine::ids::WorkerId;
use flovyn_engine::state::WorkClass;
use rustc_hash::FxHashMap;

use super::{ClaimFacts, Queued};

/// The most work that the claims of one session may take in a batch. A single claim may take more.
const MAX_CLAIMED: usize = 256;

/// The work that the claims of each session take in the batch so far.
#[derive(Debug, Default)]
pub(super) struct ClaimTurns {
    claimed: FxHashMap<(WorkerId, WorkClass), usize>,
}

impl ClaimTurns {
    /// Whether a request may go into the batch. Only claims of a session can be refused.
    pub(super) fn has(&mut self, job: &impl Queued) -> bool {
        let Some(ClaimFacts { session: Some(session), class, max }) = job.claim() else { return true };
        let claimed = self.claimed.entry((session, class)).or_default();
        let has = *claimed == 0 || *claimed + max <= MAX_CLAIMED;
        *claimed += if has { max } else { 0 };
        has
    }
}
