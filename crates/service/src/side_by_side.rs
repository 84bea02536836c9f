//! When a second batch begins while the first is under way.
//!
//! While one is written the next is loaded and decided, so that this process and the database wait less for each other. A batch
//! costs a transaction of its own: it takes many requests to be worth it.
//!
//! A database elsewhere carries out both at once. Whatever needs a row of the other one is put off there, loaded in vain: after a
//! second batch in which that went for many, as when all is about one execution, there is none for a while. One in this process
//! decides and writes in one order, and nothing is put off.

use std::time::Duration;

use tokio::time::Instant;

use crate::backlog::Waiting;

/// Batches under way at a time.
const UNDER_WAY: usize = 2;
/// If one of so many is decided in vain, that is too many.
const ONE_OF: usize = 8;
/// For how long there is no second batch then, doubled each time up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// From how many requests on batches run side by side.
#[derive(Debug, Clone, Copy)]
pub struct SideBySideFrom {
    /// A batch of so many runs beside the loop that collects them, with a database elsewhere. A smaller one is over sooner without.
    pub beside_requests: usize,
    /// With so many waiting, a second batch begins.
    pub second_requests: usize,
    /// Requests that change so many rows count as many, however few they are.
    pub many_rows: usize,
}

impl Default for SideBySideFrom {
    fn default() -> Self {
        Self { beside_requests: 8, second_requests: 96, many_rows: 2_000 }
    }
}

#[derive(Debug)]
pub(crate) struct SideBySide {
    /// `None`: on this database batches never overlap.
    from: Option<SideBySideFrom>,
    /// Where the database is in this process nobody waits for its answers: a batch that has no other beside it is over sooner
    /// in the loop itself.
    in_process: bool,
    not_before: Option<Instant>,
    pause: Duration,
    /// Whether the next batch waits until none is under way.
    next_is_alone: bool,
}

impl SideBySide {
    pub(crate) fn new(from: Option<SideBySideFrom>, in_process: bool) -> Self {
        Self { from, in_process, not_before: None, pause: PAUSE, next_is_alone: false }
    }

    /// Batches that may be under way at a time on a database where they overlap, or do not.
    pub(crate) fn most(possible: bool) -> usize {
        if possible { UNDER_WAY } else { 1 }
    }

    /// Whether batches are decided one after the other all the same.
    pub(crate) fn in_process(&self) -> bool {
        self.in_process
    }

    /// Whether it is worth a batch of its own. A database elsewhere is not asked again only to search.
    fn is_much(&self, waiting: Waiting) -> bool {
        let rows = waiting.rows + if self.in_process { waiting.claimed_rows } else { 0 };
        self.from.is_some_and(|from| waiting.requests >= from.second_requests || rows >= from.many_rows)
    }

    /// Whether a batch of so much runs beside the loop that collects them, with so many under way and so much left waiting.
    pub(crate) fn runs_beside(&self, batch: Waiting, under_way: usize, left: Waiting) -> bool {
        self.from.is_some_and(|from| match self.in_process {
            true => under_way > 0 || (self.is_much(batch) && self.is_much(left)),
            false => batch.requests >= from.beside_requests || batch.rows >= from.many_rows,
        })
    }

    /// Whether the next batch may begin, with so many under way and so much waiting.
    pub(crate) fn may_begin(&self, under_way: usize, waiting: Waiting, now: Instant) -> bool {
        if under_way == 0 {
            return waiting.requests > 0;
        }
        under_way < UNDER_WAY
            && !self.next_is_alone
            && self.is_much(waiting)
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

    const FROM: SideBySideFrom = SideBySideFrom { beside_requests: 8, second_requests: 96, many_rows: 1_000 };
    const FEW: Waiting = Waiting { requests: 1, rows: 5, claimed_rows: 0 };
    const MANY: Waiting = Waiting { requests: FROM.second_requests, ..FEW };

    #[test]
    fn a_second_batch_takes_many_requests_and_a_third_never_begins() {
        let (side_by_side, now) = (SideBySide::new(Some(FROM), false), Instant::now());
        let may_begin = |under_way, waiting| side_by_side.may_begin(under_way, waiting, now);
        let less = Waiting { requests: MANY.requests - 1, ..MANY };
        let large = Waiting { rows: FROM.many_rows, ..FEW };
        assert!(!may_begin(0, Waiting::default()) && may_begin(0, FEW));
        assert!(!may_begin(1, less) && may_begin(1, MANY) && may_begin(1, large));
        assert!(!may_begin(2, MANY) && !may_begin(2, large));
        let one_by_one = SideBySide::new(None, false);
        assert!(one_by_one.may_begin(0, FEW, now) && !one_by_one.may_begin(1, MANY, now));
    }

    #[test]
    fn after_one_that_was_in_vain_there_is_none_for_a_while_and_longer_each_time() {
        let (mut side_by_side, mut now) = (SideBySide::new(Some(FROM), false), Instant::now());
        for pause in [PAUSE, 2 * PAUSE, 4 * PAUSE] {
            side_by_side.second_ended(80, 11, now);
            assert!(side_by_side.may_begin(0, FEW, now), "the first is never held up");
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
        let (mut side_by_side, now) = (SideBySide::new(Some(FROM), false), Instant::now());
        side_by_side.second_ended(80, 1, now);
        side_by_side.begins(1);
        assert!(!side_by_side.may_begin(1, MANY, now) && side_by_side.may_begin(0, FEW, now));
        side_by_side.begins(0);
        assert!(side_by_side.may_begin(1, MANY, now));
        side_by_side.second_ended(80, 0, now);
        assert!(side_by_side.may_begin(1, MANY, now));
    }

    #[test]
    fn in_this_process_a_batch_runs_beside_the_loop_if_another_is_there_or_about_to_come() {
        let large = Waiting { rows: FROM.many_rows, ..FEW };
        let elsewhere = SideBySide::new(Some(FROM), false);
        assert!(elsewhere.runs_beside(MANY, 0, FEW) && elsewhere.runs_beside(large, 0, FEW));
        assert!(!elsewhere.runs_beside(FEW, 0, MANY));
        let here = SideBySide::new(Some(FROM), true);
        assert!(!here.runs_beside(MANY, 0, FEW) && !here.runs_beside(FEW, 0, MANY));
        assert!(here.runs_beside(MANY, 0, MANY) && here.runs_beside(large, 0, large));
        assert!(here.runs_beside(FEW, 1, FEW));
        let claims = Waiting { claimed_rows: FROM.many_rows, ..FEW };
        assert!(here.runs_beside(MANY, 0, claims), "they put off work");
        let now = Instant::now();
        assert!(here.may_begin(1, claims, now) && !elsewhere.may_begin(1, claims, now));
        assert!(!SideBySide::new(None, true).runs_beside(MANY, 0, MANY));
    }
}
