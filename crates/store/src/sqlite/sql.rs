//! The statements that every table has, built once from its record.
//!
//! A parameter has the number of its column, counted from 1; one more is the expected version. Where many rows are inserted, those
//! of the next row follow.

use std::sync::LazyLock;

use flovyn_engine::for_each_table;
use flovyn_engine::state::*;

use super::codec::columns;
use crate::record::Record;
use crate::value::Value;

/// Rows that one statement inserts where there are as many. What a statement costs beside its rows is paid once for all
/// of them, and rows in the order of an index go to its end without a search.
pub(super) const INSERTED_AT_ONCE: usize = 16;

#[derive(Debug)]
pub(super) struct TableSql {
    pub(super) select: String,
    /// One row.
    pub(super) insert: String,
    /// [`INSERTED_AT_ONCE`] rows: their parameters follow one another.
    pub(super) insert_many: String,
    /// `None`: rows of this table never change.
    pub(super) update: Option<String>,
    pub(super) delete: String,
    /// Number of the parameter with the expected version.
    pub(super) expected: Option<usize>,
    pub(super) outcome: Option<Outcome>,
}

/// Executions and tasks have a column of their own for the listing by status: the status once it is terminal, NULL
/// before. SQLite rewrites an index entry whenever one of its columns is set, even to the same value, so an update
/// of a row that stays open leaves this column out. It is derived data; a wrong guess costs a second try.
#[derive(Debug)]
pub(super) struct Outcome {
    status: usize,
    first_terminal: i16,
    /// Hits only a row that was open before.
    pub(super) update_open: String,
}

impl Outcome {
    pub(super) fn is_open<R: Record>(&self, row: &R) -> bool {
        let (mut index, mut open) = (0, false);
        row.each_value(|value| {
            open |=
                index == self.status && matches!(value, Value::Small(status) if status < self.first_terminal);
            index += 1;
        });
        open
    }
}

/// Index of the status, and from which one on a row of the table has ended.
fn status_of<R: Record>() -> Option<(usize, i16)> {
    let first_terminal = match R::TABLE {
        Execution::TABLE => ExecutionStatus::Completed as i16,
        Task::TABLE => TaskStatus::Completed as i16,
        _ => return None,
    };
    let status = R::COLUMNS.iter().position(|column| column.name == "status")?;
    Some((status, first_terminal))
}

impl TableSql {
    pub(super) fn of<R: Record>() -> Self {
        let parameter = |index: usize| format!("{} = ?{}", R::COLUMNS[index].name, index + 1);
        let key = (0..R::KEY_COLUMNS).map(parameter).collect::<Vec<_>>().join(" AND ");
        let expected = R::VERSION.map(|_| R::COLUMNS.len() + 1);
        let row = match expected {
            Some(number) => format!("{key} AND (?{number} IS NULL OR version = ?{number})"),
            None => key.clone(),
        };
        let changing = (0..R::COLUMNS.len()).filter(|index| !R::COLUMNS[*index].fixed);
        let set = changing.map(parameter).collect::<Vec<_>>().join(", ");
        let (table, columns) = (R::TABLE, columns::<R>(""));
        let mut sql = Self {
            select: format!("SELECT {columns} FROM {table} WHERE {key}"),
            insert: insert::<R>(1),
            insert_many: insert::<R>(INSERTED_AT_ONCE),
            update: (!set.is_empty()).then(|| format!("UPDATE {table} SET {set} WHERE {row}")),
            delete: format!("DELETE FROM {table} WHERE {row}"),
            expected,
            outcome: None,
        };
        if let Some((status, first_terminal)) = status_of::<R>() {
            let derived = derived_outcome(status + 1, first_terminal);
            sql.update = Some(format!("UPDATE {table} SET {set}, outcome = {derived} WHERE {row}"));
            let update_open = format!("UPDATE {table} SET {set} WHERE {row} AND outcome IS NULL");
            sql.outcome = Some(Outcome { status, first_terminal, update_open });
        }
        sql
    }
}

/// Parameters are counted row after row. A row that is there already fails the statement and undoes nothing: the whole
/// transaction is rolled back, and SQLite need not keep the pages as they were before the statement.
fn insert<R: Record>(rows: usize) -> String {
    let outcome = status_of::<R>();
    let row = |first: usize| {
        let mut values: Vec<String> =
            (0..R::COLUMNS.len()).map(|index| format!("?{}", first + index)).collect();
        values.extend(outcome.map(|(status, terminal)| derived_outcome(first + status, terminal)));
        format!("({})", values.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(|number| row(number * R::COLUMNS.len() + 1)).collect();
    let outcome = if outcome.is_some() { ", outcome" } else { "" };
    format!("INSERT OR FAIL INTO {} ({}{outcome}) VALUES {}", R::TABLE, columns::<R>(""), rows.join(", "))
}

/// `number`: of the parameter with the status.
fn derived_outcome(number: usize, first_terminal: i16) -> String {
    format!("CASE WHEN ?{number} >= {first_terminal} THEN ?{number} END")
}

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        #[derive(Debug)]
        pub(super) struct Statements { $(pub(super) $field: TableSql,)* }

        impl Statements {
            /// The same for every connection.
            pub(super) fn all() -> &'static Self {
                static ALL: LazyLock<Statements> =
                    LazyLock::new(|| Statements { $($field: TableSql::of::<$row>(),)* });
                &ALL
            }
        }
    };
}
for_each_table!(define);
