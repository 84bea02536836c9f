//! Row changes as statements, inside the writer's transaction. Whatever does not hit exactly its row is a
//! conflict, and the caller rolls back.

use flovyn_engine::{Change, Mutations, for_each_table};
use rusqlite::{CachedStatement, Connection};

use super::codec::bind;
use super::error::store_error;
use super::sql::{Statements, TableSql};
use crate::port::{StoreError, StoreResult};
use crate::record::Record;
use crate::value::Value;

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        pub(super) fn apply(conn: &Connection, sql: &Statements, mutations: &Mutations) -> StoreResult<()> {
            $(apply_table(conn, &sql.$field, &mutations.$field)?;)*
            Ok(())
        }
    };
}
for_each_table!(define);

/// Deletes come first: a unique value may go from one row to another within a batch.
fn apply_table<R: Record>(conn: &Connection, sql: &TableSql, changes: &[Change<R>]) -> StoreResult<()> {
    delete_rows(conn, sql, changes)?;
    update_rows(conn, sql, changes)?;
    insert_rows(conn, sql, changes)
}

fn delete_rows<R: Record>(conn: &Connection, sql: &TableSql, changes: &[Change<R>]) -> StoreResult<()> {
    let mut statement = Lazy::new(conn, &sql.delete);
    let mut values = Vec::new();
    for change in changes {
        let Change::Delete { row, expected_version } = change else { continue };
        values.clear();
        row.values(&mut values);
        let statement = statement.get()?;
        bind(statement, &values[..R::KEY_COLUMNS])?;
        bind_version(statement, sql, *expected_version)?;
        execute_one(statement, row)?;
    }
    Ok(())
}

fn update_rows<R: Record>(conn: &Connection, sql: &TableSql, changes: &[Change<R>]) -> StoreResult<()> {
    let mut statement = sql.update.as_deref().map(|text| Lazy::new(conn, text));
    let mut open = sql.outcome.as_ref().map(|outcome| (outcome, Lazy::new(conn, &outcome.update_open)));
    let mut values = Vec::new();
    for change in changes {
        let Change::Update { row, expected_version } = change else { continue };
        let Some(statement) = &mut statement else {
            return Err(StoreError::Refused(format!("rows of {} never change", R::TABLE)));
        };
        values.clear();
        row.values(&mut values);
        if let Some((outcome, statement)) = &mut open
            && outcome.is_open(&values)
        {
            let statement = statement.get()?;
            bind_update::<R>(statement, sql, &values, *expected_version)?;
            if statement.raw_execute().map_err(store_error)? == 1 {
                continue;
            }
        }
        let statement = statement.get()?;
        bind_update::<R>(statement, sql, &values, *expected_version)?;
        execute_one(statement, row)?;
    }
    Ok(())
}

fn bind_update<R: Record>(
    statement: &mut CachedStatement<'_>,
    sql: &TableSql,
    values: &[Value<'_>],
    expected_version: Option<i64>,
) -> StoreResult<()> {
    bind(statement, &values[..R::KEY_COLUMNS])?;
    for index in &sql.changing {
        statement.raw_bind_parameter(index + 1, values[*index]).map_err(store_error)?;
    }
    bind_version(statement, sql, expected_version)
}

fn insert_rows<R: Record>(conn: &Connection, sql: &TableSql, changes: &[Change<R>]) -> StoreResult<()> {
    let mut statement = Lazy::new(conn, &sql.insert);
    let mut values = Vec::new();
    for change in changes {
        let Change::Insert(row) = change else { continue };
        values.clear();
        row.values(&mut values);
        let statement = statement.get()?;
        bind(statement, &values)?;
        execute_one(statement, row)?;
    }
    Ok(())
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
        _ => Err(StoreError::Conflict(format!("{} {:?} has changed or is gone", R::TABLE, row.key()))),
    }
}

/// A statement that is looked up when the first row needs it, and then kept for the others.
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
