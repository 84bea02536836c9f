//! A server that is restarted, and claims that survive the restart.

use serde_json::json;
use uuid::Uuid;

use super::client::{Plain, WORKER, kinds};
use super::commands::{ScheduleTask, schedule, task, task_data, timer};
use crate::common::{TestServer, on_both};

on_both!(tasks_survive, a_running_task_keeps_its_claim, a_running_workflow_keeps_its_claim, a_timer_survives);

async fn tasks_survive(server: TestServer) {
    let client = Plain::of(&server);
    client.register(WORKER, &["order"], &["charge"]).await;
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let tasks = [Uuid::new_v4(), Uuid::new_v4()];
    client.suspend(&id, tasks.map(|task| schedule(task, "charge", json!(1))).to_vec()).await;
    let log = client.events(&id).await;

    let server = server.restart().await;
    // Workers reconnect and do not register again.
    let client = Plain::of(&server);
    assert_eq!(client.events(&id).await, log);
    for _ in tasks {
        let delivered = client.poll_task().await;
        assert_eq!(delivered.execution_count, 1);
        client.complete_task(delivered.task_execution_id, json!(1)).await.unwrap();
    }
    let events = client.claim(&id).await;
    assert_eq!(kinds(&events[3..]), ["TASK_COMPLETED", "TASK_COMPLETED"]);
    client.complete(&id, json!("done")).await;
}

/// The worker is alive, so its only attempt must not be taken away.
async fn a_running_task_keeps_its_claim(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let task_id = Uuid::new_v4();
    let once = ScheduleTask { max_retries: Some(1), ..task_data(task_id, "charge", json!(1)) };
    client.suspend(&id, vec![task(once)]).await;
    client.poll_task().await;

    let server = server.restart().await;
    let client = Plain::of(&server);
    client.assert_no_task().await;
    client.complete_task(task_id, json!("paid")).await.unwrap();
    let events = client.claim(&id).await;
    assert_eq!(events[2].data, json!({"taskExecutionId": task_id.to_string(), "output": "paid"}));
}

async fn a_running_workflow_keeps_its_claim(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    client.signal(&id, "hurry", json!(null)).await.unwrap();

    let server = server.restart().await;
    let client = Plain::of(&server);
    client.assert_no_workflow().await;
    let task_id = Uuid::new_v4();
    client.suspend(&id, vec![schedule(task_id, "charge", json!(1))]).await;
    // The mark that a signal arrived during the claim is as durable as the signal.
    let events = client.claim(&id).await;
    assert_eq!(kinds(&events), ["WORKFLOW_STARTED", "SIGNAL_RECEIVED", "TASK_SCHEDULED"]);
}

async fn a_timer_survives(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("nap", json!(null)).await;
    client.claim(&id).await;
    client.suspend(&id, vec![timer("sleep-1", 200)]).await;
    let server = server.restart().await;
    let client = Plain::of(&server);
    assert_eq!(client.claim(&id).await.last().unwrap().kind, "TIMER_FIRED");
}
