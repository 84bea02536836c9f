//! Clients that disconnect during a poll. No work is lost, and the server keeps serving.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;

use super::client::{DEADLINE, Plain, QUEUE, WORKER, kinds};
use super::commands::{COMPLETED, complete, schedule};
use crate::common::{Database, TestServer, on_both};

on_both!(workflows_that_arrive_after_the_drop, tasks_that_arrive_after_the_drop);

/// Sends polls that reach the server and are then dropped. The reset is sent before any later request.
async fn drop_waiting_polls(server: &TestServer, client: &Plain) {
    let polls: Vec<JoinHandle<()>> = (0..4)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                if number % 2 == 0 {
                    client.poll_workflow_as(WORKER, QUEUE, 25).await;
                } else {
                    client.poll_task_as(WORKER, QUEUE, 25).await;
                }
            })
        })
        .collect();
    // Polls of an earlier round may still be counted. Then these polls are dropped before they wait, which is tested
    // too.
    let waiting = async {
        while server.server.api().service().pollers() < polls.len() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
    for poll in polls {
        poll.abort();
        assert!(poll.await.unwrap_err().is_cancelled());
    }
}

/// The lease of a lost claim is longer than the test may take, so only a release helps.
async fn workflows_that_arrive_after_the_drop(server: TestServer) {
    let client = Plain::of(&server);
    for round in 0..15 {
        drop_waiting_polls(&server, &client).await;
        // An answer to this call means that the server has read everything sent before it.
        client.register("other", &["other"], &[]).await;
        let id = client.start("order", json!(round)).await;
        assert_eq!(client.claim(&id).await.len(), 1);
        client.complete(&id, json!(round)).await;
    }
    client.assert_no_workflow().await;
}

/// A task that is handed to a dropped poll consumes no attempt.
async fn tasks_that_arrive_after_the_drop(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    for round in 0..10 {
        drop_waiting_polls(&server, &client).await;
        client.register("other", &["other"], &[]).await;
        let task_id = uuid::Uuid::new_v4();
        client.suspend(&id, vec![schedule(task_id, "charge", json!(round))]).await;
        let task = client.poll_task().await;
        assert_eq!((task.task_execution_id, task.execution_count), (task_id.to_string(), 1));
        client.complete_task(task_id, json!(round)).await.unwrap();
        client.claim(&id).await;
    }
    client.complete(&id, json!(null)).await;
}

mod at_random_moments {
    use super::{Database, polls_dropped_at_random_moments};

    #[tokio::test(flavor = "multi_thread")]
    async fn sqlite() {
        polls_dropped_at_random_moments(Database::Sqlite).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn postgres() {
        polls_dropped_at_random_moments(Database::Postgres).await;
    }
}

/// A reply that is in transit when its client disconnects is lost. Only the lease, which is short here, requeues the
/// work.
async fn polls_dropped_at_random_moments(database: Database) {
    const WORKFLOWS: usize = 40;
    let server =
        TestServer::start_with(database, |config| config.limits.workflow_lease_ms = Some(1_000)).await;
    let client = Plain::of(&server);
    let mut started = HashSet::new();
    let mut finished = HashSet::new();
    for number in 0..WORKFLOWS {
        // From "the request has not left" to "the reply has arrived", in steps that match no interval of the server.
        let patience = Duration::from_micros((number as u64 * 7_919) % 6_000);
        if number % 2 == 0 {
            started.insert(client.start("order", json!(number)).await);
        }
        let poll = client.poll_workflow_as(WORKER, QUEUE, 1);
        let (polled, _) = tokio::join!(tokio::time::timeout(patience, poll), async {
            if number % 2 == 1 {
                started.insert(client.start("order", json!(number)).await);
            }
        });
        if let Ok(Some(execution)) = polled {
            finish(&client, execution.id, &mut finished).await;
        }
    }
    let rest = async {
        while finished.len() < WORKFLOWS {
            if let Some(execution) = client.poll_workflow_as(WORKER, QUEUE, 5).await {
                finish(&client, execution.id, &mut finished).await;
            }
        }
    };
    tokio::time::timeout(2 * DEADLINE, rest).await.unwrap();
    assert_eq!(finished, started);
    for id in &started {
        assert_eq!(kinds(&client.events(id).await), ["WORKFLOW_STARTED", "WORKFLOW_COMPLETED"]);
    }
    client.assert_no_workflow().await;
}

/// Finishes each execution once. A refusal means that the lease expired on a slow machine: the execution is handed out
/// again.
async fn finish(client: &Plain, id: String, finished: &mut HashSet<String>) {
    match client.submit(&id, vec![complete(json!(null))], COMPLETED).await {
        Ok(()) => assert!(finished.insert(id), "finished twice"),
        Err(status) => assert_eq!(status.code(), tonic::Code::FailedPrecondition),
    }
}

/// The claim is committed but the reply is not yet built: the client disconnects while the server reads the input.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_claimed_and_then_dropped() {
    let server = TestServer::start(Database::Postgres).await;
    let client = Plain::of(&server);
    let id = client.start("order", json!(7)).await;
    let (database, connection) =
        tokio_postgres::connect(&server.config.database_url.0, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // Claims do not use the log, but reading the input does.
    database.batch_execute("BEGIN; LOCK TABLE workflow_event IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let poll = tokio::spawn({
        let client = client.clone();
        async move { client.poll_workflow().await }
    });
    until_status(&client, &id, "RUNNING").await;
    poll.abort();
    assert!(poll.await.unwrap_err().is_cancelled());
    until_status(&client, &id, "PENDING").await;
    database.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(client.claim(&id).await.len(), 1);
    client.complete(&id, json!(null)).await;
}

async fn until_status(client: &Plain, id: &str, status: &str) {
    let reached = async { while client.query(id, "__status").await["status"] != status {} };
    tokio::time::timeout(DEADLINE, reached).await.expect(status);
}
