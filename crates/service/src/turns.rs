//! Claims of a session for much work take turns. Those that were answered together come back together: if all of them were in one
//! batch, the worker would have nothing to do until the next one of the kind.

use flovyn_engine::ids::WorkerId;
use flovyn_engine::state::WorkClass;
use rustc_hash::FxHashMap;

use crate::job::{Job, claim_of};

/// What the claims of a session may take in a batch, unless it is a single one.
const MAX_CLAIMED: usize = 256;

/// What they take in a batch so far.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    claimed: FxHashMap<(WorkerId, WorkClass), usize>,
}

impl Turns {
    /// Whether it is this one's turn, or it claims nothing.
    pub(crate) fn has(&mut self, job: &Job) -> bool {
        let Some(claim) = claim_of(&job.request) else { return true };
        let Some(session) = claim.claimer.session else { return true };
        let claimed = self.claimed.entry((session, claim.class)).or_default();
        let has = *claimed == 0 || *claimed + claim.max <= MAX_CLAIMED;
        *claimed += if has { claim.max } else { 0 };
        has
    }
}
