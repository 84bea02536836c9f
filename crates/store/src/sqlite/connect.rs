//! Opens the database file with the settings that durability depends on.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::store_error;
use crate::port::{StoreError, StoreResult};

/// Older versions can corrupt the database when a checkpoint and a write meet (the WAL-reset bug).
const OLDEST_SQLITE: i32 = 3_051_003;

const SYNCHRONOUS_FULL: i64 = 2;

/// More than the number of statements in this crate, so that no statement is prepared twice while there is work.
const CACHED_STATEMENTS: usize = 256;

/// The cache is not larger, because after rebalancing the pages of a tree, SQLite's commit walks the whole cache, and
/// the allocator keeps more memory for its own bookkeeping. Other pages are in the page cache of the operating system.
const WRITER_CACHE_KIB: i64 = 8_192;

/// No other process of Flovyn writes. This timeout is for a person with the `sqlite3` shell.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Refuses an SQLite version that can lose data.
pub(super) fn check_library(version_number: i32) -> StoreResult<()> {
    if version_number >= OLDEST_SQLITE {
        return Ok(());
    }
    Err(StoreError::Fatal(format!(
        "SQLite {version_number} can corrupt its write-ahead log: version {OLDEST_SQLITE} or newer is needed"
    )))
}

pub(super) fn open_writer(path: &Path) -> StoreResult<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = open(path, flags, WRITER_CACHE_KIB)?;
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(store_error)?;
    if mode != "wal" {
        return Err(StoreError::Fatal(format!(
            "the file system does not support a write-ahead log: journal_mode is {mode}"
        )));
    }
    set(&conn, "synchronous", SYNCHRONOUS_FULL)?;
    check_synchronous(&conn)?;
    // On macOS, fsync reaches the disk only with this setting. On other systems it has no effect.
    set(&conn, "fullfsync", 1)?;
    set(&conn, "checkpoint_fullfsync", 1)?;
    // A separate thread makes the checkpoints (log.rs), after the callers have been answered.
    set(&conn, "wal_autocheckpoint", 0)?;
    // A log that grew because of a slow reader is shortened when it restarts.
    set(&conn, "journal_size_limit", 64 << 20)?;
    Ok(conn)
}

/// Opens the connection that only moves the log into the database.
pub(super) fn open_checkpointer(path: &Path) -> StoreResult<Connection> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX, 64)?;
    set(&conn, "synchronous", SYNCHRONOUS_FULL)?;
    set(&conn, "checkpoint_fullfsync", 1)?;
    // A connection notices the log only with its first read. Without this read, its checkpoints would do nothing.
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(store_error)?;
    Ok(conn)
}

/// An acknowledged commit survives power loss only with the level FULL. Without it, the store must not start.
pub(super) fn check_synchronous(conn: &Connection) -> StoreResult<()> {
    let level: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(store_error)?;
    match level {
        SYNCHRONOUS_FULL => Ok(()),
        other => {
            Err(StoreError::Fatal(format!("synchronous is {other} after it was set to {SYNCHRONOUS_FULL}")))
        }
    }
}

pub(super) fn open_reader(path: &Path) -> StoreResult<Connection> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX, 8_192)
}

fn open(path: &Path, flags: OpenFlags, cache_kib: i64) -> StoreResult<Connection> {
    let conn = Connection::open_with_flags(path, flags).map_err(store_error)?;
    conn.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    conn.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
    // A statement keeps its plan. Otherwise SQLite may prepare it again when another value is bound.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(store_error)?;
    set(&conn, "foreign_keys", 0)?;
    set(&conn, "temp_store", 2)?;
    set(&conn, "mmap_size", 0)?;
    set(&conn, "cache_size", -cache_kib)?;
    Ok(conn)
}

/// Frees cached pages that are not in use.
pub(super) fn give_up_pages(conn: &Connection) {
    if let Err(error) = conn.execute_batch("PRAGMA shrink_memory") {
        tracing::debug!(%error, "cannot free cached pages");
    }
}

/// Some settings return their new value, so the result is read and dropped.
fn set(conn: &Connection, name: &str, value: i64) -> StoreResult<()> {
    conn.pragma_update(None, name, value).map_err(store_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_corrupts_its_log_is_refused() {
        check_library(rusqlite::version_number()).unwrap();
        check_library(3_051_003).unwrap();
        let error = check_library(3_051_002).unwrap_err();
        assert!(matches!(error, StoreError::Fatal(_)), "{error}");
    }

    #[test]
    fn the_settings_of_the_writer_hold() {
        let directory = tempfile::tempdir().unwrap();
        let conn = open_writer(&directory.path().join("test.db")).unwrap();
        let value = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(value("synchronous"), 2);
        assert_eq!(value("foreign_keys"), 0);
        assert_eq!(value("temp_store"), 2);
        assert_eq!(value("wal_autocheckpoint"), 0);
        assert_eq!(value("cache_size"), -WRITER_CACHE_KIB);
        assert_eq!(value("page_size"), 4096);
        let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }

    #[test]
    fn a_weaker_synchronous_is_noticed() {
        let conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "synchronous", 1).unwrap();
        let error = check_synchronous(&conn).unwrap_err();
        assert!(matches!(error, StoreError::Fatal(_)), "{error}");
    }
}
