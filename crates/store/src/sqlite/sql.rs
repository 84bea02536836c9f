//! The statements for every table, built once from its record.
//!
//! A parameter has the number of its column, counted from 1. The next number is the expected version. In a statement
//! that inserts many rows, the parameters of the next row follow.

use std::sync::LazyLock;

use flovyn_engine::for_each_table;
use flovyn_engine::state::*;

use super::codec::columns;
use crate::record::Record;
use crate::value::Value;

/// The number of rows that one statement inserts if there are enough. They share the fixed cost of a statement, and
/// rows in the order of an index are appended without a search.
pub(super) const INSERTED_AT_ONCE: usize = 16;

#[derive(Debug)]
pub(super) struct TableSql {
    pub(super) select: String,
    /// Inserts one row.
    pub(super) insert: String,
    /// Inserts [`INSERTED_AT_ONCE`] rows; their parameters follow one another.
    pub(super) insert_many: String,
    /// `None`: rows of this table never change.
    pub(super) update: Option<String>,
    pub(super) delete: String,
    /// The number of the parameter with the expected version. `None` if the table has no version.
    pub(super) expected: Option<usize>,
    pub(super) outcome: Option<Outcome>,
}

/// Executions and tasks have an extra column for the listing by status: the status if it is terminal, else NULL.
/// SQLite rewrites an index entry whenever one of its columns is set, even to the same value. So an update of a row
/// that stays open does not set this column. The column is derived data; if the row was not open before, the first
/// statement affects no row and a second one is needed.
#[derive(Debug)]
pub(super) struct Outcome {
    status: usize,
    first_terminal: i16,
    /// Affects only a row that was open before.
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

/// The index of the status column, and the first terminal status. `None` if the table has no such status.
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

/// Parameters are counted row after row. An existing row makes the statement fail without undoing its earlier rows.
/// The whole transaction is then rolled back, so SQLite need not save the pages from before the statement.
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

/// `number`: the number of the parameter with the status.
fn derived_outcome(number: usize, first_terminal: i16) -> String {
    format!("CASE WHEN ?{number} >= {first_terminal} THEN ?{number} END")
}

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        #[derive(Debug)]
        pub(super) struct Statements { $(pub(super) $field: TableSql,)* }

        impl Statements {
            /// The statements, which are the same for every connection.
            pub(super) fn all() -> &'static Self {
                static ALL: LazyLock<Statements> =
                    LazyLock::new(|| Statements { $($field: TableSql::of::<$row>(),)* });
                &ALL
            }
        }
    };
}
for_each_table!(define);
