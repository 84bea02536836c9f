//! One table of the working set: rows as loaded, rows as changed, and a journal to undo a request.
//!
//! Knows nothing of rules or of databases.

use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// A row of a table: data with a key.
pub trait Row: Clone + PartialEq + Debug + Send + Sync + 'static {
    type Key: Ord + Hash + Clone + Debug + Send + Sync;

    /// Whether a row is loaded under its own lock. Others are guarded by the lock of the row that owns them.
    const LOCKED: bool = false;
    /// Whether rows may be written without having been loaded. Such rows are only inserted and deleted, and the row
    /// that owns them says whether they exist.
    const BLIND: bool = false;

    fn key(&self) -> Self::Key;

    /// The compare-and-swap counter, in tables that have one.
    fn version(&self) -> Option<i64> {
        None
    }

    fn version_mut(&mut self) -> Option<&mut i64> {
        None
    }
}

/// A change to one row, for the store.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<R> {
    Insert(R),
    /// The stored row must still have `expected_version`, the version before the new row's own. `None`: the table has
    /// no versions.
    Update {
        row: R,
        expected_version: Option<i64>,
    },
    /// The row must exist, with `expected_version` if the table has versions.
    Delete {
        row: R,
        expected_version: Option<i64>,
    },
}

impl<R> Change<R> {
    /// The row as written, or the row that was deleted.
    pub fn row(&self) -> &R {
        match self {
            Self::Insert(row) | Self::Update { row, .. } | Self::Delete { row, .. } => row,
        }
    }

    /// The row after the change. `None`: it is deleted.
    pub fn made(&self) -> Option<&R> {
        match self {
            Self::Insert(row) | Self::Update { row, .. } => Some(row),
            Self::Delete { .. } => None,
        }
    }
}

/// The result of a load for a key.
#[derive(Debug, Clone)]
pub enum Found<R> {
    Absent,
    Row(R),
    /// Locked by another process: the row may not be read or written in this batch.
    Busy,
}

#[derive(Debug)]
struct Slot<R> {
    stored: Option<R>,
    /// The row as this batch has written it. Unset for most rows, which are only read.
    made: Option<Option<R>>,
    busy: bool,
    locked: bool,
}

impl<R> Slot<R> {
    fn new(stored: Option<R>, locked: bool) -> Box<Self> {
        Box::new(Self { stored, made: None, busy: false, locked })
    }

    fn current(&self) -> Option<&R> {
        self.made.as_ref().unwrap_or(&self.stored).as_ref()
    }
}

/// What the batch had written to a row before this write. `None`: nothing. Boxed, so that the journal's entries are
/// small; only a row that is written twice in a batch needs the box.
type Before<R> = Option<Box<Option<R>>>;

/// What the working set knows about a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Known<'a, R> {
    /// Not loaded yet, or loaded without the lock that is needed.
    No,
    Busy,
    Absent,
    Row(&'a R),
}

#[derive(Debug)]
pub struct Table<R: Row> {
    /// Boxed: rows are large, and a map that grows moves all of them.
    slots: FxHashMap<R::Key, Box<Slot<R>>>,
    /// The state of each key before the current request wrote to it.
    journal: Vec<(R::Key, Before<R>)>,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self { slots: FxHashMap::default(), journal: Vec::new() }
    }
}

impl<R: Row> Table<R> {
    /// Adds a loaded row. A row that this batch has already written is not replaced.
    pub fn supply(&mut self, key: R::Key, found: Found<R>, locked: bool) {
        match (self.slots.entry(key), found) {
            (Entry::Occupied(slot), _)
                if slot.get().made.is_some() || (slot.get().locked && !slot.get().busy) => {}
            // A row that was read before stays visible: a rule that lists rows must find it, and then has to wait.
            (Entry::Occupied(mut slot), Found::Busy) => {
                let slot = slot.get_mut();
                (slot.busy, slot.locked) = (true, locked);
            }
            (slot, Found::Busy) => {
                slot.insert_entry(Slot::new(None, locked)).get_mut().busy = true;
            }
            (slot, found) => {
                let stored = match found {
                    Found::Row(row) => Some(row),
                    _ => None,
                };
                slot.insert_entry(Slot::new(stored, locked));
            }
        }
    }

