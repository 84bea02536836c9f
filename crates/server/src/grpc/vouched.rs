//! Extends the claims of tasks that the client of a connection has claimed and not reported, while the client shows
//! signs of life. Pure: times are arguments. The engine decides how long a claim holds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flovyn_engine::ids::{TaskId, TenantId};

/// The most claims of one connection that are extended. Further claims hold for their first lease only.
const MAX_CLAIMS: usize = 10_000;
/// The pause after an extension that failed for the moment.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A claim to extend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VouchedClaim {
    pub(crate) tenant_id: TenantId,
    pub(crate) task_id: TaskId,
    pub(crate) token: i64,
}

#[derive(Debug, Default)]
pub(super) struct Vouched {
    /// The claims by task, each with the time when it expires as far as is known here.
    claims: HashMap<TaskId, (VouchedClaim, Instant)>,
    /// The earliest time when a claim must be extended. `None`: there are no claims.
    next: Option<Instant>,
}

impl Vouched {
    /// Adds a claim. `extension` is how much longer an extended claim holds.
    pub(super) fn took(&mut self, claim: VouchedClaim, until: Instant, extension: Duration) {
        if self.claims.len() < MAX_CLAIMS {
            self.claims.insert(claim.task_id, (claim, until));
            let soon = early(until, extension);
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
    }

    /// Removes a task that was reported, whatever the outcome of the report: a client does not report twice.
    pub(super) fn ended(&mut self, task_id: TaskId) {
        self.claims.remove(&task_id);
    }

    /// Returns the claims that expire soon, at a sign of life of the client, each with the time when it expires. They
    /// count as extended from now on.
    pub(super) fn shows_life(&mut self, now: Instant, extension: Duration) -> Vec<(VouchedClaim, Instant)> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        // These claims have expired, and another worker may hold them.
        self.claims.retain(|_, (_, until)| *until > now);
        let mut due = Vec::new();
        for (claim, until) in self.claims.values_mut().filter(|(_, until)| early(*until, extension) <= now) {
            due.push((*claim, *until));
            *until = now + extension;
        }
        self.next = self.claims.values().map(|(_, until)| early(*until, extension)).min();
        due
    }

    /// Records that a claim could not be extended for the moment, for example because the database is away. It still
    /// expires at `until`, and a sign of life after [`RETRY_AFTER`] tries again.
    pub(super) fn not_extended(&mut self, task_id: TaskId, until: Instant, now: Instant) {
        if let Some((_, expires)) = self.claims.get_mut(&task_id) {
            *expires = until;
            let again = now + RETRY_AFTER;
            self.next = Some(self.next.map_or(again, |next| next.min(again)));
        }
    }
}

/// The time at which a claim that expires at `until` is extended. A client that shows life twice as often as required
/// keeps it.
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
        // A short task causes no extensions.
        for seconds in [0, 30, 130, 269] {
            assert_eq!(vouched.shows_life(at(seconds), EXTENSION), []);
        }
        vouched.ended(claim(2).task_id);
        assert_eq!(vouched.shows_life(at(270), EXTENSION), [(claim(1), at(330))]);
        // One extension per period, however often the client shows life.
        for seconds in [271, 280, 299] {
            assert_eq!(vouched.shows_life(at(seconds), EXTENSION), []);
        }
        assert_eq!(vouched.shows_life(at(300), EXTENSION), [(claim(1), at(360))]);
        assert_eq!(vouched.shows_life(at(389), EXTENSION), [(claim(1), at(390))]);
        // A claim that has expired is not extended.
        assert_eq!(vouched.shows_life(at(479), EXTENSION), []);
        assert_eq!(vouched.shows_life(at(480), EXTENSION), []);
    }

    #[test]
    fn an_extension_that_failed_for_the_moment_is_tried_again_until_the_claim_expires() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut vouched = Vouched::default();
        vouched.took(claim(1), begin + LEASE, EXTENSION);
        for seconds in [271, 272, 329] {
            assert_eq!(vouched.shows_life(at(seconds), EXTENSION), [(claim(1), at(330))]);
            vouched.not_extended(claim(1).task_id, at(330), at(seconds));
            assert_eq!(vouched.shows_life(at(seconds), EXTENSION), [], "not at once");
        }
        assert_eq!(vouched.shows_life(at(331), EXTENSION), [], "another worker may hold it");
        // The end of the task was reported while it was being extended.
        vouched.not_extended(claim(1).task_id, at(400), at(331));
        assert_eq!(vouched.shows_life(at(399), EXTENSION), []);
    }
}
