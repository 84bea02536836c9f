//! A server that stops and comes back while clients work that send each result only once. Work whose result was lost
//! runs again; other results are accepted.

use serde_json::json;
use uuid::Uuid;

use super::client::{Plain, QUEUE, kinds};
use super::commands::schedule;
use crate::common::{Database, TestServer};

/// Long enough to restart the server, short enough to wait for.
const LEASE_MS: i64 = 4_000;

async fn started(database: Database) -> TestServer {
    let change = |config: &mut flovyn_server::Config| {
        config.limits.task_lease_ms = Some(LEASE_MS);
        config.limits.workflow_lease_ms = Some(LEASE_MS);
    };
    TestServer::start_with(database, change).await
}

/// While the server is away, one task continues, one task ends and its only report is lost, and the report of a step is
/// lost.
async fn a_server_that_goes_away_loses_no_work(database: Database) {
    let server = started(database).await;
    let client = Plain::of(&server);
    let id = client.register_process(("worker", "host", "1"), &["order"], &["runs", "ends"]).await;
    let execution_id = client.start("order", json!(null)).await;
    client.poll_workflow_as(&id, QUEUE, 20).await.unwrap();
    let (runs, ends) = (Uuid::new_v4(), Uuid::new_v4());
    let both = [schedule(runs, "runs", json!(1)), schedule(ends, "ends", json!(1))];
    client.suspend(&execution_id, both.to_vec()).await;
    for _ in 0..2 {
        client.poll_task_as(&id, QUEUE, 20).await.unwrap();
    }
    let other = client.start("order", json!(null)).await;
    client.poll_workflow_as(&id, QUEUE, 20).await.unwrap();

    // Reports that are sent while the server is away fail and are not repeated.
    server.server.drain();
    let server = {
        let (restarted, _lost) = tokio::join!(server.restart(), async {
            let nowhere = Plain::nowhere();
            let task = nowhere.complete_task(ends, json!(1)).await.is_err();
            let step = nowhere.submit(&other, vec![], 2).await.is_err();
            assert!(task && step);
        });
        restarted
    };
    // The worker does not register again.
    let client = Plain::of(&server);
    client.complete_task(runs, json!("kept")).await.unwrap();
    let again = client.poll_task_as(&id, QUEUE, 25).await.expect("the lost result is produced again");
    assert_eq!((again.task_execution_id, again.execution_count), (ends.to_string(), 2));
    client.complete_task(ends, json!("again")).await.unwrap();
    let mut open = vec![execution_id.clone(), other];
    while !open.is_empty() {
        let step = client.poll_workflow_as(&id, QUEUE, 25).await.expect("the lost step is run again");
        client.complete(&step.id, json!(null)).await;
        open.retain(|id| *id != step.id);
    }
    let ended = ["TASK_COMPLETED", "TASK_COMPLETED", "WORKFLOW_COMPLETED"];
    assert_eq!(kinds(&client.events(&execution_id).await)[3..], ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_loses_no_work_on_sqlite() {
    a_server_that_goes_away_loses_no_work(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_loses_no_work_on_postgres() {
    a_server_that_goes_away_loses_no_work(Database::Postgres).await;
}
