//! How long a poll may be held on one connection. Pure: times are arguments.
//!
//! Some clients of the public protocol stand still while the server holds one of their polls: their other poll, their
//! results and their own calls wait until it is answered. Others wait in many polls at once. The connection shows which.
//!
//! | seen on the connection | a poll is held |
//! |---|---|
//! | two polls held at once, or a result reported while a poll was held | for as long as it asks |
//! | more than [`ALONE`] polls of one class in a row, and no work in hand | for as long as it asks |
//! | anything else | for a [`SHARE`]th of the time since the client last got work, reported or called, from [`SHORTEST`] to [`LONGEST`] |
//! | anything else, on a connection with calls of an application | the same, up to [`LONGEST_WITH_CALLS`] |
//!
//! So a client that stands still is never delayed by much more than a tenth of the time that it had nothing to do, and an idle
//! one costs little. Several workers behind one proxy count as one client, which polls at once.

use std::time::{Duration, Instant};

use flovyn_engine::state::WorkClass;

/// Polls of one class in a row after which a client is taken to poll for nothing else.
const ALONE: u32 = 20;
const SHARE: u32 = 10;
pub(super) const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(5);
const LONGEST_WITH_CALLS: Duration = Duration::from_millis(500);

/// What a connection has shown of its client.
#[derive(Debug)]
pub(super) struct Holds {
    /// Its client does other things while a poll is held.
    concurrent: bool,
    /// An application calls on it: starts, signals, queries.
    has_calls: bool,
    /// Polls that are held now.
    held: u32,
    /// A result has come while a poll was held.
    reported: bool,
    /// The class of the last poll, and how many of that class have come in a row.
    row: Option<(WorkClass, u32)>,
    /// Work that was delivered here and not reported here.
    in_hand: u32,
    active: Instant,
}

impl Holds {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            concurrent: false,
            has_calls: false,
            held: 0,
            reported: false,
            row: None,
            in_hand: 0,
            active: now,
        }
    }

    /// Whether its client is known to do other things while a poll is held.
    pub(super) fn is_concurrent(&self) -> bool {
        self.concurrent
    }

    pub(super) fn begins(&mut self, class: WorkClass) {
        self.held += 1;
        self.reported &= self.held > 1;
        self.row = match self.row {
            Some((last, count)) if last == class => Some((class, count.saturating_add(1))),
            _ => Some((class, 1)),
        };
    }

    /// For how long a poll that is held now may be held. `None`: for as long as it asks.
    pub(super) fn at_most(&mut self, now: Instant) -> Option<Duration> {
        let alone = self.in_hand == 0 && self.row.is_some_and(|(_, count)| count > ALONE);
        if self.concurrent || alone {
            return None;
        }
        let longest = if self.has_calls { LONGEST_WITH_CALLS } else { LONGEST };
        let quiet = now.saturating_duration_since(self.active);
        Some((quiet / SHARE).clamp(SHORTEST, longest))
    }

    /// A poll has been held for as long as it may be, and its client still waits for it: what came meanwhile says that the
    /// client does not stand still.
    pub(super) fn was_held(&mut self) {
        self.concurrent |= self.held > 1 || self.reported;
    }

    /// A poll is answered.
    pub(super) fn answered(&mut self, work: usize, now: Instant) {
        self.was_held();
        self.held = self.held.saturating_sub(1);
        if work > 0 {
            self.in_hand = self.in_hand.saturating_add(u32::try_from(work).unwrap_or(u32::MAX));
            self.active = now;
        }
    }

    /// A poll was dropped by its client. What came at the same time may have come after it.
    pub(super) fn dropped(&mut self) {
        self.held = self.held.saturating_sub(1);
        self.reported = false;
    }

    /// A result has come.
    pub(super) fn reports(&mut self, now: Instant) {
        self.reported |= self.held > 0;
        self.in_hand = self.in_hand.saturating_sub(1);
        self.active = now;
    }

    /// An application calls. It may do so from another thread, so this does not show that polls delay nothing.
    pub(super) fn calls(&mut self, now: Instant) {
        self.has_calls = true;
        self.active = now;
    }
}

#[cfg(test)]
mod tests {
    use WorkClass::{Task, Workflow};

    use super::*;

    /// What happens on a connection, at a time in milliseconds.
    enum Seen {
        Begins(WorkClass),
        /// Its time is over, and the client still waits.
        Held,
        Answered(usize),
        Dropped,
        Reports,
        Calls,
    }
    use Seen::{Answered, Begins, Calls, Dropped, Held, Reports};

