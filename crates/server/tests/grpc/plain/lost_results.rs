//! Clients that send each result once, to a server that is killed and comes back: what was lost with it is run again, and what
//! was not is taken.

use serde_json::json;
use uuid::Uuid;

use super::client::{Plain, QUEUE, kinds};
use super::commands::schedule;
use crate::common::{Database, Killable};

/// Long enough to restart the server, short enough to wait for.
const LEASE_MS: i64 = 4_000;

async fn started(database: Database) -> Killable {
    let change = |config: &mut flovyn_server::Config| {
        config.limits.task_lease_ms = Some(LEASE_MS);
        config.limits.workflow_lease_ms = Some(LEASE_MS);
    };
    Killable::start(database, change).await
}

/// One task goes on while the server is away. Another one and a step end meanwhile: their only reports are lost.
async fn a_server_that_is_killed_loses_no_work(database: Database) {
    let killable = started(database).await;
    let client = Plain::of(&killable.server);
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

    let killed = killable.kill().await;
    // The client is the same, and so is the address.
    client.complete_task(ends, json!("lost")).await.unwrap_err();
    client.submit(&other, vec![], 2).await.unwrap_err();
    let killable = killed.start().await;

    // It does not register again.
    let client = Plain::of(&killable.server);
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
    let events = client.events(&execution_id).await;
    assert_eq!(kinds(&events)[3..], ended);
    let outputs = [&events[3].data["output"], &events[4].data["output"]];
    assert_eq!(outputs, [&json!("kept"), &json!("again")]);
}

/// The server is killed while a step and a result are on their way to it. Each is taken in whole or runs again; what was
/// acknowledged does not run again.
async fn what_is_on_its_way_to_a_killed_server_counts_once(database: Database) {
    let killable = started(database).await;
    let client = Plain::of(&killable.server);
    let id = client.register_process(("worker", "host", "1"), &["order"], &["ends"]).await;
    let task = client.submit_task("ends").await;
    client.poll_task_as(&id, QUEUE, 20).await.unwrap();
    let execution_id = client.start("order", json!(null)).await;
    client.poll_workflow_as(&id, QUEUE, 20).await.unwrap();
    let next = Uuid::new_v4();
    let step = vec![schedule(next, "next", json!(1))];
    // Both are sent before the kill begins. Whether they arrive is open.
    let (result, step, killed) = tokio::join!(
        client.complete_task(&task, json!("once")),
        client.submit(&execution_id, step, 2),
        killable.kill(),
    );
    let killable = killed.start().await;
    let client = Plain::of(&killable.server);
    // The next worker does everything that is left to do.
    let id = client.register_process(("worker", "host", "2"), &["order"], &["ends", "next"]).await;
    let mut delivered = Vec::new();
    while !delivered.contains(&next.to_string()) {
        if let Some(again) = client.poll_workflow_as(&id, QUEUE, 0).await {
            assert!(step.is_err(), "an acknowledged step does not run again");
            assert_eq!(again.id, execution_id);
            client.submit(&again.id, vec![schedule(next, "next", json!(1))], 2).await.unwrap();
        }
        if let Some(task) = client.poll_task_as(&id, QUEUE, 1).await {
            client.complete_task(&task.task_execution_id, json!("again")).await.unwrap();
            delivered.push(task.task_execution_id);
        }
    }
    assert!(result.is_err() || !delivered.contains(&task), "an acknowledged result does not run again");
    let events = client.events(&execution_id).await;
    assert_eq!(kinds(&events), ["WORKFLOW_STARTED", "TASK_SCHEDULED", "TASK_COMPLETED"]);
}

mod sqlite {
    use super::Database::Sqlite;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_is_killed_loses_no_work() {
        super::a_server_that_is_killed_loses_no_work(Sqlite).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_on_its_way_to_a_killed_server_counts_once() {
        super::what_is_on_its_way_to_a_killed_server_counts_once(Sqlite).await;
    }
}

mod postgres {
    use super::Database::Postgres;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_is_killed_loses_no_work() {
        super::a_server_that_is_killed_loses_no_work(Postgres).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_on_its_way_to_a_killed_server_counts_once() {
        super::what_is_on_its_way_to_a_killed_server_counts_once(Postgres).await;
    }
}
