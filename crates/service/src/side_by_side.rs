//! When a second batch begins while the first is under way, on a database that can carry out both.
//!
//! While one is written the next is loaded and decided, so that this process and the database wait less for each other. A batch
//! costs a transaction of its own: it takes many requests to be worth it. And whatever needs a row of the other one is put off,
//! loaded in vain: after a second batch in which that went for many, as when all is about one execution, there is none for a
//! while.

use std::time::Duration;

use tokio::time::Instant;

/// Batches under way at a time.
const UNDER_WAY: usize = 2;
/// If one of so many is decided in vain, that is too many.
const ONE_OF: usize = 8;
/// For how long there is no second batch then, doubled each time up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// From how many requests on batches run side by side, where the database carries out more than one at a time.
#[derive(Debug, Clone, Copy)]
pub struct SideBySideFrom {
    /// A batch of so many runs beside the loop that collects them. A smaller one is over sooner without.
    pub beside_requests: usize,
    /// With so many waiting, a second batch begins.
    pub second_requests: usize,
}

impl Default for SideBySideFrom {
    fn default() -> Self {
        Self { beside_requests: 8, second_requests: 96 }
    }
}

#[derive(Debug)]
pub(crate) struct SideBySide {
    /// `None`: the database carries out one after the other.
    from: Option<SideBySideFrom>,
    not_before: Option<Instant>,
    pause: Duration,
    /// Whether the next batch waits until none is under way.
    next_is_alone: bool,
}

impl SideBySide {
    pub(crate) fn new(from: Option<SideBySideFrom>) -> Self {
        Self { from, not_before: None, pause: PAUSE, next_is_alone: false }
    }

    /// Batches that may be under way at a time on a database that carries out more than one, or does not.
    pub(crate) fn most(possible: bool) -> usize {
        if possible { UNDER_WAY } else { 1 }
    }

    /// Whether a batch of so many runs beside the loop that collects them.
    pub(crate) fn runs_beside(&self, requests: usize) -> bool {
        self.from.is_some_and(|from| requests >= from.beside_requests)
    }

    /// Whether the next batch may begin, with so many under way and so many requests waiting.
    pub(crate) fn may_begin(&self, under_way: usize, waiting: usize, now: Instant) -> bool {
        if under_way == 0 {
            return waiting > 0;
        }
        under_way < UNDER_WAY
            && !self.next_is_alone
            && self.from.is_some_and(|from| waiting >= from.second_requests)
            && self.not_before.is_none_or(|until| now >= until)
    }

    /// A batch begins, with so many under way.
    pub(crate) fn begins(&mut self, under_way: usize) {
        self.next_is_alone &= under_way > 0;
    }

    /// A batch has ended that began while another one was under way. So many of its requests were decided in vain: the next batch
    /// begins with them, and alone, or they would meet whoever has taken their rows since.
    pub(crate) fn second_ended(&mut self, requests: usize, in_vain: usize, now: Instant) {
        self.next_is_alone = in_vain > 0;
        if in_vain * ONE_OF > requests {
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

    const FROM: SideBySideFrom = SideBySideFrom { beside_requests: 8, second_requests: 96 };
    const MANY: usize = FROM.second_requests;

    #[test]
    fn a_second_batch_takes_many_requests_and_a_third_never_begins() {
        let (side_by_side, now) = (SideBySide::new(Some(FROM)), Instant::now());
        let may_begin = |under_way, waiting| side_by_side.may_begin(under_way, waiting, now);
        assert!(!may_begin(0, 0) && may_begin(0, 1));
        assert!(!may_begin(1, MANY - 1) && may_begin(1, MANY));
        assert!(!may_begin(2, 10 * MANY));
        let one_by_one = SideBySide::new(None);
        assert!(one_by_one.may_begin(0, 1, now) && !one_by_one.may_begin(1, 10 * MANY, now));
    }

    #[test]
    fn after_one_that_was_in_vain_there_is_none_for_a_while_and_longer_each_time() {
        let (mut side_by_side, mut now) = (SideBySide::new(Some(FROM)), Instant::now());
        for pause in [PAUSE, 2 * PAUSE, 4 * PAUSE] {
            side_by_side.second_ended(80, 11, now);
            assert!(side_by_side.may_begin(0, 1, now), "the first is never held up");
            side_by_side.begins(0);
            assert!(!side_by_side.may_begin(1, MANY, now + pause - Duration::from_millis(1)));
            now += pause;
            assert!(side_by_side.may_begin(1, MANY, now));
        }
        side_by_side.second_ended(80, 10, now);
        side_by_side.begins(0);
        assert!(side_by_side.may_begin(1, MANY, now), "few were in vain");
        side_by_side.second_ended(80, 80, now);
        side_by_side.begins(0);
        assert!(side_by_side.may_begin(1, MANY, now + PAUSE), "as short as at first");
    }

    #[test]
    fn what_was_decided_in_vain_is_decided_again_alone() {
        let (mut side_by_side, now) = (SideBySide::new(Some(FROM)), Instant::now());
        side_by_side.second_ended(80, 1, now);
        side_by_side.begins(1);
        assert!(!side_by_side.may_begin(1, MANY, now) && side_by_side.may_begin(0, 1, now));
        side_by_side.begins(0);
        assert!(side_by_side.may_begin(1, MANY, now));
        side_by_side.second_ended(80, 0, now);
        assert!(side_by_side.may_begin(1, MANY, now));
    }
}
