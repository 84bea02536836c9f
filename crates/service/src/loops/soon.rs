//! Rows that become due soon, in memory: those that this process writes, and those that were read from the database.
//!
//! A row may be here although it is gone from the database; firing it has no effect. A row that another process wrote
//! after the last read may be missing; the next read finds it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flovyn_engine::state::{ClockKind, Due};
use flovyn_engine::{Change, Now, Row};
use tokio::sync::Notify;

pub(super) const CLOCKS: [ClockKind; 2] = [ClockKind::Product, ClockKind::Lease];
/// Rows that are due later than this are never in the covered time when their batch is committed.
const FAR_MS: i64 = 10_000;

pub(super) type Key = <Due as Row>::Key;

/// A batch's changes to the rows that become due soon.
#[derive(Debug, Default)]
pub(crate) struct DueChanges {
    added: Vec<Due>,
    gone: Vec<Key>,
}

impl DueChanges {
    pub(crate) fn of(changes: &[Change<Due>], now: Now) -> Self {
        let is_near = |row: &&Due| row.due_ms <= now_on(row.clock, now).saturating_add(FAR_MS);
        let added = changes.iter().filter_map(|change| match change {
            Change::Insert(row) | Change::Update { row, .. } => Some(row),
            Change::Delete { .. } => None,
        });
        let gone = changes.iter().filter_map(|change| match change {
            Change::Delete { row, .. } => Some(row),
            _ => None,
        });
        Self {
            added: added.filter(is_near).cloned().collect(),
            gone: gone.filter(is_near).map(Row::key).collect(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Soon {
    sides: Mutex<[Side; 2]>,
    sooner: Notify,
}

/// The rows of one clock.
#[derive(Debug)]
struct Side {
    rows: BTreeMap<Key, Due>,
    /// Until this time, all rows that this process knows are here.
    covered_ms: i64,
    /// Whether the last read found more rows than it could take.
    is_part: bool,
    /// The time until which the loop sleeps.
    sleeps_until_ms: i64,
}

impl Default for Side {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), covered_ms: i64::MIN, is_part: false, sleeps_until_ms: i64::MIN }
    }
}

impl Soon {
    /// The lock is held for look-ups only, never across an await.
    fn lock(&self) -> MutexGuard<'_, [Side; 2]> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when a row is due before the end of the loop's sleep, or when the clock was moved.
    pub(super) async fn is_sooner(&self) {
        self.sooner.notified().await;
    }

    pub(crate) fn wake(&self) {
        self.sooner.notify_one();
    }

    /// Adds and removes the rows that a committed batch wrote and deleted.
    pub(crate) fn committed(&self, changes: DueChanges) {
        if changes.added.is_empty() && changes.gone.is_empty() {
            return;
        }
        let mut sides = self.lock();
        for key in changes.gone {
            sides[index(key.0)].rows.remove(&key);
        }
        for row in changes.added {
            let side = &mut sides[index(row.clock)];
            if row.due_ms > side.covered_ms {
                continue;
            }
            if row.due_ms < side.sleeps_until_ms {
                self.sooner.notify_one();
            }
            side.rows.insert(row.key(), row);
        }
    }

    /// Whether it is time to read the database: `margin_ms` before the end of the covered time, or after the clock was
    /// set back.
    pub(super) fn wants_look(&self, now: Now, margin_ms: i64) -> bool {
        let sides = self.lock();
        CLOCKS.iter().any(|clock| {
            let (look_at, now_ms) = (sides[index(*clock)].look_at(margin_ms), now_on(*clock, now));
            look_at <= now_ms || look_at.saturating_sub(now_ms) > 2 * margin_ms
        })
    }

    /// From now on, all rows that this process writes with a due time up to `until_ms` are kept here.
    pub(super) fn cover(&self, clock: ClockKind, until_ms: i64) {
        self.lock()[index(clock)].covered_ms = until_ms;
    }

    /// Adds the rows of a read. `last_ms` is the time of the last row if there are more rows, and `None` if the read
    /// found all.
    pub(super) fn found(&self, clock: ClockKind, rows: Vec<Due>, last_ms: Option<i64>) {
        let side = &mut self.lock()[index(clock)];
        side.rows.extend(rows.into_iter().map(|row| (row.key(), row)));
        side.is_part = last_ms.is_some();
        side.covered_ms = last_ms.unwrap_or(side.covered_ms);
    }

    /// Takes out the rows that are due, earliest first: up to `max` of each clock.
    pub(super) fn take_due(&self, now: Now, max: usize) -> Vec<Due> {
        let mut sides = self.lock();
        let mut due = Vec::new();
        for clock in CLOCKS {
            let rows = &mut sides[index(clock)].rows;
            let most = due.len() + max;
            while due.len() < most
                && let Some(first) = rows.first_entry()
                && first.get().due_ms <= now_on(clock, now)
            {
                due.push(first.remove());
            }
        }
        due
    }

