//! `flovyn doctor` as a process: its output, its exit codes, and that a repaired database is sound.

use rusqlite::Connection;
use serde_json::Value;

use crate::{assert_code, fixture, run};

/// The timers, leases and alarms of all in-flight work.
const DAMAGE: &str = "DELETE FROM due";

async fn names_and_mends(url: &str, damage: impl AsyncFn()) {
    let old = run(&["doctor", "--database-url", url]).await;
    assert_code(2, &old);
    assert!(old.2.contains("flovyn migrate"), "{}", old.2);
    assert_code(0, &run(&["migrate", "--database-url", url]).await);
    let sound = run(&["doctor", "--database-url", url]).await;
    assert_code(0, &sound);
    assert!(sound.1.is_empty() && sound.2.contains("no problems found"), "{sound:?}");

    damage().await;
    let found = run(&["doctor", "--database-url", url]).await;
    assert_code(1, &found);
    assert!(found.1.contains("P6 timer ") && found.1.contains("P6 task "), "{}", found.1);
    assert!(found.1.contains("--repair"), "{}", found.1);
    let listed = run(&["doctor", "--database-url", url, "--output", "json"]).await;
    assert_code(1, &listed);
    let document: Value = serde_json::from_str(&listed.1).unwrap();
    let findings = document["findings"].as_array().unwrap();
    assert_eq!(document["left"], findings.len());
    assert_eq!(document["found"]["P6"], findings.len());
    assert!(findings.iter().all(|finding| finding["code"] == "P6" && finding["mended"].is_null()));

    let mended = run(&["doctor", "--database-url", url, "--repair"]).await;
    assert_code(0, &mended);
    assert!(mended.1.contains("mended: its alarm was set again"), "{}", mended.1);
    assert_code(0, &run(&["doctor", "--database-url", url]).await);
}

#[tokio::test]
async fn on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture::sqlite(folder.path());
    let damage = async || Connection::open(&path).unwrap().execute_batch(DAMAGE).unwrap();
    names_and_mends(&fixture::sqlite_url(&path), damage).await;
}

#[tokio::test]
async fn on_postgres() {
    let database = fixture::postgres().await;
    names_and_mends(&database.url, async || fixture::execute(&database.url, DAMAGE).await).await;
}

#[tokio::test]
async fn what_cannot_be_checked_is_not_called_sound() {
    let folder = tempfile::tempdir().unwrap();
    let missing = run(&["doctor", "--data-dir", folder.path().to_str().unwrap()]).await;
    assert_code(2, &missing);
    assert!(missing.2.contains("there is no database"), "{}", missing.2);
    assert!(!folder.path().join("flovyn.db").exists(), "looking makes nothing");
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    assert_code(2, &run(&["doctor", "--database-url", &fixture::sqlite_url(&other)]).await);
}
