//! One table of the working set: rows as loaded, rows as they will be, and a journal to take a request back.
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
    /// Whether rows may be written without having been loaded: they are only ever inserted and deleted, and
    /// the row that owns them says whether they exist.
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

/// What a store is to do with one row.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<R> {
    Insert(R),
    /// The row must still have `expected_version` (where the table has versions), the one before its own.
    Update {
        row: R,
        expected_version: Option<i64>,
    },
    /// The row must be there, with `expected_version` where the table has versions.
    Delete {
        row: R,
        expected_version: Option<i64>,
    },
}

impl<R> Change<R> {
    /// The row that is written, or was there.
    pub fn row(&self) -> &R {
        match self {
            Self::Insert(row) | Self::Update { row, .. } | Self::Delete { row, .. } => row,
        }
    }

    /// The row as it is afterwards.
    pub fn made(&self) -> Option<&R> {
        match self {
            Self::Insert(row) | Self::Update { row, .. } => Some(row),
            Self::Delete { .. } => None,
        }
    }
}

/// What a load found for a key.
#[derive(Debug, Clone)]
pub enum Found<R> {
    Absent,
    Row(R),
    /// Locked by another process: it may not be read or written in this batch.
    Busy,
}

#[derive(Debug)]
struct Slot<R> {
    stored: Option<R>,
    /// What the batch has made of it, once it has written it: most rows are only looked at.
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

/// What had been written to a row before, if anything had. Boxed, so that the journal's entries are small; only a row that is written
/// twice in a batch pays for it.
type Before<R> = Option<Box<Option<R>>>;

/// What the working set knows about a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Known<'a, R> {
    /// Not loaded yet (or only looked at, where a lock is wanted).
    No,
    Busy,
    Absent,
    Row(&'a R),
}

#[derive(Debug)]
pub struct Table<R: Row> {
    /// Boxed: rows are large, and a map that grows moves all of them.
    slots: FxHashMap<R::Key, Box<Slot<R>>>,
    /// What had been written to each key before the request that is being decided wrote to it.
    journal: Vec<(R::Key, Before<R>)>,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self { slots: FxHashMap::default(), journal: Vec::new() }
    }
}

impl<R: Row> Table<R> {
    /// Takes in what was loaded. A row already written in this batch is left alone.
    pub fn supply(&mut self, key: R::Key, found: Found<R>, locked: bool) {
        match (self.slots.entry(key), found) {
            (Entry::Occupied(slot), _)
                if slot.get().made.is_some() || (slot.get().locked && !slot.get().busy) => {}
            // What was looked at before stays in sight: whoever goes through its rows must find that it has to wait.
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
    /// When the key was never asked for: a fault in a rule's `needs`, caught per request.
    pub fn get(&self, key: &R::Key) -> Option<&R> {
        match self.slots.get(key) {
            Some(slot) => slot.current(),
            None if R::BLIND => None,
            None => panic!("{key:?} is read but was not asked for"),
        }
    }

    pub fn put(&mut self, row: R) {
        self.write(row.key(), Some(row));
    }

    /// Removes a row that was loaded or written before.
    pub fn delete(&mut self, key: &R::Key) {
        self.write(key.clone(), None);
    }

    /// Removes a row that its owner says exists, whether it was loaded or not.
    pub fn delete_known(&mut self, row: R) {
        let key = row.key();
        self.slots.entry(key.clone()).or_insert_with(|| Slot::new(Some(row), true));
        self.write(key, None);
    }

    fn write(&mut self, key: R::Key, value: Option<R>) {
        let slot = match self.slots.get_mut(&key) {
            Some(slot) => slot,
            None if R::BLIND => self.slots.entry(key.clone()).or_insert_with(|| Slot::new(None, true)),
            None => panic!("{key:?} is written but was not asked for"),
        };
        assert!(!slot.busy, "{key:?} is written but is busy");
        let before = slot.made.replace(value);
        self.journal.push((key, before.map(Box::new)));
    }

    /// Whether the request leaves a row other than it found it.
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

    /// Keeps what the request wrote.
    pub fn keep(&mut self) {
        self.journal.clear();
    }

    /// How much the request has written so far.
    pub fn mark(&self) -> usize {
        self.journal.len()
    }

    /// Takes back what the request wrote after a mark.
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

    /// Net effect of all requests of the batch, sorted by key: a row written five times is one change, one that
    /// came and went is none. What was loaded is given up.
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

    /// Whatever requests write, keep and take back: the table says what a plain map of values says, and ends with what
    /// differs from what was loaded.
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
                // Often looked at before its lock can be had.
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
                    // What was loaded is loaded again: what was written meanwhile counts.
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