    const AS_ASKED: Option<u64> = None;

    /// How long a poll that begins at `at_ms` may be held, after these.
    fn held_after(seen: impl IntoIterator<Item = (u64, Seen)>, class: WorkClass, at_ms: u64) -> Option<u64> {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut holds = Holds::new(begin);
        for (ms, seen) in seen {
            match seen {
                Begins(class) => holds.begins(class),
                Held => holds.was_held(),
                Answered(work) => holds.answered(work, at(ms)),
                Dropped => holds.dropped(),
                Reports => holds.reports(at(ms)),
                Calls => holds.calls(at(ms)),
            }
        }
        holds.begins(class);
        let found = holds.at_most(at(at_ms));
        found.map(|found| u64::try_from(found.as_millis()).unwrap())
    }

    /// Polls that are answered with nothing before the next one comes.
    fn in_turn(classes: impl IntoIterator<Item = WorkClass>) -> Vec<(u64, Seen)> {
        classes.into_iter().flat_map(|class| [(0, Begins(class)), (0, Answered(0))]).collect()
    }

    #[test]
    fn the_table_of_holds() {
        // A client that is not known yet.
        assert_eq!(held_after([], Workflow, 0), Some(20));
        // It stands still for a tenth of the time it was quiet.
        for (quiet_ms, held_ms) in [(100, 20), (500, 50), (2_000, 200), (30_000, 3_000), (3_600_000, 5_000)] {
            assert_eq!(held_after([], Task, quiet_ms), Some(held_ms), "{quiet_ms}");
            let with_calls = held_after([(0, Calls)], Task, quiet_ms);
            assert_eq!(with_calls, Some(held_ms.min(500)), "{quiet_ms}");
        }
        // Work, results and calls make it busy again.
        for busy in [Answered(1), Reports, Calls] {
            let seen = [(0, Begins(Task)), (60_000, busy)];
            assert_eq!(held_after(seen, Workflow, 60_000), Some(20));
        }
        assert_eq!(held_after([(0, Begins(Task)), (60_000, Answered(0))], Workflow, 60_000), Some(5_000));

        // In turns for ever.
        let turns = (0..100).map(|turn| if turn % 2 == 0 { Workflow } else { Task });
        assert_eq!(held_after(in_turn(turns), Workflow, 0), Some(20));
        // One class alone, up to the first of the other.
        assert_eq!(held_after(in_turn([Workflow; 19]), Workflow, 0), Some(20));
        assert_eq!(held_after(in_turn([Workflow; 20]), Workflow, 0), AS_ASKED);
        assert_eq!(held_after(in_turn([Workflow; 20]), Task, 0), Some(20));
        // With work in hand, its result may be waiting for the end of the poll.
        let with_work = |mut seen: Vec<(u64, Seen)>, more: Vec<Seen>| {
            seen.extend(more.into_iter().map(|seen| (0, seen)));
            seen
        };
        let seen = with_work(in_turn([Task; 30]), vec![Begins(Task), Answered(1)]);
        assert_eq!(held_after(seen, Task, 0), Some(20));
        let seen = with_work(in_turn([Task; 30]), vec![Begins(Task), Answered(1), Reports]);
        assert_eq!(held_after(seen, Task, 0), AS_ASKED);

        // At once: of both classes, of one class, and a result.
        let at_once = |other: Seen, end: Seen| [(0, Begins(Workflow)), (10, other), (50, end)];
        assert_eq!(held_after(at_once(Begins(Task), Held), Task, 60), AS_ASKED);
        assert_eq!(held_after(at_once(Begins(Task), Answered(1)), Task, 60), AS_ASKED);
        assert_eq!(held_after(at_once(Begins(Workflow), Answered(0)), Workflow, 60), AS_ASKED);
        assert_eq!(held_after(at_once(Reports, Answered(0)), Workflow, 60), AS_ASKED);
        // An application's calls may come from another thread.
        assert_eq!(held_after(at_once(Calls, Answered(0)), Workflow, 60), Some(20));
        // A poll that its client has dropped shows nothing: the server may hear of it late.
        assert_eq!(held_after(at_once(Begins(Task), Dropped), Task, 60), Some(20));
        assert_eq!(held_after(at_once(Reports, Dropped), Task, 60), Some(20));
        let late = [(0, Begins(Task)), (5, Reports), (10, Dropped), (11, Begins(Task)), (50, Answered(0))];
        assert_eq!(held_after(late, Task, 60), Some(20));
    }
}
