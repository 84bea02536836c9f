//! How long a poll may be held on one connection. Pure: times are arguments.
//!
//! Some clients of the public protocol block while the server holds one of their polls: their other poll, their results
//! and their own calls wait until that poll is answered. Others wait in many polls at once. The connection shows which
//! kind a client is.
//!
//! | seen on the connection | a poll is held |
//! |---|---|
//! | two polls held at once, or a result reported while a poll was held | for as long as it asks |
//! | more than [`ALONE`] polls of one class in a row, no work in hand, and no calls of an application | for as long as it asks |
//! | anything else | a [`SHARE`]th of the idle time, from [`SHORTEST`] to [`LONGEST`] |
//! | anything else, on a connection with calls of an application | a [`SHARE`]th of the idle time, up to [`LONGEST_WITH_CALLS`] |
//!
//! The idle time is the time since the client last received work, reported or called.
//!
//! If there is work for the client's polls of the other class, a poll is answered after [`SHORTEST`]. The work may be
//! out of reach, for example in a paused queue: each time the other poll finds nothing, the next one waits twice as
//! long.
//!
//! So a client that blocks is never delayed by much more than a tenth of its idle time, and an idle client costs
//! little. Several workers behind one proxy count as one client that polls concurrently.

use std::time::{Duration, Instant};

use flovyn_engine::state::WorkClass;

/// After this many polls of one class in a row, a client is assumed to poll for nothing else.
const ALONE: u32 = 20;
const SHARE: u32 = 10;
pub(super) const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(5);
const LONGEST_WITH_CALLS: Duration = Duration::from_millis(500);
/// Doublings of [`SHORTEST`] until it exceeds [`LONGEST`].
const MOST_DOUBLINGS: u32 = 8;

