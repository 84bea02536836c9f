//! The statements for every table, built from its record. Keys are passed as one array per column, rows to write as
//! one array.

use crate::record::{Column, Record};
use crate::value::ColumnType;

/// True for every row. This condition enables the indexes that searches by key must never use: see the first
/// migration.
pub(super) const LISTED: &str = "created_ms > -9000000000000000000";

/// The operation of a statement on a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    Lock,
    LockWaiting,
    Read,
    Insert,
    Update,
    Delete,
}

impl Verb {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lock | Self::LockWaiting => "lock",
            Self::Read => "read",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// The text of a statement and its identity, so that the text is built only once per connection.
#[derive(Debug, Clone)]
pub(super) struct TableSql {
    pub(super) table: &'static str,
    pub(super) verb: Verb,
    pub(super) text: fn() -> String,
}

pub(super) fn table_sql<R: Record>(verb: Verb) -> TableSql {
    let text = match verb {
        Verb::Lock => lock::<R>,
        Verb::LockWaiting => lock_waiting::<R>,
        Verb::Read => read::<R>,
        Verb::Insert => insert::<R>,
        Verb::Update => update::<R>,
        Verb::Delete => delete::<R>,
    };
    TableSql { table: R::TABLE, verb, text }
}

/// Selects the existing rows, each with the place (from 1) of its key. A row is locked, or has NULL in all its columns
/// if it is busy. A row that is deleted while the statement runs also counts as busy.
///
/// Not EXISTS: the planner might answer that from a hash table of all rows.
fn lock<R: Record>() -> String {
    let (table, some) = (R::TABLE, R::COLUMNS[0].name);
    format!(
        "SELECT {}, k.place FROM unnest({}) WITH ORDINALITY AS k({}, place) \
         LEFT JOIN LATERAL (SELECT * FROM {table} l WHERE {} FOR UPDATE SKIP LOCKED) t ON true \
         WHERE t.{some} IS NOT NULL OR (SELECT e.{some} FROM {table} e WHERE {}) IS NOT NULL",
        columns::<R>(),
        arrays(key_columns::<R>(), 1),
        names("", key_columns::<R>()),
        same_key::<R>("l", "k"),
        same_key::<R>("e", "k"),
    )
}

/// Waits for busy rows, in key order, so that two waiting transactions never wait for each other.
fn lock_waiting<R: Record>() -> String {
    format!("{} ORDER BY {} FOR UPDATE OF t", read::<R>(), names("t", key_columns::<R>()))
}

fn read<R: Record>() -> String {
    format!(
        "SELECT {} FROM unnest({}) AS k({}) JOIN {} t ON {}",
        columns::<R>(),
        arrays(key_columns::<R>(), 1),
        names("", key_columns::<R>()),
        R::TABLE,
        same_key::<R>("t", "k"),
    )
}

/// If a key is taken, the statement fails. `ON CONFLICT DO NOTHING` with a count would have the same effect, because
/// one missing row rolls back the batch. But it would look up every key twice.
fn insert<R: Record>() -> String {
    format!(
        "INSERT INTO {} ({}) SELECT {} FROM {}",
        R::TABLE,
        names("", R::COLUMNS),
        names("u", R::COLUMNS),
        rows::<R>(),
    )
}

/// Compare-and-swap: the stored row must have the version before that of the new row.
fn update<R: Record>() -> String {
    let changing = R::COLUMNS.iter().filter(|column| !column.fixed);
    let assignments: Vec<String> = changing.map(|column| format!("{0} = u.{0}", column.name)).collect();
    checked(format!(
        "UPDATE {} t SET {} FROM {} WHERE {}{} RETURNING 1",
        R::TABLE,
        assignments.join(", "),
        rows::<R>(),
        same_key::<R>("t", "u"),
        if R::VERSION.is_some() { " AND t.version = u.version - 1" } else { "" },
    ))
}

/// The stored row must have the given version.
fn delete<R: Record>() -> String {
    checked(format!(
        "DELETE FROM {} t USING {} WHERE {}{} RETURNING 1",
        R::TABLE,
        rows::<R>(),
        same_key::<R>("t", "u"),
        if R::VERSION.is_some() { " AND t.version = u.version" } else { "" },
    ))
}

/// Makes the statement itself fail (division by zero) if it did not affect every given row. Only then can COMMIT be
/// sent together with it, because COMMIT rolls back after a failure.
fn checked(statement: String) -> String {
    format!("WITH hit AS ({statement}) SELECT 1 / (count(*) = cardinality($1))::int FROM hit")
}

/// The only parameter of a write: rows of the table's type. Columns are found by name, so the table may have more
/// columns.
fn rows<R: Record>() -> String {
    format!("unnest($1::{}[]) AS u", R::TABLE)
}

/// Whether an update sends the column. Columns that never change are not sent, unless they belong to the key.
pub(super) fn is_in_update<R: Record>(index: usize) -> bool {
    index < R::KEY_COLUMNS || !R::COLUMNS[index].fixed
}

/// Whether a delete sends the column.
pub(super) fn is_in_delete<R: Record>(index: usize) -> bool {
    index < R::KEY_COLUMNS || R::VERSION == Some(index)
}

pub(super) fn key_columns<R: Record>() -> &'static [Column] {
    &R::COLUMNS[..R::KEY_COLUMNS]
}

/// `t.tenant_id, t.id, ...`
pub(super) fn columns<R: Record>() -> String {
    names("t", R::COLUMNS)
}

/// The columns of the key, for ORDER BY.
pub(super) fn key_order<R: Record>() -> String {
    names("t", key_columns::<R>())
}

fn same_key<R: Record>(one: &str, other: &str) -> String {
    let equal = |column: &Column| format!("{one}.{0} = {other}.{0}", column.name);
    key_columns::<R>().iter().map(equal).collect::<Vec<_>>().join(" AND ")
}

fn names(alias: &str, columns: &[Column]) -> String {
    let dot = if alias.is_empty() { "" } else { "." };
    columns.iter().map(|column| format!("{alias}{dot}{}", column.name)).collect::<Vec<_>>().join(", ")
}

/// `$1::uuid[], $2::bigint[], ...`
pub(super) fn arrays(columns: &[Column], first: usize) -> String {
    let array =
        |(index, column): (usize, &Column)| format!("${}::{}[]", first + index, type_name(column.kind));
    columns.iter().enumerate().map(array).collect::<Vec<_>>().join(", ")
}

pub(super) fn type_name(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Small => "smallint",
        ColumnType::Int => "bigint",
        ColumnType::Real => "double precision",
        ColumnType::Text => "text",
        ColumnType::Bytes => "bytea",
        ColumnType::Uuid => "uuid",
    }
}

#[cfg(test)]
mod tests {
    use flovyn_engine::state::{Tenant, Timer};

    use super::*;

    #[test]
    fn statements_name_keys_versions_and_changing_columns() {
        assert_eq!(
            update::<Timer>(),
            "WITH hit AS (UPDATE timer t SET version = u.version, status = u.status FROM unnest($1::timer[]) AS u \
             WHERE t.tenant_id = u.tenant_id AND t.execution_id = u.execution_id AND t.name = u.name AND t.version = \
             u.version - 1 RETURNING 1) SELECT 1 / (count(*) = cardinality($1))::int FROM hit"
        );
        assert_eq!(
            lock_waiting::<Tenant>(),
            "SELECT t.id, t.slug, t.created_ms, t.version, t.name, t.retention_ms FROM unnest($1::uuid[]) AS \
             k(id) JOIN tenant t ON t.id = k.id ORDER BY t.id FOR UPDATE OF t"
        );
    }
}
