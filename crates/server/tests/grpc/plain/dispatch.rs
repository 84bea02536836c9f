//! Which worker receives which work: by registered kinds, by queue, by the worker's name or assigned id.

use serde_json::json;
use uuid::Uuid;

use super::client::{Plain, QUEUE, start_request};
use super::commands::{ScheduleTask, schedule, task, task_data};
use super::messages::StartWorkflowRequest;
use crate::common::{TestServer, on_both};

on_both!(
    workflows_go_to_workers_that_have_the_kind,
    tasks_go_to_workers_that_have_the_kind,
    waiting_polls_are_chosen_by_kind,
    an_unregistered_worker_gets_anything_of_its_queue,
    queues_are_apart,
    urgent_work_comes_first,
);

/// An SDK silently drops a workflow of an unknown kind, which would then be stuck until its lease expires.
async fn workflows_go_to_workers_that_have_the_kind(server: TestServer) {
    let client = Plain::of(&server);
    client.register("a", &["order"], &[]).await;
    let b_id = client.register("b", &["refund"], &[]).await;
    let order = client.start("order", json!(null)).await;
    let refund = client.start("refund", json!(null)).await;
    // The Rust SDK polls with its registered name, the bindings with the id that they received.
    let by_id = client.poll_workflow_as(&b_id, QUEUE, 20).await.unwrap();
    assert_eq!(by_id.id, refund);
    assert!(client.poll_workflow_as(&b_id, QUEUE, 0).await.is_none());
    let by_name = client.poll_workflow_as("a", QUEUE, 20).await.unwrap();
    assert_eq!(by_name.id, order);
    assert!(client.poll_workflow_as("a", QUEUE, 0).await.is_none());
    // No worker supports the kind: the execution waits and says so.
    let odd = client.start("odd", json!(null)).await;
    assert!(client.poll_workflow_as("a", QUEUE, 0).await.is_none());
    assert!(client.poll_workflow_as("b", QUEUE, 0).await.is_none());
    assert_eq!(client.query(&odd, "__waiting").await[0]["kind"], "NO_WORKER");
}

/// An SDK fails a task of an unknown kind at once, which consumes an attempt.
async fn tasks_go_to_workers_that_have_the_kind(server: TestServer) {
    let client = Plain::of(&server);
    client.register("workflows", &["order"], &[]).await;
    client.register("a", &[], &["charge"]).await;
    let b_id = client.register("b", &[], &["ship"]).await;
    let id = client.start("order", json!(null)).await;
    client.poll_workflow_as("workflows", QUEUE, 20).await.unwrap();
    let (charge, ship) = (Uuid::new_v4(), Uuid::new_v4());
    let commands = vec![schedule(charge, "charge", json!(1)), schedule(ship, "ship", json!(1))];
    client.suspend(&id, commands).await;
    let shipped = client.poll_task_as(&b_id, QUEUE, 20).await.unwrap();
    assert_eq!((shipped.task_execution_id, shipped.execution_count), (ship.to_string(), 1));
    assert!(client.poll_task_as("b", QUEUE, 0).await.is_none());
    // This worker registered no task at all.
    assert!(client.poll_task_as("workflows", QUEUE, 0).await.is_none());
    let charged = client.poll_task_as("a", QUEUE, 20).await.unwrap();
    assert_eq!((charged.task_execution_id, charged.execution_count), (charge.to_string(), 1));
}

async fn waiting_polls_are_chosen_by_kind(server: TestServer) {
    let client = Plain::of(&server);
    let a_id = client.register("a", &["order"], &[]).await;
    client.register("b", &["refund"], &[]).await;
    let poll = |worker: String| {
        let client = client.clone();
        tokio::spawn(async move { client.poll_workflow_as(&worker, QUEUE, 25).await.unwrap().id })
    };
    let (of_a, of_b) = (poll(a_id), poll("b".to_owned()));
    let refund = client.start("refund", json!(null)).await;
    let order = client.start("order", json!(null)).await;
    assert_eq!((of_a.await.unwrap(), of_b.await.unwrap()), (order, refund));
}

async fn an_unregistered_worker_gets_anything_of_its_queue(server: TestServer) {
    let client = Plain::of(&server);
    let ready = client.start("one", json!(null)).await;
    assert_eq!(client.claim(&ready).await.len(), 1);
    // A new kind arrives while the poll already waits.
    let poll = tokio::spawn({
        let client = client.clone();
        async move { client.poll_workflow().await.id }
    });
    let new = client.start("another", json!(null)).await;
    assert_eq!(poll.await.unwrap(), new);
    let task_id = Uuid::new_v4();
    client.suspend(&new, vec![schedule(task_id, "whatever", json!(1))]).await;
    assert_eq!(client.poll_task().await.task_execution_id, task_id.to_string());
}

async fn queues_are_apart(server: TestServer) {
    let client = Plain::of(&server);
    let in_eu = StartWorkflowRequest { queue: "eu".into(), ..start_request("order", json!(null)) };
    let id = client.start_with(in_eu).await.unwrap().workflow_execution_id;
    client.assert_no_workflow().await;
    let claimed = client.poll_workflow_as("w", "eu", 20).await.unwrap();
    assert_eq!((claimed.id, claimed.queue.as_str()), (id.clone(), "eu"));
    // A task without a queue goes to its workflow's queue; "default" is a name like any other.
    let (inherits, named) = (Uuid::new_v4(), Uuid::new_v4());
    let in_default = ScheduleTask { queue: Some("default".into()), ..task_data(named, "charge", json!(2)) };
    client.suspend(&id, vec![schedule(inherits, "charge", json!(1)), task(in_default)]).await;
    assert_eq!(client.poll_task().await.task_execution_id, named.to_string());
    client.assert_no_task().await;
    let own = client.poll_task_as("w", "eu", 20).await.unwrap();
    assert_eq!((own.task_execution_id, own.queue.as_str()), (inherits.to_string(), "eu"));
}

async fn urgent_work_comes_first(server: TestServer) {
    let client = Plain::of(&server);
    let usual = client.start("order", json!(1)).await;
    let urgent = StartWorkflowRequest { priority_seconds: -3_600, ..start_request("order", json!(2)) };
    let urgent = client.start_with(urgent).await.unwrap().workflow_execution_id;
    let first = client.poll_workflow().await;
    assert_eq!((first.id, first.priority_ms), (urgent, -3_600_000));
    assert_eq!(client.poll_workflow().await.id, usual);
}
