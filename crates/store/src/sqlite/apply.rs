//! Executes row changes as statements, inside the writer's transaction. If a statement does not affect exactly one
//! row, that is a conflict, and the caller rolls back.

use flovyn_engine::{Change, Mutations, for_each_table};
use rusqlite::{CachedStatement, Connection};

use super::error::store_error;
use super::sql::{INSERTED_AT_ONCE, Statements, TableSql};
use crate::port::{StoreError, StoreResult};
use crate::record::Record;
use crate::value::Value;

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        pub(super) fn apply(conn: &Connection, sql: &Statements, mutations: &Mutations) -> StoreResult<()> {
            assert!(!conn.is_autocommit(), "row changes need a transaction, to be rolled back together");
            $(apply_table(conn, &sql.$field, &mutations.$field)?;)*
            Ok(())
        }
    };
}
for_each_table!(define);

/// Deletes come first, because a unique value may move from one row to another within a batch.
fn apply_table<R: Record>(conn: &Connection, sql: &TableSql, changes: &[Change<R>]) -> StoreResult<()> {
    delete_rows(conn, sql, changes)?;
    update_rows(conn, sql, changes)?;
    insert_rows(conn, sql, changes)
}

fn delete_rows<R: Record>(conn: &Connection, sql: &TableSql, changes: &[Change<R>]) -> StoreResult<()> {
    let mut statement = Lazy::new(conn, &sql.delete);
    for change in changes {
        let Change::Delete { row, expected_version } = change else { continue };
        let statement = statement.get()?;
        bind_row(statement, row, 1, |index| index < R::KEY_COLUMNS)?;
        bind_version(statement, sql, *expected_version)?;
        execute_one(statement, row)?;
    }
    Ok(())
}

fn update_rows<R: Record>(conn: &Connection, sql: &TableSql, changes: &[Change<R>]) -> StoreResult<()> {
    let mut statement = sql.update.as_deref().map(|text| Lazy::new(conn, text));
    let mut open = sql.outcome.as_ref().map(|outcome| (outcome, Lazy::new(conn, &outcome.update_open)));
    for change in changes {
        let Change::Update { row, expected_version } = change else { continue };
        let Some(statement) = &mut statement else {
            return Err(StoreError::Refused(format!("rows of {} never change", R::TABLE)));
        };
        if let Some((outcome, statement)) = &mut open
            && outcome.is_open(row)
        {
            let statement = statement.get()?;
            bind_update(statement, sql, row, *expected_version)?;
            if statement.raw_execute().map_err(store_error)? == 1 {
                continue;
            }
        }
        let statement = statement.get()?;
        bind_update(statement, sql, row, *expected_version)?;
        execute_one(statement, row)?;
    }
    Ok(())
}

fn bind_update<R: Record>(
    statement: &mut CachedStatement<'_>,
    sql: &TableSql,
    row: &R,
    expected_version: Option<i64>,
) -> StoreResult<()> {
    bind_row(statement, row, 1, |index| index < R::KEY_COLUMNS || !R::COLUMNS[index].fixed)?;
    bind_version(statement, sql, expected_version)
}

fn insert_rows<R: Record>(conn: &Connection, sql: &TableSql, changes: &[Change<R>]) -> StoreResult<()> {
    let rows: Vec<&R> = changes.iter().filter_map(inserted).collect();
    let (many, few) = rows.as_chunks::<INSERTED_AT_ONCE>();
    insert_each(conn, &sql.insert_many, many.iter().map(|rows| &rows[..]))?;
    insert_each(conn, &sql.insert, few.chunks(1))
}

fn inserted<R>(change: &Change<R>) -> Option<&R> {
    match change {
        Change::Insert(row) => Some(row),
        _ => None,
    }
}

/// One statement for each row.
fn insert_each<'a, R: Record>(
    conn: &Connection,
    sql: &str,
    statements: impl Iterator<Item = &'a [&'a R]>,
) -> StoreResult<()> {
    let mut statement = Lazy::new(conn, sql);
    for rows in statements {
        let statement = statement.get()?;
        for (number, row) in rows.iter().enumerate() {
            bind_row(statement, *row, number * R::COLUMNS.len() + 1, |_| true)?;
        }
        // If the row already exists, the statement itself fails.
        statement.raw_execute().map_err(store_error)?;
    }
    Ok(())
}

/// The selected columns as parameters, counted from `first`.
fn bind_row<R: Record>(
    statement: &mut CachedStatement<'_>,
    row: &R,
    first: usize,
    wanted: impl Fn(usize) -> bool,
) -> StoreResult<()> {
    let (mut index, mut bound) = (0, Ok(()));
    row.each_value(|value| {
        if bound.is_ok() && wanted(index) {
            bound = statement.raw_bind_parameter(first + index, value);
        }
        index += 1;
    });
    bound.map_err(store_error)
}

fn bind_version(
    statement: &mut CachedStatement<'_>,
    sql: &TableSql,
    expected: Option<i64>,
) -> StoreResult<()> {
    let Some(number) = sql.expected else { return Ok(()) };
    let value = expected.map_or(Value::Null, Value::Int);
    statement.raw_bind_parameter(number, value).map_err(store_error)
}

fn execute_one<R: Record>(statement: &mut CachedStatement<'_>, row: &R) -> StoreResult<()> {
    match statement.raw_execute().map_err(store_error)? {
        1 => Ok(()),
        _ => Err(StoreError::Conflict(format!(
            "{} {:?} has been changed or deleted by another writer",
            R::TABLE,
            row.key()
        ))),
    }
}

/// A statement that is prepared when the first row needs it and kept for the other rows.
struct Lazy<'a> {
    conn: &'a Connection,
    sql: &'a str,
    statement: Option<CachedStatement<'a>>,
}

impl<'a> Lazy<'a> {
    fn new(conn: &'a Connection, sql: &'a str) -> Self {
        Self { conn, sql, statement: None }
    }

    fn get(&mut self) -> StoreResult<&mut CachedStatement<'a>> {
        match &mut self.statement {
            Some(statement) => Ok(statement),
            empty => Ok(empty.insert(self.conn.prepare_cached(self.sql).map_err(store_error)?)),
        }
    }
}
