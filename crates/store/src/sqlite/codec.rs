//! Converts column values to SQLite and back, and reads rows of any table. This module knows no table.

use flovyn_engine::ids::TenantId;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};
use uuid::Uuid;

use super::error::{store_error, unreadable};
use crate::port::StoreResult;
use crate::record::Record;
use crate::value::{ColumnType, Value};

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Small(number) => ValueRef::Integer(i64::from(*number)),
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
            Value::Uuid(id) => ValueRef::Blob(id.as_bytes()),
        }))
    }
}

/// A stored value as a column of the given type. A value that does not fit the type is passed on unchanged, and the
/// field that reads it reports the error.
fn value(stored: ValueRef<'_>, kind: ColumnType) -> Value<'_> {
    match (kind, stored) {
        (_, ValueRef::Null) => Value::Null,
        (ColumnType::Small, ValueRef::Integer(number)) => {
            i16::try_from(number).map_or(Value::Int(number), Value::Small)
        }
        (_, ValueRef::Integer(number)) => Value::Int(number),
        (_, ValueRef::Real(number)) => Value::Real(number),
        (_, ValueRef::Text(text)) => std::str::from_utf8(text).map_or(Value::Bytes(text), Value::Text),
        (ColumnType::Uuid, ValueRef::Blob(bytes)) => {
            Uuid::from_slice(bytes).map_or(Value::Bytes(bytes), Value::Uuid)
        }
        (_, ValueRef::Blob(bytes)) => Value::Bytes(bytes),
    }
}

/// Reads a row whose first columns are the columns of its record, in order.
pub(super) fn read_row<R: Record>(row: &rusqlite::Row<'_>) -> StoreResult<R> {
    R::read(|index| {
        let stored = row.get_ref(index).unwrap_or(ValueRef::Null);
        value(stored, R::COLUMNS[index].kind)
    })
    .map_err(unreadable)
}

/// The columns of a record, as the column list of a SELECT.
pub(super) fn columns<R: Record>(alias: &str) -> String {
    let named: Vec<String> = R::COLUMNS.iter().map(|column| format!("{alias}{}", column.name)).collect();
    named.join(", ")
}

pub(super) fn bind(statement: &mut CachedStatement<'_>, values: &[Value<'_>]) -> StoreResult<()> {
    for (index, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, value).map_err(store_error)?;
    }
    Ok(())
}

/// The rows of a statement that selects a record's columns.
pub(super) fn select<R: Record>(conn: &Connection, sql: &str, values: &[Value<'_>]) -> StoreResult<Vec<R>> {
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    bind(&mut statement, values)?;
    let mut found = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(store_error)? {
        found.push(read_row(row)?);
    }
    Ok(found)
}

/// Selects whole rows. `tail` is the part of the statement after the table's name.
pub(super) fn rows<R: Record>(conn: &Connection, tail: &str, values: &[Value<'_>]) -> StoreResult<Vec<R>> {
    select(conn, &format!("SELECT {} FROM {} {tail}", columns::<R>(""), R::TABLE), values)
}

/// A limit as an SQLite value.
pub(super) fn limit(rows: usize) -> Value<'static> {
    Value::Int(i64::try_from(rows).unwrap_or(i64::MAX))
}

/// The values of a key that consists of a tenant's id and another id.
pub(super) fn pair(tenant: TenantId, id: Uuid) -> [Value<'static>; 2] {
    [Value::Uuid(tenant), Value::Uuid(id)]
}