/// What is known about the client of a connection.
#[derive(Debug)]
pub(super) struct Holds {
    /// Whether the client does other things while a poll is held.
    concurrent: bool,
    /// Whether an application calls on the connection: starts, signals, queries.
    has_calls: bool,
    /// The number of polls held now.
    held: u32,
    /// Whether a result arrived while a poll was held.
    reported: bool,
    /// The class of the last poll, and the number of polls of that class in a row.
    row: Option<(WorkClass, u32)>,
    /// The number of work items that were delivered here and not yet reported here.
    in_hand: u32,
    /// How often in a row a poll was answered for the sake of the other class, since the client last got work.
    yielded_in_vain: u32,
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
            yielded_in_vain: 0,
            active: now,
        }
    }

    /// Whether the client is known to do other things while a poll is held.
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

    /// How long a poll that is held now may be held. `None`: as long as the poll asks.
    pub(super) fn at_most(&mut self, now: Instant) -> Option<Duration> {
        let one_class = self.row.is_some_and(|(_, count)| count > ALONE);
        let alone = one_class && self.in_hand == 0 && !self.has_calls;
        if self.concurrent || alone {
            return None;
        }
        let longest = if self.has_calls { LONGEST_WITH_CALLS } else { LONGEST };
        let quiet = now.saturating_duration_since(self.active);
        Some((quiet / SHARE).clamp(SHORTEST, longest))
    }

    /// How long a poll is held although there is work for the client's polls of the other class.
    pub(super) fn yields_after(&mut self) -> Duration {
        let pause = SHORTEST * 2_u32.saturating_pow(self.yielded_in_vain);
        self.yielded_in_vain = self.yielded_in_vain.saturating_add(1).min(MOST_DOUBLINGS);
        pause.min(LONGEST)
    }

    /// Records that a poll was held for as long as it may be, while the client still waits for it. Requests that
    /// arrived in the meantime show that the client does not block.
    pub(super) fn was_held(&mut self) {
        self.concurrent |= self.held > 1 || self.reported;
    }

    /// Records that a poll is answered.
    pub(super) fn answered(&mut self, work: usize, now: Instant) {
        self.was_held();
        self.held = self.held.saturating_sub(1);
        if work > 0 {
            self.yielded_in_vain = 0;
            self.in_hand = self.in_hand.saturating_add(u32::try_from(work).unwrap_or(u32::MAX));
            self.active = now;
        }
    }

    /// Records that the client dropped a poll. Requests that arrived in the meantime may have been sent after the drop.
    pub(super) fn dropped(&mut self) {
        self.held = self.held.saturating_sub(1);
        self.reported = false;
    }

    /// Records that a result arrived.
    pub(super) fn reports(&mut self, now: Instant) {
        self.reported |= self.held > 0;
        self.in_hand = self.in_hand.saturating_sub(1);
        self.active = now;
    }

    /// Records that an application calls. The call may come from another thread, so it does not show that polls block
    /// nothing.
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
        /// The hold time is over, and the client still waits.
        Held,
        Answered(usize),
        Dropped,
        Reports,
        Calls,
    }
    use Seen::{Answered, Begins, Calls, Dropped, Held, Reports};

    const AS_ASKED: Option<u64> = None;

    /// How long a poll that begins at `at_ms` may be held, after these events.
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

    /// Polls that are each answered without work before the next one arrives.
    fn in_turn(classes: impl IntoIterator<Item = WorkClass>) -> Vec<(u64, Seen)> {
        classes.into_iter().flat_map(|class| [(0, Begins(class)), (0, Answered(0))]).collect()
    }

    #[test]
    fn the_table_of_holds() {
        // A client that is not known yet.
        assert_eq!(held_after([], Workflow, 0), Some(20));
        // The poll is held for a tenth of the time without activity.
        for (quiet_ms, held_ms) in [(100, 20), (500, 50), (2_000, 200), (30_000, 3_000), (3_600_000, 5_000)] {
            assert_eq!(held_after([], Task, quiet_ms), Some(held_ms), "{quiet_ms}");
            let with_calls = held_after([(0, Calls)], Task, quiet_ms);
            assert_eq!(with_calls, Some(held_ms.min(500)), "{quiet_ms}");
        }
        // Work, results and calls count as activity.
        for busy in [Answered(1), Reports, Calls] {
            let seen = [(0, Begins(Task)), (60_000, busy)];
            assert_eq!(held_after(seen, Workflow, 60_000), Some(20));
        }
        assert_eq!(held_after([(0, Begins(Task)), (60_000, Answered(0))], Workflow, 60_000), Some(5_000));

        // Classes in turn, without end.
        let turns = (0..100).map(|turn| if turn % 2 == 0 { Workflow } else { Task });
        assert_eq!(held_after(in_turn(turns), Workflow, 0), Some(20));
        // Only one class, until the first poll of the other class.
        assert_eq!(held_after(in_turn([Workflow; 19]), Workflow, 0), Some(20));
        assert_eq!(held_after(in_turn([Workflow; 20]), Workflow, 0), AS_ASKED);
        assert_eq!(held_after(in_turn([Workflow; 20]), Task, 0), Some(20));
        // A client with work in hand may be unable to report it before the poll ends.
        let with_work = |mut seen: Vec<(u64, Seen)>, more: Vec<Seen>| {
            seen.extend(more.into_iter().map(|seen| (0, seen)));
            seen
        };
        let seen = with_work(in_turn([Task; 30]), vec![Begins(Task), Answered(1)]);
        assert_eq!(held_after(seen, Task, 0), Some(20));
        let seen = with_work(in_turn([Task; 30]), vec![Begins(Task), Answered(1), Reports]);
        assert_eq!(held_after(seen, Task, 0), AS_ASKED);
        // An application on the connection may be blocked by the poll.
        let seen = with_work(in_turn([Task; 30]), vec![Calls]);
        assert_eq!(held_after(seen, Task, 60_000), Some(500));

        // Concurrent requests: polls of both classes, two polls of one class, and a result.
        let at_once = |other: Seen, end: Seen| [(0, Begins(Workflow)), (10, other), (50, end)];
        assert_eq!(held_after(at_once(Begins(Task), Held), Task, 60), AS_ASKED);
        assert_eq!(held_after(at_once(Begins(Task), Answered(1)), Task, 60), AS_ASKED);
        assert_eq!(held_after(at_once(Begins(Workflow), Answered(0)), Workflow, 60), AS_ASKED);
        assert_eq!(held_after(at_once(Reports, Answered(0)), Workflow, 60), AS_ASKED);
        // An application's calls may come from another thread.
        assert_eq!(held_after(at_once(Calls, Answered(0)), Workflow, 60), Some(20));
        // A dropped poll proves nothing, because the server may notice the drop late.
        assert_eq!(held_after(at_once(Begins(Task), Dropped), Task, 60), Some(20));
        assert_eq!(held_after(at_once(Reports, Dropped), Task, 60), Some(20));
        let late = [(0, Begins(Task)), (5, Reports), (10, Dropped), (11, Begins(Task)), (50, Answered(0))];
        assert_eq!(held_after(late, Task, 60), Some(20));
    }

    /// A client that polls for one class after the other, and waits for each answer.
    struct Serial {
        holds: Holds,
        begin: Instant,
        now_ms: u64,
        polls: usize,
        /// How long the client has waited for polls that brought nothing.
        waited_ms: u64,
    }

    impl Serial {
        fn new() -> Self {
            let begin = Instant::now();
            Self { holds: Holds::new(begin), begin, now_ms: 0, polls: 0, waited_ms: 0 }
        }

        fn now(&self) -> Instant {
            self.begin + Duration::from_millis(self.now_ms)
        }

        /// Polls, asking for 30 s. `ready`: the work of each class, with the time when it becomes ready. Returns whether
        /// there was work.
        fn poll(&mut self, class: WorkClass, ready: &mut Option<(WorkClass, u64)>) -> bool {
            self.polls += 1;
            self.holds.begins(class);
            let at_most = self.holds.at_most(self.now());
            let hold = at_most.unwrap_or(Duration::from_secs(30));
            let mut until_ms = self.now_ms + u64::try_from(hold.as_millis()).unwrap();
            if let Some((other, ready_ms)) = *ready {
                if other == class && ready_ms <= until_ms {
                    self.now_ms = self.now_ms.max(ready_ms);
                    self.holds.answered(1, self.now());
                    *ready = None;
                    return true;
                }
                // The server looks for work for the client's other poll.
                if other != class && at_most.is_some_and(|at_most| at_most > SHORTEST) {
                    let yields_ms = match ready_ms <= self.now_ms {
                        true => u64::try_from(self.holds.yields_after().as_millis()).unwrap(),
                        false => 0,
                    };
                    until_ms = until_ms.min(self.now_ms.max(ready_ms) + yields_ms);
                }
            }
            self.waited_ms += until_ms - self.now_ms;
            self.now_ms = until_ms;
            self.holds.answered(0, self.now());
            false
        }

        fn reports(&mut self) {
            self.holds.reports(self.now());
        }
    }

    #[test]
    fn a_chain_of_three_tasks_in_a_serial_client_costs_few_polls_and_little_waiting() {
        // Tasks run in the client itself, or elsewhere for this long.
        for (idle_ms, elsewhere_ms) in [(0, None), (3_600_000, None), (0, Some(40)), (3_600_000, Some(2_000))]
        {
            let mut client = Serial::new();
            let mut next = [Workflow, Task].into_iter().cycle();
            while client.now_ms < idle_ms {
                client.poll(next.next().unwrap(), &mut None);
            }
            // An idle client costs a poll in five seconds once it has been idle for a minute.
            assert!(client.polls <= 60 + usize::try_from(idle_ms / 5_000).unwrap(), "{}", client.polls);

            (client.polls, client.waited_ms) = (0, 0);
            let mut steps = vec![Workflow; 4];
            if elsewhere_ms.is_none() {
                steps = [Workflow, Task].repeat(3);
                steps.push(Workflow);
            }
            for step in steps {
                let after_ms = if step == Workflow { elsewhere_ms.unwrap_or(0) } else { 0 };
                let mut ready = Some((step, client.now_ms + after_ms));
                while !client.poll(next.next().unwrap(), &mut ready) {}
                client.reports();
            }
            let (polls, waited_ms) = match elsewhere_ms {
                None => (8, 20),
                // A tenth of the time that the tasks take elsewhere, and what they take.
                Some(each_ms) => (4 + 4 * usize::try_from(each_ms).unwrap() / 20, 4 * each_ms * 11 / 10 + 80),
            };
            assert!(client.polls <= polls, "{idle_ms} {elsewhere_ms:?}: {} polls", client.polls);
            assert!(client.waited_ms <= waited_ms, "{idle_ms} {elsewhere_ms:?}: {} ms", client.waited_ms);
        }
    }

    #[test]
    fn work_out_of_reach_delays_the_other_poll_less_and_less_often() {
        let now = Instant::now();
        let mut holds = Holds::new(now);
        let pauses: Vec<_> = (0..10).map(|_| holds.yields_after().as_millis()).collect();
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_000, 5_000]);
        holds.begins(Task);
        holds.answered(1, now);
        assert_eq!(holds.yields_after(), SHORTEST);
    }
}
