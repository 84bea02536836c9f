//! Clients that send no heartbeat and cannot renew a claim: their polls and reports are the signs of life.

use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Plain, QUEUE};
use crate::common::{Database, TestServer};

/// Times are seconds here, and minutes in production.
const LEASE_MS: i64 = 3_000;
const SECONDS: i64 = 30;

async fn short_leases(database: Database) -> TestServer {
    let change = |config: &mut flovyn_server::Config| {
        config.limits.task_lease_ms = Some(LEASE_MS);
        config.limits.worker_silence_ms = Some(LEASE_MS);
    };
    TestServer::start_with(database, change).await
}

/// The task takes several times its lease, while its client polls for more work, one poll at a time.
async fn a_long_task_of_a_client_without_heartbeats_runs_once(database: Database) {
    let server = short_leases(database).await;
    let worker = Plain::of(&server);
    let id = worker.register("long", &["flow"], &["work"]).await;
    let task_id = worker.submit_task("work").await;
    assert_eq!(worker.poll_task_as(&id, QUEUE, 20).await.unwrap().task_execution_id, task_id);

    let other = Plain::of(&server);
    let other_id = other.register("other", &[], &["work"]).await;
    polls_for_leases(3, (&worker, &id), (&other, &other_id)).await;
    worker.complete_task(&task_id, json!("done")).await.unwrap();
}

/// A worker that has claimed a task polls on for so many leases. Another worker must not get the task meanwhile.
async fn polls_for_leases(leases: u32, (worker, id): (&Plain, &str), (other, other_id): (&Plain, &str)) {
    let until = Instant::now() + Duration::from_millis(LEASE_MS.unsigned_abs()) * leases;
    while Instant::now() < until {
        assert!(worker.poll_workflow_once(id, QUEUE, SECONDS).await.is_none());
        assert!(worker.poll_task_once(id, QUEUE, SECONDS).await.is_none());
        let second = other.poll_task_once(other_id, QUEUE, 0).await;
        assert!(second.is_none(), "it runs twice: {second:?}");
    }
}

/// Its polls have extended its claim beyond the lease. Then its connection is gone, and with it all signs of life.
async fn a_dead_client_loses_its_task_soon(database: Database) {
    let server = short_leases(database).await;
    let worker = Plain::of(&server);
    let id = worker.register("dead", &[], &["work"]).await;
    let task_id = worker.submit_task("work").await;
    assert_eq!(worker.poll_task_as(&id, QUEUE, 20).await.unwrap().task_execution_id, task_id);
    let other = Plain::of(&server);
    let other_id = other.register("other", &[], &["work"]).await;
    polls_for_leases(2, (&worker, &id), (&other, &other_id)).await;
    drop(worker);
    let again = other.poll_task_as(&other_id, QUEUE, 25).await.expect("it is handed out again");
    assert_eq!((again.task_execution_id, again.execution_count), (task_id, 2));
}

mod sqlite {
    use super::Database::Sqlite;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_long_task_of_a_client_without_heartbeats_runs_once() {
        super::a_long_task_of_a_client_without_heartbeats_runs_once(Sqlite).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_dead_client_loses_its_task_soon() {
        super::a_dead_client_loses_its_task_soon(Sqlite).await;
    }
}

mod postgres {
    use super::Database::Postgres;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_long_task_of_a_client_without_heartbeats_runs_once() {
        super::a_long_task_of_a_client_without_heartbeats_runs_once(Postgres).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_dead_client_loses_its_task_soon() {
        super::a_dead_client_loses_its_task_soon(Postgres).await;
    }
}
