//! The rows of the memory store: one ordered map per table. All changes are checked before any is written.

use std::collections::{BTreeMap, BTreeSet};

use flovyn_engine::planted::{Bug, planted};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Change, Mutations, Row, Wants};
use flovyn_engine::{Loaded, for_each_table};

use crate::port::{StoreError, StoreResult};
use crate::record::Record;

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        /// All tables, without a lock or a clock.
        #[derive(Debug, Clone, Default)]
        pub struct MemoryTables {
            $(pub(super) $field: BTreeMap<<$row as Row>::Key, $row>,)*
        }

        impl MemoryTables {
            /// Writes all changes, or none.
            pub fn apply(&mut self, mutations: &Mutations) -> StoreResult<()> {
                $(check(&self.$field, &mutations.$field)?;)*
                check_unique(&self.tenants, &mutations.tenants, |tenant| tenant.slug.as_bytes())?;
                check_unique(&self.worker_tokens, &mutations.worker_tokens, |token| &token.hash)?;
                $(write(&mut self.$field, &mutations.$field);)*
                Ok(())
            }

            /// Tables with these rows. The rows are not checked: tests build broken states with this.
            pub fn with_rows(snapshot: Snapshot) -> Self {
                Self { $($field: snapshot.$field.into_iter().map(|row| (row.key(), row)).collect(),)* }
            }

            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($field: self.$field.values().cloned().collect(),)* }
            }

            pub(super) fn load_keys(&self, wants: &Wants, loaded: &mut Loaded) {
                $(for key in wants.$field.lock.union(&wants.$field.peek) {
                    loaded.$field.extend(self.$field.get(key).cloned());
                })*
            }
        }
    };
}
for_each_table!(define);

fn row_of<R>(change: &Change<R>) -> &R {
    match change {
        Change::Insert(row) | Change::Update { row, .. } | Change::Delete { row, .. } => row,
    }
}

fn check<R: Record>(table: &BTreeMap<R::Key, R>, changes: &[Change<R>]) -> StoreResult<()> {
    let mut seen = BTreeSet::new();
    for change in changes {
        let key = row_of(change).key();
        let conflict = |problem: &str| Err(StoreError::Conflict(format!("{} {key:?} {problem}", R::TABLE)));
        if !seen.insert(key.clone()) {
            return conflict("is changed twice");
        }
        match (change, table.get(&key)) {
            (Change::Insert(_), None) => {}
            (Change::Insert(_), Some(_)) => return conflict("is taken"),
            (_, None) => return conflict("is gone"),
            (Change::Update { row, expected_version }, Some(stored)) => {
                if !has_version(stored, *expected_version) {
                    return conflict("has changed");
                }
                check_fixed(stored, row)?;
            }
            (Change::Delete { expected_version, .. }, Some(stored)) => {
                if !has_version(stored, *expected_version) {
                    return conflict("has changed");
                }
            }
        }
    }
    Ok(())
}

fn has_version<R: Row>(stored: &R, expected: Option<i64>) -> bool {
    expected.is_none() || stored.version() == expected || planted(Bug::VersionNotChecked)
}

/// Refuses a changed value of a fixed column. Updates of the databases omit fixed columns, so the change would be
/// lost silently.
fn check_fixed<R: Record>(stored: &R, row: &R) -> StoreResult<()> {
    if R::COLUMNS.iter().all(|column| column.fixed) {
        return Err(StoreError::Refused(format!("rows of {} never change", R::TABLE)));
    }
    let (mut before, mut after) = (Vec::new(), Vec::new());
    stored.values(&mut before);
    row.values(&mut after);
    for (index, column) in R::COLUMNS.iter().enumerate() {
        if column.fixed && before[index] != after[index] {
            return Err(StoreError::Refused(format!("{}.{} never changes", R::TABLE, column.name)));
        }
    }
    Ok(())
}

/// Checks a unique column that is not the key: an inserted row must not have the value of a remaining row, or of
/// another inserted row.
fn check_unique<R: Record>(
    table: &BTreeMap<R::Key, R>,
    changes: &[Change<R>],
    unique: impl Fn(&R) -> &[u8],
) -> StoreResult<()> {
    let deleted: BTreeSet<R::Key> = changes
        .iter()
        .filter(|change| matches!(change, Change::Delete { .. }))
        .map(|change| row_of(change).key())
        .collect();
    let mut inserted: BTreeSet<&[u8]> = BTreeSet::new();
    for change in changes {
        let Change::Insert(row) = change else { continue };
        let taken =
            table.values().any(|stored| unique(stored) == unique(row) && !deleted.contains(&stored.key()));
        if taken || !inserted.insert(unique(row)) {
            return Err(StoreError::Conflict(format!(
                "{} {:?} has a value that is taken",
                R::TABLE,
                row.key()
            )));
        }
    }
    Ok(())
}

fn write<R: Row>(table: &mut BTreeMap<R::Key, R>, changes: &[Change<R>]) {
    for change in changes {
        match change {
            Change::Insert(row) | Change::Update { row, .. } => table.insert(row.key(), row.clone()),
            Change::Delete { row, .. } => table.remove(&row.key()),
        };
    }
}
