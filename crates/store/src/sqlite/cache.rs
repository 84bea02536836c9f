//! Open rows that were written recently, as they are in the file. A workflow's next step finds its execution and its
//! task here and need not decode them. Ended rows are hardly ever needed again and are not kept.
//!
//! No other process writes, so the last committed row is the row in the file. Rows are added only after their commit,
//! so a failed transaction leaves nothing to undo. Until then the loader has them.

use flovyn_engine::state::*;
use flovyn_engine::{Change, Mutations, Row, for_each_table};
use rustc_hash::FxHashMap;

use super::sql::{Outcome, Statements};
use crate::record::Record;
use crate::value::Value;

/// The most rows in one generation of a table; `GENERATION_BYTES` limits their text and payloads. Each table has two
/// generations.
const GENERATION: usize = if cfg!(test) { 512 } else { 8_192 };
const GENERATION_BYTES: usize = GENERATION * 512;

/// A row with more text and payload than this is not kept: a few such rows would fill the memory.
const LARGE: usize = 4_096;

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        #[derive(Debug, Default)]
        pub(super) struct Cache { $(pub(super) $field: Shelf<$row>,)* }

        impl Cache {
            /// Adds the rows that have just been committed.
            pub(super) fn take_in(&mut self, committed: Mutations, sql: &Statements) {
                $(self.$field.take_in(committed.$field, sql.$field.outcome.as_ref());)*
            }
        }
    };
}
for_each_table!(define);

/// The rows of one table. Rows that are used move to the young generation. When it is full, the old generation is
/// dropped.
#[derive(Debug)]
pub(super) struct Shelf<R: Row> {
    /// Boxed, because rows are large and a growing map would move all of them.
    young: FxHashMap<R::Key, Box<R>>,
    old: FxHashMap<R::Key, Box<R>>,
    young_bytes: usize,
}

impl<R: Row> Default for Shelf<R> {
    fn default() -> Self {
        Self { young: FxHashMap::default(), old: FxHashMap::default(), young_bytes: 0 }
    }
}

impl<R: Record> Shelf<R> {
    pub(super) fn get(&mut self, key: &R::Key) -> Option<&R> {
        if let Some(row) = self.old.remove(key) {
            self.insert(key.clone(), row);
        }
        self.young.get(key).map(Box::as_ref)
    }

    /// Only rows that are locked one by one change again and again. All other rows are read once or never.
    fn take_in(&mut self, changes: Vec<Change<R>>, outcome: Option<&Outcome>) {
        if !R::LOCKED {
            return;
        }
        for change in changes {
            match change {
                Change::Insert(row) | Change::Update { row, .. } if is_worth_keeping(&row, outcome) => {
                    let key = row.key();
                    self.insert(key.clone(), Box::new(row));
                    // This comes last, because the insert may have moved the replaced row to the old generation.
                    self.old.remove(&key);
                }
                Change::Insert(row) | Change::Update { row, .. } | Change::Delete { row, .. } => {
                    self.forget(&row.key());
                }
            }
        }
    }

    fn insert(&mut self, key: R::Key, row: Box<R>) {
        if self.young.len() >= GENERATION || self.young_bytes >= GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes(&*row);
        if let Some(before) = self.young.insert(key, row) {
            self.young_bytes -= bytes(&*before);
        }
    }

    fn forget(&mut self, key: &R::Key) {
        if let Some(row) = self.young.remove(key) {
            self.young_bytes -= bytes(&*row);
        }
        self.old.remove(key);
    }
}

fn is_worth_keeping<R: Record>(row: &R, outcome: Option<&Outcome>) -> bool {
    outcome.is_none_or(|outcome| outcome.is_open(row)) && bytes(row) <= LARGE
}

/// Bytes of its text and payloads.
fn bytes<R: Record>(row: &R) -> usize {
    let mut bytes = 0;
    row.each_value(|value| {
        bytes += match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    });
    bytes
}