    pub fn known(&self, key: &R::Key, for_update: bool) -> Known<'_, R> {
        match self.slots.get(key) {
            None => Known::No,
            Some(slot) if slot.busy => Known::Busy,
            Some(slot) if for_update && R::LOCKED && !slot.locked && slot.made.is_none() => Known::No,
            Some(slot) => slot.current().map_or(Known::Absent, Known::Row),
        }
    }

    /// The row as this request sees it.
    ///
    /// # Panics
    /// When the key was never requested: a bug in a rule's `needs`. The panic is caught per request.
    pub fn get(&self, key: &R::Key) -> Option<&R> {
        match self.slots.get(key) {
            Some(slot) => slot.current(),
            None if R::BLIND => None,
            None => panic!("{key:?} is read but was never requested"),
        }
    }

    pub fn put(&mut self, row: R) {
        self.write(row.key(), Some(row));
    }

    /// Removes a row that was loaded or written before.
    pub fn delete(&mut self, key: &R::Key) {
        self.write(key.clone(), None);
    }

    /// Removes a row that exists according to its owner, whether it was loaded or not.
    pub fn delete_known(&mut self, row: R) {
        let key = row.key();
        self.slots.entry(key.clone()).or_insert_with(|| Slot::new(Some(row), true));
        self.write(key, None);
    }

    fn write(&mut self, key: R::Key, value: Option<R>) {
        let slot = match self.slots.get_mut(&key) {
            Some(slot) => slot,
            None if R::BLIND => self.slots.entry(key.clone()).or_insert_with(|| Slot::new(None, true)),
            None => panic!("{key:?} is written but was never requested"),
        };
        assert!(!slot.busy, "{key:?} is written but is busy");
        let before = slot.made.replace(value);
        self.journal.push((key, before.map(Box::new)));
    }

    /// Whether the current request has changed any row.
    pub fn is_changed(&self) -> bool {
        let differs = |slot: &Slot<R>, before: &Before<R>| {
            before.as_deref().unwrap_or(&slot.stored).as_ref() != slot.current()
        };
        self.journal.iter().any(|(key, before)| self.slots.get(key).is_some_and(|slot| differs(slot, before)))
    }

    /// Rows that the request wrote and that exist now.
    pub fn written(&self) -> impl Iterator<Item = &R> {
        self.journal.iter().filter_map(|(key, _)| self.slots.get(key)?.current())
    }

    /// Keeps the writes of the current request.
    pub fn keep(&mut self) {
        self.journal.clear();
    }

    /// The number of writes of the current request.
    pub fn mark(&self) -> usize {
        self.journal.len()
    }

    /// Undoes what the request wrote after a mark.
    pub fn undo_to(&mut self, mark: usize) {
        while self.journal.len() > mark
            && let Some((key, before)) = self.journal.pop()
        {
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.made = before.map(|before| *before);
            }
        }
    }

    /// Rows that this batch inserts, in no particular order.
    pub fn inserted(&self) -> impl Iterator<Item = &R> {
        self.slots.values().filter(|slot| slot.stored.is_none()).filter_map(|slot| slot.current())
    }

    /// Rows that exist now, in no particular order.
    pub fn current(&self) -> impl Iterator<Item = &R> {
        self.slots.values().filter_map(|slot| slot.current())
    }

    /// The net effect of all requests of the batch, sorted by key. A row written five times is one change; a row that
    /// was inserted and deleted is none. Loaded rows are dropped.
    pub fn take_changes(&mut self) -> Vec<Change<R>> {
        let mut made: Vec<_> = self.slots.drain().filter(|(_, slot)| slot.made.is_some()).collect();
        made.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut changes = Vec::with_capacity(made.len());
        changes.extend(made.into_iter().filter_map(|(_, slot)| change(*slot)));
        changes
    }
}

