//! The schema, one numbered step after the other. Steps that were published are never changed.

use rusqlite::{Connection, TransactionBehavior};

use super::error::store_error;
use crate::port::{StoreError, StoreResult};

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_init.sql"),
    include_str!("migrations/0002_quota.sql"),
    include_str!("migrations/0003_audit.sql"),
];

/// Brings the database to the schema of this binary.
pub(super) fn migrate(conn: &mut Connection) -> StoreResult<()> {
    migrate_to(conn, MIGRATIONS)
}

fn migrate_to(conn: &mut Connection, migrations: &[&str]) -> StoreResult<()> {
    while migrate_one(conn, migrations)? {}
    Ok(())
}

/// One step in one transaction, so a kill leaves it done or not begun. The transaction takes the write lock
/// before it looks, so of two processes that start at once one waits and then finds the step done.
fn migrate_one(conn: &mut Connection, migrations: &[&str]) -> StoreResult<bool> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
    transaction
        .execute_batch("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY) STRICT")
        .map_err(store_error)?;
    let done: u16 = transaction
        .query_row("SELECT coalesce(max(version), 0) FROM schema_version", [], |row| row.get(0))
        .map_err(store_error)?;
    if usize::from(done) > migrations.len() {
        return Err(StoreError::Fatal(format!(
            "the database has schema {done}, this flovyn knows up to {}: run the flovyn that wrote it, or a newer one",
            migrations.len()
        )));
    }
    let Some(sql) = migrations.get(usize::from(done)) else { return Ok(false) };
    transaction.execute_batch(sql).map_err(store_error)?;
    transaction
        .execute("INSERT INTO schema_version (version) VALUES (?1)", [done + 1])
        .map_err(store_error)?;
    transaction.commit().map_err(store_error)?;
    Ok(true)
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
