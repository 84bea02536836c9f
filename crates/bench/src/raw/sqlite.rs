//! Bare rusqlite: one prepared statement per table and kind of change, one transaction per batch.

use flovyn_store::sqlite::SqliteStore;
use rusqlite::types::{ToSql, ToSqlOutput, Value as SqlValue};
use rusqlite::{Connection, params_from_iter};

use super::changes::{Changes, Owned, TableChanges};

pub(crate) struct RawSqlite {
    connection: Connection,
    _directory: tempfile::TempDir,
}

impl RawSqlite {
    pub(crate) fn open() -> Result<Self, String> {
        let directory = crate::target::folder()?;
        let path = directory.path().join("raw.db");
        // The store creates the product's schema and settings. Then it is closed, and only the driver is used.
        drop(SqliteStore::open(&path, Default::default()).map_err(|error| error.to_string())?);
        let connection = Connection::open(&path).map_err(|error| error.to_string())?;
        connection
            .execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16384;")
            .map_err(|error| error.to_string())?;
        connection.set_prepared_statement_cache_capacity(256);
        Ok(Self { connection, _directory: directory })
    }

    pub(crate) fn commit(&mut self, changes: &Changes) -> Result<(), String> {
        self.write(changes).map_err(|error| error.to_string())
    }

    fn write(&mut self, changes: &Changes) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for table in &changes.0 {
            run(&transaction, &insert(table), &table.inserts, 0..table.columns.len())?;
            let update = update(table);
            let mut statement = transaction.prepare_cached(&update)?;
            for row in &table.updates {
                let changing = (0..table.columns.len()).filter(|index| !table.columns[*index].fixed);
                let order = changing.chain(0..table.key_columns);
                statement.execute(params_from_iter(order.map(|index| &row[index])))?;
            }
            drop(statement);
            run(&transaction, &delete(table), &table.deletes, 0..table.key_columns)?;
        }
        transaction.commit()
    }
}

fn run(
    connection: &Connection,
    sql: &str,
    rows: &[Vec<Owned>],
    columns: std::ops::Range<usize>,
) -> rusqlite::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(sql)?;
    for row in rows {
        statement.execute(params_from_iter(row[columns.clone()].iter()))?;
    }
    Ok(())
}

fn names(
    table: &TableChanges,
    columns: impl Iterator<Item = usize>,
    suffix: &str,
    separator: &str,
) -> String {
    columns.map(|index| format!("{}{suffix}", table.columns[index].name)).collect::<Vec<_>>().join(separator)
}

fn insert(table: &TableChanges) -> String {
    let count = table.columns.len();
    let marks = vec!["?"; count].join(",");
    format!("INSERT INTO {} ({}) VALUES ({marks})", table.table, names(table, 0..count, "", ","))
}

fn update(table: &TableChanges) -> String {
    let changing = (0..table.columns.len()).filter(|index| !table.columns[*index].fixed);
    let key = names(table, 0..table.key_columns, "=?", " AND ");
    let set = names(table, changing, "=?", ",");
    if set.is_empty() {
        // A table without changing columns has no updates; the statement is prepared but never run.
        return format!("DELETE FROM {} WHERE {key}", table.table);
    }
    format!("UPDATE {} SET {set} WHERE {key}", table.table)
}

fn delete(table: &TableChanges) -> String {
    format!("DELETE FROM {} WHERE {}", table.table, names(table, 0..table.key_columns, "=?", " AND "))
}

impl ToSql for Owned {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(SqlValue::Null),
            Self::Small(value) => ToSqlOutput::from(*value),
            Self::Int(value) => ToSqlOutput::from(*value),
            Self::Real(value) => ToSqlOutput::from(*value),
            Self::Text(value) => ToSqlOutput::from(value.as_str()),
            Self::Bytes(value) => ToSqlOutput::from(value.as_slice()),
            Self::Uuid(value) => ToSqlOutput::from(value.as_bytes().as_slice()),
        })
    }
}