fn change<R: Row>(slot: Slot<R>) -> Option<Change<R>> {
    let made = slot.made.filter(|made| *made != slot.stored)?;
    match (slot.stored, made) {
        (None, None) => None,
        (None, Some(mut row)) => {
            if let Some(version) = row.version_mut() {
                *version = 1;
            }
            Some(Change::Insert(row))
        }
        (Some(stored), Some(mut row)) => {
            let expected_version = stored.version();
            if let (Some(version), Some(stored)) = (row.version_mut(), expected_version) {
                *version = stored + 1;
            }
            Some(Change::Update { row, expected_version })
        }
        (Some(row), None) => {
            let expected_version = row.version();
            Some(Change::Delete { row, expected_version })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ids::Ids;

    #[derive(Debug, Clone, PartialEq)]
    struct Cell {
        key: u32,
        value: u32,
    }

    impl Row for Cell {
        type Key = u32;
        const LOCKED: bool = true;
        const BLIND: bool = true;
        fn key(&self) -> u32 {
            self.key
        }
    }

    const KEYS: u32 = 5;

    /// With random writes, keeps and undos, the table behaves like a plain map of values. Its changes are the
    /// difference from what was loaded.
    #[test]
    fn a_table_does_what_a_plain_map_does() {
        for seed in 0..300 {
            let mut ids = Ids::new(seed);
            let mut below = |limit: u32| (ids.fraction() * f64::from(limit)) as u32;
            let mut table = Table::<Cell>::default();
            let mut stored: BTreeMap<u32, Cell> = BTreeMap::new();
            for key in 0..KEYS {
                let row = (below(2) == 0).then_some(Cell { key, value: 0 });
                stored.extend(row.clone().map(|row| (key, row)));
                // A row is often read before its lock is available.
                if below(2) == 0 {
                    table.supply(key, row.clone().map_or(Found::Absent, Found::Row), false);
                    assert_eq!(table.known(&key, true), Known::No);
                }
                if below(3) == 0 {
                    table.supply(key, Found::Busy, false);
                    assert_eq!(table.known(&key, true), Known::Busy);
                }
                table.supply(key, row.map_or(Found::Absent, Found::Row), true);
            }
            let (mut now, mut before) = (stored.clone(), stored.clone());
            let (mut marked, mut mark) = (stored.clone(), 0);
            for step in 1..40 {
                let key = below(KEYS);
                match below(8) {
                    0..=2 => {
                        now.insert(key, Cell { key, value: step % 3 });
                        table.put(Cell { key, value: step % 3 });
                    }
                    3 => {
                        now.remove(&key);
                        table.delete(&key);
                    }
                    4 => (marked, mark) = (now.clone(), table.mark()),
                    5 => {
                        now.clone_from(&marked);
                        table.undo_to(mark);
                    }
                    6 => {
                        assert!(table.is_changed() || before == now, "seed {seed}");
                        table.keep();
                        before.clone_from(&now);
                        (marked, mark) = (now.clone(), 0);
                    }
                    // A second load of the row must not replace what was written meanwhile.
                    _ => table.supply(key, stored.get(&key).cloned().map_or(Found::Absent, Found::Row), true),
                }
                for key in 0..KEYS {
                    assert_eq!(table.get(&key), now.get(&key), "seed {seed}, step {step}");
                }
                assert_eq!(table.current().count(), now.len());
                let new = now.keys().filter(|key| !stored.contains_key(key)).count();
                assert_eq!(table.inserted().count(), new, "seed {seed}, step {step}");
            }
            let changes: Vec<Change<Cell>> = (0..KEYS)
                .filter_map(|key| match (stored.get(&key), now.get(&key)) {
                    (before, after) if before == after => None,
                    (None, after) => after.cloned().map(Change::Insert),
                    (Some(_), Some(row)) => Some(Change::Update { row: row.clone(), expected_version: None }),
                    (Some(row), None) => Some(Change::Delete { row: row.clone(), expected_version: None }),
                })
                .collect();
            assert_eq!(table.take_changes(), changes, "seed {seed}");
        }
    }

    #[test]
    fn a_row_that_its_owner_knows_of_is_there_again_when_its_end_is_taken_back() {
        let mut table = Table::<Cell>::default();
        table.delete_known(Cell { key: 1, value: 7 });
        assert_eq!(table.get(&1), None);
        table.undo_to(0);
        assert_eq!(table.get(&1), Some(&Cell { key: 1, value: 7 }));
        assert_eq!(table.take_changes(), []);
    }
}
