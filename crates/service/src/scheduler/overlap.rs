//! When a second batch begins while the first one is in flight.
//!
//! While one batch is written, the next is loaded and decided, so that this process and the database wait less for
//! each other. Each batch costs a transaction, so a second one is only worth it for many requests.
//!
//! If two batches are two concurrent transactions, requests that need a row of the other batch are deferred, and their
//! load was wasted. After a second batch with many deferred requests, for example if all are about one execution, no
//! second batch begins for a while.

use std::time::{Duration, Instant};

use super::policy::MAX_IN_FLIGHT;

/// Stop overlapping for a while when more than one request in this many has to be decided again.
const MAX_IN_VAIN: usize = 8;
/// How long no second batch begins. Doubled each time, up to `LONGEST_PAUSE`.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Overlap {
    /// No second batch begins before this time. `None`: it may begin at any time.
    not_before: Option<Instant>,
    pause: Duration,
    /// Whether the next batch waits until no batch is in flight.
    next_is_alone: bool,
}

impl Default for Overlap {
    fn default() -> Self {
        Self { not_before: None, pause: PAUSE, next_is_alone: false }
    }
}

impl Overlap {
    /// Whether another batch may begin beside those in flight, of which there is at least one. `is_much`: there are
    /// enough waiting requests.
    pub(super) fn may_begin(&self, in_flight: usize, is_much: bool, now: Instant) -> bool {
        let paused = self.not_before.is_some_and(|until| now < until);
        in_flight < MAX_IN_FLIGHT && is_much && !self.next_is_alone && !paused
    }

    /// A batch begins while `in_flight` others are in flight.
    pub(super) fn begins(&mut self, in_flight: usize) {
        self.next_is_alone &= in_flight > 0;
    }

    /// Records the end of a batch that began while another one was in flight. If `in_vain` of its requests have to be
    /// decided again, the next batch begins with them and runs alone. Otherwise they would meet the same locks again.
    pub(super) fn second_ended(&mut self, requests: usize, in_vain: usize, now: Instant) {
        self.next_is_alone = in_vain > 0;
        if in_vain * MAX_IN_VAIN > requests {
            self.not_before = Some(now + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        } else {
            self.pause = PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_batch_takes_many_requests_and_a_third_never_begins() {
        let (overlap, now) = (Overlap::default(), Instant::now());
        assert!(!overlap.may_begin(1, false, now) && overlap.may_begin(1, true, now));
        assert!(!overlap.may_begin(2, true, now));
    }

    #[test]
    fn after_many_requests_in_vain_there_is_no_second_batch_for_a_while_and_longer_each_time() {
        let (mut overlap, mut now) = (Overlap::default(), Instant::now());
        for pause in [PAUSE, 2 * PAUSE, 4 * PAUSE] {
            overlap.second_ended(80, 11, now);
            overlap.begins(0);
            assert!(!overlap.may_begin(1, true, now + pause - Duration::from_millis(1)));
            now += pause;
            assert!(overlap.may_begin(1, true, now));
        }
        overlap.second_ended(80, 10, now);
        overlap.begins(0);
        assert!(overlap.may_begin(1, true, now), "only a few had to be decided again");
        overlap.second_ended(80, 80, now);
        overlap.begins(0);
        assert!(overlap.may_begin(1, true, now + PAUSE), "the pause is short again");
    }

    #[test]
    fn what_was_decided_in_vain_is_decided_again_alone() {
        let (mut overlap, now) = (Overlap::default(), Instant::now());
        overlap.second_ended(80, 1, now);
        overlap.begins(1);
        assert!(!overlap.may_begin(1, true, now));
        overlap.begins(0);
        assert!(overlap.may_begin(1, true, now));
        overlap.second_ended(80, 0, now);
        assert!(overlap.may_begin(1, true, now));
    }
}
