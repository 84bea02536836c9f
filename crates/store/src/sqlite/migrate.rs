//! The schema, as numbered migrations in order. A published migration is never changed.

use rusqlite::{Connection, TransactionBehavior};

use super::error::store_error;
use crate::port::{StoreError, StoreResult};

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_init.sql"),
    include_str!("migrations/0002_quota.sql"),
    include_str!("migrations/0003_audit.sql"),
    include_str!("migrations/0004_task_outcome.sql"),
    include_str!("migrations/0005_reporter.sql"),
    include_str!("migrations/0006_deferred_end.sql"),
    include_str!("migrations/0007_clean_up.sql"),
    include_str!("migrations/0008_equal_refusals.sql"),
    include_str!("migrations/0009_workflow_key.sql"),
    include_str!("migrations/0010_failure.sql"),
    include_str!("migrations/0011_worker_process.sql"),
];

/// Migrates the database to the schema of this binary.
pub(super) fn migrate(conn: &mut Connection) -> StoreResult<()> {
    migrate_to(conn, MIGRATIONS)
}

fn migrate_to(conn: &mut Connection, migrations: &[&str]) -> StoreResult<()> {
    while migrate_one(conn, migrations)? {}
    Ok(())
}

/// Applies one migration in one transaction, so that a killed process leaves it complete or not begun. The transaction
/// takes the write lock before it reads the version. If two processes start at once, one waits and then finds the
/// migration applied.
fn migrate_one(conn: &mut Connection, migrations: &[&str]) -> StoreResult<bool> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
    transaction
        .execute_batch("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY) STRICT")
        .map_err(store_error)?;
    let done: u16 = transaction
        .query_row("SELECT coalesce(max(version), 0) FROM schema_version", [], |row| row.get(0))
        .map_err(store_error)?;
    if usize::from(done) > migrations.len() {
        return Err(too_new(usize::from(done), migrations.len()));
    }
    let Some(sql) = migrations.get(usize::from(done)) else { return Ok(false) };
    transaction.execute_batch(sql).map_err(store_error)?;
    transaction
        .execute("INSERT INTO schema_version (version) VALUES (?1)", [done + 1])
        .map_err(store_error)?;
    transaction.commit().map_err(store_error)?;
    Ok(true)
}

/// Refuses a database whose schema is not exactly that of this binary, for connections that only read and cannot
/// migrate it.
pub(super) fn check(conn: &Connection) -> StoreResult<()> {
    let version = version(conn)?;
    refuse_newer(version)?;
    let needed = MIGRATIONS.len();
    if version < needed {
        return Err(StoreError::Fatal(format!(
            "the database has schema {version}, this flovyn needs schema {needed}: run `flovyn migrate`"
        )));
    }
    Ok(())
}

/// Refuses a schema that is newer than this binary.
pub(super) fn refuse_newer(version: usize) -> StoreResult<()> {
    if version <= MIGRATIONS.len() { Ok(()) } else { Err(too_new(version, MIGRATIONS.len())) }
}

fn too_new(version: usize, known: usize) -> StoreError {
    StoreError::Fatal(format!(
        "the database has schema {version}, this flovyn knows up to {known}: run the flovyn that wrote it, or a newer one"
    ))
}

/// The version of a database's schema. A file without a version is not a database of Flovyn.
pub(super) fn version(conn: &Connection) -> StoreResult<usize> {
    let known: bool = conn
        .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'schema_version')", [], |row| {
            row.get(0)
        })
        .map_err(store_error)?;
    if !known {
        return Err(StoreError::Fatal("this is not a Flovyn database: it has no schema version".to_owned()));
    }
    let version: u16 = conn
        .query_row("SELECT coalesce(max(version), 0) FROM schema_version", [], |row| row.get(0))
        .map_err(store_error)?;
    Ok(usize::from(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(conn: &Connection) -> Vec<String> {
        let mut statement = conn.prepare("SELECT name FROM sqlite_schema ORDER BY name").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn steps_are_done_once_and_in_order() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate_to(&mut conn, &["CREATE TABLE a (x)"]).unwrap();
        migrate_to(&mut conn, &["CREATE TABLE a (x)", "CREATE TABLE b (x)"]).unwrap();
        migrate_to(&mut conn, &["CREATE TABLE a (x)", "CREATE TABLE b (x)"]).unwrap();
        assert_eq!(tables(&conn), ["a", "b", "schema_version"]);
    }

    #[test]
    fn a_step_that_breaks_off_leaves_nothing() {
        let mut conn = Connection::open_in_memory().unwrap();
        let broken = ["CREATE TABLE a (x)", "CREATE TABLE b (x); CREATE TABLE b (x)"];
        migrate_to(&mut conn, &broken).unwrap_err();
        assert_eq!(tables(&conn), ["a", "schema_version"]);
        migrate_to(&mut conn, &["CREATE TABLE a (x)", "CREATE TABLE b (x)"]).unwrap();
        assert_eq!(tables(&conn), ["a", "b", "schema_version"]);
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate_to(&mut conn, &["CREATE TABLE a (x)", "CREATE TABLE b (x)"]).unwrap();
        let error = migrate_to(&mut conn, &["CREATE TABLE a (x)"]).unwrap_err();
        assert!(error.to_string().contains("has schema 2, this flovyn knows up to 1"), "{error}");
    }
}
