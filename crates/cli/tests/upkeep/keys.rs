//! Open executions that were started by an older signal-with-start, which did not hold the key, receive their keys.

use std::collections::BTreeMap;

use flovyn_engine::state::{IdempotencyKey, KeySpace};
use flovyn_store::open;

use crate::fixture;

/// Makes two of the open executions look as an older signal-with-start left them. The key of the second one has
/// expired. The third execution was started without a signal.
const LONG_AGO: &str = "
UPDATE workflow_event SET kind = 24, time_ms = (
    SELECT e.created_ms FROM workflow_execution e
    WHERE e.tenant_id = workflow_event.tenant_id AND e.id = workflow_event.execution_id
) WHERE sequence = 2 AND execution_id IN (
    SELECT id FROM workflow_execution WHERE idempotency_key IN ('answer-0', 'answer-1') AND status < 3
);
DELETE FROM idempotency_key WHERE space = 0 AND name = 'answer-1';
";

async fn keys_are_held_again(url: &str) {
    let snapshot = open::store(url).await.unwrap().snapshot().await.unwrap();
    let keys: BTreeMap<&str, &IdempotencyKey> =
        snapshot.keys.iter().filter(|key| key.space == KeySpace::Work).map(|key| (&*key.name, key)).collect();
    let holder = |name: &str| {
        let row =
            snapshot.executions.iter().find(|row| row.idempotency_key.as_deref() == Some(name)).unwrap();
        assert!(!row.status.is_terminal());
        row
    };
    let [kept, given_back, alone] = ["answer-0", "answer-1", "answer-2"].map(|name| keys[name]);
    assert_eq!((kept.holder_id, kept.expires_ms), (holder("answer-0").id, IdempotencyKey::NEVER));
    // The lifetime that its start had set: 30 days.
    assert_eq!((kept.ttl_after_end_ms, kept.version), (Some(2_592_000_000), 2));
    let row = holder("answer-1");
    assert_eq!((given_back.holder_id, given_back.created_ms), (row.id, row.created_ms));
    assert_eq!(
        (given_back.ttl_after_end_ms, given_back.expires_ms),
        (Some(86_400_000), IdempotencyKey::NEVER)
    );
    assert_eq!((alone.ttl_after_end_ms, alone.version), (None, 1));
    assert!(alone.expires_ms < IdempotencyKey::NEVER);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture::sqlite(folder.path());
    rusqlite::Connection::open(&path).unwrap().execute_batch(LONG_AGO).unwrap();
    keys_are_held_again(&fixture::sqlite_url(&path)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    let database = fixture::postgres().await;
    fixture::execute(&database.url, LONG_AGO).await;
    keys_are_held_again(&database.url).await;
}
