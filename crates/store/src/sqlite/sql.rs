//! The statements that every table has, built once from its record.
//!
//! A parameter has the number of its column, counted from 1; one more is the expected version.

use flovyn_engine::for_each_table;
use flovyn_engine::state::*;

use super::codec::columns;
use crate::record::Record;
use crate::value::Value;

#[derive(Debug)]
pub(super) struct TableSql {
    pub(super) select: String,
    pub(super) insert: String,
    /// `None`: rows of this table never change.
    pub(super) update: Option<String>,
    pub(super) delete: String,
    /// The columns that an update binds beside the key.
    pub(super) changing: Vec<usize>,
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
    pub(super) fn is_open(&self, values: &[Value<'_>]) -> bool {
        matches!(values[self.status], Value::Small(status) if status < self.first_terminal)
    }
}

/// From this status on a row of the table has ended.
fn first_terminal(table: &str) -> Option<i16> {
    match table {
        Execution::TABLE => Some(ExecutionStatus::Completed as i16),
        Task::TABLE => Some(TaskStatus::Completed as i16),
        _ => None,
    }
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
        let changing: Vec<usize> = (0..R::COLUMNS.len()).filter(|index| !R::COLUMNS[*index].fixed).collect();
        let set = changing.iter().map(|index| parameter(*index)).collect::<Vec<_>>().join(", ");
        let all = (1..=R::COLUMNS.len()).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ");
        let (table, columns) = (R::TABLE, columns::<R>(""));
        let mut sql = Self {
            select: format!("SELECT {columns} FROM {table} WHERE {key}"),
            insert: format!("INSERT INTO {table} ({columns}) VALUES ({all})"),
            update: (!set.is_empty()).then(|| format!("UPDATE {table} SET {set} WHERE {row}")),
            delete: format!("DELETE FROM {table} WHERE {row}"),
            changing,
            expected,
            outcome: None,
        };
        if let Some(first_terminal) = first_terminal(R::TABLE)
            && let Some(status) = R::COLUMNS.iter().position(|column| column.name == "status")
        {
            let number = status + 1;
            let derived = format!("CASE WHEN ?{number} >= {first_terminal} THEN ?{number} END");
            sql.insert = format!("INSERT INTO {table} ({columns}, outcome) VALUES ({all}, {derived})");
            sql.update = Some(format!("UPDATE {table} SET {set}, outcome = {derived} WHERE {row}"));
            let update_open = format!("UPDATE {table} SET {set} WHERE {row} AND outcome IS NULL");
            sql.outcome = Some(Outcome { status, first_terminal, update_open });
        }
        sql
    }
}

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        #[derive(Debug)]
        pub(super) struct Statements { $(pub(super) $field: TableSql,)* }

        impl Statements {
            pub(super) fn new() -> Self {
                Self { $($field: TableSql::of::<$row>(),)* }
            }
        }
    };
}
for_each_table!(define);