#[cfg(test)]
mod tests {
    use flovyn_engine::request::{Op, StartWorkflow};
    use flovyn_engine::{Batch, BatchStep, Limits, Loaded, Now, Request};
    use std::sync::Arc;
    use uuid::Uuid;

    use super::*;

    /// Executions created by the engine.
    fn executions(count: u64) -> Vec<Execution> {
        let start = |seed| {
            let op = Op::from(StartWorkflow::new("order", "default", "{}".into()));
            Arc::new(Request::new(Uuid::nil(), seed, op))
        };
        let mut batch = Batch::new((0..count).map(start).collect(), Arc::new(Limits::default()));
        let mut step = batch.advance(None);
        while let BatchStep::Load(_) = step {
            step = batch.advance(Some(Loaded::at(Now::same(1))));
        }
        let row = |change| match change {
            Change::Insert(row) => row,
            other => panic!("{other:?}"),
        };
        batch.take_mutations().executions.into_iter().map(row).collect()
    }

    fn update(row: &Execution) -> Change<Execution> {
        Change::Update { row: row.clone(), expected_version: Some(row.version) }
    }

    #[test]
    fn what_is_used_stays_and_the_number_of_rows_is_bounded() {
        let mut shelf = Shelf::default();
        let rows = executions(6 * GENERATION as u64);
        for row in &rows {
            shelf.take_in(vec![Change::Insert(row.clone())], None);
            assert_eq!(shelf.get(&rows[0].key()), Some(&rows[0]));
        }
        assert!(shelf.young.len() + shelf.old.len() <= 2 * GENERATION);
        assert_eq!(shelf.get(&rows[1].key()), None);
        assert_eq!(shelf.get(&rows[rows.len() - 1].key()), rows.last());
    }

    #[test]
    fn rows_with_much_text_are_fewer() {
        let mut shelf = Shelf::default();
        for mut row in executions(GENERATION as u64) {
            row.failure_message = Some("x".repeat(LARGE / 2).into());
            shelf.take_in(vec![Change::Insert(row.clone())], None);
            assert_eq!(shelf.get(&row.key()), Some(&row));
        }
        let kept: usize = shelf.young.values().chain(shelf.old.values()).map(|row| bytes(&**row)).sum();
        assert!((GENERATION_BYTES..=2 * (GENERATION_BYTES + LARGE)).contains(&kept), "{kept} bytes");
    }

    #[test]
    fn the_last_committed_row_is_found_and_a_deleted_one_is_not() {
        let mut shelf = Shelf::default();
        // The first row, at the time when one generation is full, and when both are.
        let mut first = executions(1).remove(0);
        for _ in 0..2 {
            let rows = executions(GENERATION as u64);
            shelf.take_in(rows.into_iter().map(Change::Insert).collect(), None);
            first.open_tasks += 7;
            shelf.take_in(vec![update(&first)], None);
            assert_eq!(shelf.get(&first.key()), Some(&first));
        }
        shelf.take_in(vec![Change::Delete { row: first.clone(), expected_version: None }], None);
        assert_eq!(shelf.get(&first.key()), None);
    }

    #[test]
    fn a_row_that_has_grown_large_is_forgotten() {
        let mut shelf = Shelf::default();
        let mut row = executions(1).remove(0);
        shelf.take_in(vec![Change::Insert(row.clone())], None);
        row.failure_message = Some("x".repeat(LARGE).into());
        shelf.take_in(vec![update(&row)], None);
        assert_eq!(shelf.get(&row.key()), None);
    }

    #[test]
    fn a_row_that_has_ended_is_forgotten() {
        let (mut shelf, sql) = (Shelf::default(), Statements::all());
        let mut row = executions(1).remove(0);
        shelf.take_in(vec![Change::Insert(row.clone())], sql.executions.outcome.as_ref());
        assert_eq!(shelf.get(&row.key()), Some(&row));
        row.status = ExecutionStatus::Completed;
        shelf.take_in(vec![update(&row)], sql.executions.outcome.as_ref());
        assert_eq!(shelf.get(&row.key()), None);
    }
}