    /// How long the loop can sleep, in milliseconds: until a row is due or a read is needed. A row that becomes due
    /// earlier wakes the loop. The sleep is never longer than the time between two reads, whatever the clock does
    /// meanwhile.
    pub(super) fn sleep_ms(&self, now: Now, margin_ms: i64) -> u64 {
        let mut sides = self.lock();
        let mut shortest = margin_ms;
        for clock in CLOCKS {
            let side = &mut sides[index(clock)];
            let first_ms = side.rows.first_key_value().map_or(i64::MAX, |(_, row)| row.due_ms);
            side.sleeps_until_ms = first_ms.min(side.look_at(margin_ms));
            shortest = shortest.min(side.sleeps_until_ms.saturating_sub(now_on(clock, now)));
        }
        shortest.max(0).unsigned_abs()
    }
}

impl Side {
    /// When the next read is due. If the last read found more than it could take: when all rows of that read are due.
    fn look_at(&self, margin_ms: i64) -> i64 {
        if self.is_part { self.covered_ms } else { self.covered_ms.saturating_sub(margin_ms) }
    }
}

pub(super) fn now_on(clock: ClockKind, now: Now) -> i64 {
    match clock {
        ClockKind::Product => now.ms,
        ClockKind::Lease => now.lease_ms,
    }
}

fn index(clock: ClockKind) -> usize {
    match clock {
        ClockKind::Product => 0,
        ClockKind::Lease => 1,
    }
}

#[cfg(test)]
mod tests {
    use flovyn_engine::state::DueClass;
    use uuid::Uuid;

    use super::*;

    fn at(ms: i64) -> Now {
        Now { ms, lease_ms: ms }
    }

    fn timer(due_ms: i64, id: u128) -> Due {
        Due::new(DueClass::Timer, due_ms, Uuid::nil(), Uuid::from_u128(id))
    }

    fn inserted(rows: impl IntoIterator<Item = Due>) -> DueChanges {
        DueChanges::of(&rows.into_iter().map(Change::Insert).collect::<Vec<_>>(), at(0))
    }

    fn taken(soon: &Soon, now_ms: i64) -> Vec<i64> {
        soon.take_due(at(now_ms), 10).into_iter().map(|row| row.due_ms).collect()
    }

    /// The state after a read that found no rows.
    fn looked(until_ms: i64) -> Soon {
        let soon = Soon::default();
        for clock in CLOCKS {
            soon.cover(clock, until_ms);
            soon.found(clock, Vec::new(), None);
        }
        soon
    }

    #[test]
    fn what_is_written_within_reach_is_due_in_its_order() {
        let soon = looked(2_000);
        soon.committed(inserted([timer(200, 1), timer(100, 2), timer(2_001, 3)]));
        assert!(taken(&soon, 99).is_empty());
        assert_eq!(taken(&soon, 5_000), [100, 200], "a later row is left for the next read");
    }

    #[test]
    fn what_is_gone_is_not_due() {
        let soon = looked(2_000);
        soon.committed(inserted([timer(100, 1), timer(200, 2)]));
        let gone = Change::Delete { row: timer(100, 1), expected_version: None };
        soon.committed(DueChanges::of(&[gone], at(0)));
        assert_eq!(taken(&soon, 5_000), [200]);
    }

    #[test]
    fn a_look_is_wanted_in_time_and_after_the_clock_has_moved() {
        let soon = Soon::default();
        assert!(soon.wants_look(at(0), 1_000), "nothing was read yet");
        let soon = looked(2_000);
        assert!(!soon.wants_look(at(999), 1_000));
        assert_eq!(soon.sleep_ms(at(900), 1_000), 100);
        assert!(soon.wants_look(at(1_000), 1_000));
        assert!(soon.wants_look(at(3_600_000), 1_000));
        assert!(soon.wants_look(at(-5_000), 1_000), "the clock was set back");
        assert_eq!(soon.sleep_ms(at(-5_000), 1_000), 1_000);
    }

    #[test]
    fn leases_do_not_wait_behind_timers() {
        let soon = looked(2_000);
        let lease = Due::new(DueClass::TaskLease, 50, Uuid::nil(), Uuid::from_u128(9));
        soon.committed(inserted((0..20).map(|id| timer(10, id)).chain([lease])));
        assert!(taken(&soon, 100).contains(&50));
    }

    #[test]
    fn after_part_of_what_is_due_the_rest_is_looked_for_at_once() {
        let soon = looked(2_000);
        // This row was written during the read, and is later than the last row that the read could take.
        soon.committed(inserted([timer(900, 1)]));
        soon.found(ClockKind::Product, vec![timer(100, 2)], Some(100));
        soon.committed(inserted([timer(150, 3)]));
        assert_eq!(taken(&soon, 200), [100], "the next read finds the other row");
        assert!(soon.wants_look(at(200), 1_000));
        assert_eq!(soon.sleep_ms(at(200), 1_000), 0);
    }

    #[tokio::test]
    async fn only_what_comes_sooner_wakes_the_loop() {
        let soon = looked(2_000);
        soon.committed(inserted([timer(500, 1)]));
        assert_eq!(soon.sleep_ms(at(0), 1_000), 500);
        soon.committed(inserted([timer(600, 2)]));
        assert!(futures::poll!(Box::pin(soon.is_sooner())).is_pending());
        soon.committed(inserted([timer(400, 3)]));
        assert!(futures::poll!(Box::pin(soon.is_sooner())).is_ready());
    }
}
