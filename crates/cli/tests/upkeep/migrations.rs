//! A migration that is killed half way, and a schema that is newer than the binary.

use std::time::Duration;

use rusqlite::Connection;

use crate::upgrade::everything_finishes;
use crate::{assert_code, fixture, flovyn, run};

/// After a kill, the disk has what it had while the transaction was open, so the copy is taken then.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_during_the_migration_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture::sqlite(folder.path());
    let left = tempfile::tempdir().unwrap();
    let conn = Connection::open(&path).unwrap();
    // Makes changes reach the log before the commit, as in a migration that is larger than the cache.
    let spill = "PRAGMA journal_mode = wal; PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE;";
    conn.execute_batch(spill).unwrap();
    conn.execute_batch(include_str!("../../../store/src/sqlite/migrations/0002_quota.sql")).unwrap();
    conn.execute_batch("UPDATE workflow_event SET payload = zeroblob(4000)").unwrap();
    for file in ["flovyn.db", "flovyn.db-wal"] {
        std::fs::copy(folder.path().join(file), left.path().join(file)).unwrap();
    }
    let logged = std::fs::metadata(left.path().join("flovyn.db-wal")).unwrap().len();
    assert!(logged > 4_096, "the migration had written only {logged} bytes");
    drop(conn);
    everything_finishes(&fixture::sqlite_url(&left.path().join("flovyn.db"))).await;
}

/// A reader blocks the second statement of the migration; then the process is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_during_the_migration_on_postgres() {
    let database = fixture::postgres().await;
    let reader = fixture::connect(&database.url).await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM workflow_execution").await.unwrap();
    let mut child = flovyn(&["migrate", "--database-url", &database.url]).spawn().unwrap();
    let watcher = fixture::connect(&database.url).await;
    let waits =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'workflow_execution'::regclass";
    let mut moments = tokio::time::interval(Duration::from_millis(20));
    let stuck = async {
        while watcher.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            moments.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), stuck).await.unwrap();
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    let seen = watcher.query_one("SELECT max(version) FROM schema_version", &[]).await.unwrap();
    assert_eq!(seen.get::<_, i32>(0), 1, "it was killed before it was through");
    reader.batch_execute("ROLLBACK").await.unwrap();
    assert_code(0, &run(&["migrate", "--database-url", &database.url]).await);
    everything_finishes(&database.url).await;
}

async fn is_refused(url: &str) {
    for (command, code) in [("migrate", 1), ("doctor", 2)] {
        let done = run(&[command, "--database-url", url]).await;
        assert_code(code, &done);
        assert!(done.2.contains("4711") && done.2.contains("newer"), "{command}: {}", done.2);
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture::sqlite(folder.path());
    Connection::open(&path).unwrap().execute("INSERT INTO schema_version VALUES (4711)", []).unwrap();
    is_refused(&fixture::sqlite_url(&path)).await;
    let target = folder.path().join("restored");
    let done = run(&["restore", path.to_str().unwrap(), "--data-dir", target.to_str().unwrap()]).await;
    assert_code(1, &done);
    assert!(done.2.contains("4711"), "{}", done.2);
    assert!(!target.join("flovyn.db").exists());
}

#[tokio::test]
async fn a_newer_schema_is_refused_on_postgres() {
    let database = fixture::postgres().await;
    fixture::execute(&database.url, "INSERT INTO schema_version VALUES (4711, 0)").await;
    is_refused(&database.url).await;
}
