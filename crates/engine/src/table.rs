//! One table of the working set: rows as loaded, rows as they will be, and a journal to take a request back.
//!
//! Knows nothing of rules or of databases.

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
    current: Option<R>,
    busy: bool,
    locked: bool,
    touched: bool,
}

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
    slots: FxHashMap<R::Key, Slot<R>>,
    /// Value of each key before the request that is being decided touched it.
    journal: Vec<(R::Key, Option<R>)>,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self { slots: FxHashMap::default(), journal: Vec::new() }
    }
}

impl<R: Row> Table<R> {
    /// Takes in what was loaded. A row already written in this batch is left alone.
    pub fn supply(&mut self, key: R::Key, found: Found<R>, locked: bool) {
        if self.slots.get(&key).is_some_and(|slot| slot.touched || (slot.locked && !slot.busy)) {
            return;
        }
        let (stored, busy) = match found {
            Found::Absent => (None, false),
            Found::Row(row) => (Some(row), false),
            // What was looked at before stays in sight: whoever goes through its rows must find that it has to wait.
            Found::Busy => (self.slots.get(&key).and_then(|slot| slot.stored.clone()), true),
        };
        let current = stored.clone();
        self.slots.insert(key, Slot { stored, current, busy, locked, touched: false });
    }

    pub fn known(&self, key: &R::Key, for_update: bool) -> Known<'_, R> {
        match self.slots.get(key) {
            None => Known::No,
            Some(slot) if slot.busy => Known::Busy,
            Some(slot) if for_update && R::LOCKED && !slot.locked && !slot.touched => Known::No,
            Some(slot) => slot.current.as_ref().map_or(Known::Absent, Known::Row),
        }
    }

    /// The row as this request sees it.
    ///
    /// # Panics
    /// When the key was never asked for: a fault in a rule's `needs`, caught per request.
    pub fn get(&self, key: &R::Key) -> Option<&R> {
        match self.slots.get(key) {
            Some(slot) => slot.current.as_ref(),
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
        self.slots.entry(key.clone()).or_insert_with(|| Slot {
            stored: Some(row.clone()),
            current: Some(row),
            busy: false,
            locked: true,
            touched: false,
        });
        self.write(key, None);
    }

    fn write(&mut self, key: R::Key, value: Option<R>) {
        let slot = match self.slots.get_mut(&key) {
            Some(slot) => slot,
            None if R::BLIND => self.slots.entry(key.clone()).or_insert(Slot {
                stored: None,
                current: None,
                busy: false,
                locked: true,
                touched: false,
            }),
            None => panic!("{key:?} is written but was not asked for"),
        };
        assert!(!slot.busy, "{key:?} is written but is busy");
        slot.touched = true;
        let before = std::mem::replace(&mut slot.current, value);
        self.journal.push((key, before));
    }

    /// Whether the request leaves a row other than it found it.
    pub fn is_changed(&self) -> bool {
        let now = |key: &R::Key| self.slots.get(key).and_then(|slot| slot.current.as_ref());
        self.journal.iter().any(|(key, before)| before.as_ref() != now(key))
    }

    /// Rows that the request wrote and that exist now.
    pub fn written(&self) -> impl Iterator<Item = &R> {
        self.journal.iter().filter_map(|(key, _)| self.slots.get(key)?.current.as_ref())
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
                slot.current = before;
            }
        }
    }

    /// Rows that this batch inserts, in no particular order.
    pub fn inserted(&self) -> impl Iterator<Item = &R> {
        self.slots.values().filter(|slot| slot.stored.is_none()).filter_map(|slot| slot.current.as_ref())
    }

    /// Rows that exist now, in no particular order.
    pub fn current(&self) -> impl Iterator<Item = &R> {
        self.slots.values().filter_map(|slot| slot.current.as_ref())
    }

    /// Net effect of all requests of the batch, sorted by key: a row written five times is one change, one that
    /// came and went is none. What was loaded is given up.
    pub fn take_changes(&mut self) -> Vec<Change<R>> {
        let changed = |(key, slot): (R::Key, Slot<R>)| {
            let change = (slot.touched && slot.stored != slot.current).then(|| change(slot))?;
            change.map(|change| (key, change))
        };
        let mut changes: Vec<(R::Key, Change<R>)> = self.slots.drain().filter_map(changed).collect();
        changes.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        changes.into_iter().map(|(_, change)| change).collect()
    }
}

fn change<R: Row>(slot: Slot<R>) -> Option<Change<R>> {
    match (slot.stored, slot.current) {
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
