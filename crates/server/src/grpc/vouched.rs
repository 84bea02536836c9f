//! Tasks that the client of a connection has claimed and not reported: while it shows life, their claims are extended. Pure: times
//! are arguments. How long a claim holds is for the engine to say.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flovyn_engine::ids::{TaskId, TenantId};

/// Claims of one connection that are extended at most. Others hold for their first lease.
const MAX_CLAIMS: usize = 10_000;

/// A claim to extend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VouchedClaim {
    pub(crate) tenant_id: TenantId,
    pub(crate) task_id: TaskId,
    pub(crate) token: i64,
}

#[derive(Debug, Default)]
pub(super) struct Vouched {
    /// With the moment until which each holds, as far as is known here.
    claims: HashMap<TaskId, (VouchedClaim, Instant)>,
    /// Before this no claim needs to be extended. `None`: there is none.
    next: Option<Instant>,
}

impl Vouched {
    /// `extension`: how much longer an extended claim holds.
    pub(super) fn took(&mut self, claim: VouchedClaim, until: Instant, extension: Duration) {
        if self.claims.len() < MAX_CLAIMS {
            self.claims.insert(claim.task_id, (claim, until));
            let soon = early(until, extension);
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
    }

    /// It was reported, whatever became of the report: a client that has reported once does not do so again.
    pub(super) fn ended(&mut self, task_id: TaskId) {
        self.claims.remove(&task_id);
    }

    /// The client shows life: claims that end soon, which count as extended from now on.
    pub(super) fn shows_life(&mut self, now: Instant, extension: Duration) -> Vec<VouchedClaim> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        // Too late for these: somebody else may have them.
        self.claims.retain(|_, (_, until)| *until > now);
        let mut due = Vec::new();
        for (claim, until) in self.claims.values_mut().filter(|(_, until)| early(*until, extension) <= now) {
            *until = now + extension;
            due.push(*claim);
        }
        self.next = self.claims.values().map(|(_, until)| early(*until, extension)).min();
        due
    }
}

/// When a claim that holds until then is to be extended: a client that shows life twice as often as it must keeps it.
fn early(until: Instant, extension: Duration) -> Instant {
    until.checked_sub(extension * 2 / 3).unwrap_or(until)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const EXTENSION: Duration = Duration::from_secs(90);
    const LEASE: Duration = Duration::from_secs(330);

    fn claim(number: u128) -> VouchedClaim {
        let id = Uuid::from_u128(number);
        VouchedClaim { tenant_id: id, task_id: id, token: 1 }
    }

    #[test]
    fn claims_are_extended_while_their_client_shows_life() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut vouched = Vouched::default();
        assert_eq!(vouched.shows_life(begin, EXTENSION), []);
        vouched.took(claim(1), begin + LEASE, EXTENSION);
        vouched.took(claim(2), begin + LEASE, EXTENSION);
        // A short task costs nothing.
        for seconds in [0, 30, 130, 269] {
            assert_eq!(vouched.shows_life(at(seconds), EXTENSION), []);
        }
        vouched.ended(claim(2).task_id);
        assert_eq!(vouched.shows_life(at(270), EXTENSION), [claim(1)]);
        // Once for each part, however often it shows life.
        for seconds in [271, 280, 299] {
            assert_eq!(vouched.shows_life(at(seconds), EXTENSION), []);
        }
        assert_eq!(vouched.shows_life(at(300), EXTENSION), [claim(1)]);
        assert_eq!(vouched.shows_life(at(389), EXTENSION), [claim(1)]);
        // After its end, the claim is not its own any more.
        assert_eq!(vouched.shows_life(at(479), EXTENSION), []);
        assert_eq!(vouched.shows_life(at(480), EXTENSION), []);
    }
}
