//! The ways in which different clients end an activation.

use serde_json::json;
use tonic::Code;
use uuid::Uuid;

use super::client::{Plain, event, kinds};
use super::commands::{COMPLETED, FAILED, SUSPENDED, complete, fail, operation, schedule, unspecified};
use super::messages::{GetEventsRequest, GetEventsResponse};
use crate::common::{TestServer, on_both};

on_both!(
    failed,
    without_a_suspend_command,
    unspecified_commands_are_ignored,
    refused,
    running_means_that_the_workflow_goes_on,
    after_the_end,
    an_end_over_a_signal_is_refused_and_the_client_is_asked_again,
);

const RUNNING: i32 = 1;

/// The event types of the public protocol. Some clients treat any other type as OPERATION_COMPLETED.
const KNOWN: &[&str] = &["WORKFLOW_STARTED", "WORKFLOW_SUSPENDED", "WORKFLOW_COMPLETED", "SIGNAL_RECEIVED"];

async fn an_end_over_a_signal_is_refused_and_the_client_is_asked_again(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    client.signal(&id, "add", json!(1)).await.unwrap();
    let refused = client.submit(&id, vec![complete(json!([]))], COMPLETED).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.metadata().get("flovyn-error-code").unwrap(), "FLV0063");
    let events = client.claim(&id).await;
    assert_eq!(kinds(&events), ["WORKFLOW_STARTED", "SIGNAL_RECEIVED", "WORKFLOW_SUSPENDED"]);
    client.complete(&id, json!([1])).await;
    let events = client.events(&id).await;
    assert!(kinds(&events).iter().all(|kind| KNOWN.contains(kind)), "{:?}", kinds(&events));
    assert_eq!(events.last(), Some(&event("WORKFLOW_COMPLETED", json!({ "output": [1] }))));
    client.assert_no_workflow().await;
}

async fn failed(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    client.submit(&id, vec![operation("draw", json!(4)), fail("out of stock")], FAILED).await.unwrap();
    let expected = [
        event("OPERATION_COMPLETED", json!({"operationName": "draw", "result": 4})),
        event("WORKFLOW_EXECUTION_FAILED", json!({"error": "out of stock", "failureType": "ERROR"})),
    ];
    assert_eq!(client.events(&id).await[1..], expected);
    client.assert_no_workflow().await;
}

/// The bindings send only the status, sometimes with no command at all.
async fn without_a_suspend_command(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let task_id = Uuid::new_v4();
    client.submit(&id, vec![schedule(task_id, "charge", json!(1))], SUSPENDED).await.unwrap();
    client.poll_task().await;
    client.complete_task(task_id, json!(1)).await.unwrap();
    client.claim(&id).await;
    client.submit(&id, vec![], SUSPENDED).await.unwrap();
    client.assert_no_workflow().await;
    client.signal(&id, "go", json!(null)).await.unwrap();
    let events = client.claim(&id).await;
    assert_eq!(kinds(&events), ["WORKFLOW_STARTED", "TASK_SCHEDULED", "TASK_COMPLETED", "SIGNAL_RECEIVED"]);
}

async fn unspecified_commands_are_ignored(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    client
        .submit(&id, vec![unspecified(), operation("draw", json!(4)), unspecified()], SUSPENDED)
        .await
        .unwrap();
    assert_eq!(kinds(&client.events(&id).await), ["WORKFLOW_STARTED", "OPERATION_COMPLETED"]);
}

async fn refused(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    // No worker has claimed it.
    let early = client.submit(&id, vec![complete(json!(1))], COMPLETED).await.unwrap_err();
    assert_eq!(early.code(), Code::FailedPrecondition);
    client.claim(&id).await;
    for (commands, status) in [(vec![], COMPLETED), (vec![], FAILED), (vec![], 0)] {
        let wrong = client.submit(&id, commands, status).await.unwrap_err();
        assert_eq!(wrong.code(), Code::InvalidArgument, "status {status}");
    }
    // The first of them has ended the claim, and the execution is handed out again.
    client.claim(&id).await;
    client.complete(&id, json!(1)).await;
}

/// The public enumeration has RUNNING, but no client sends it.
async fn running_means_that_the_workflow_goes_on(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    client.submit(&id, vec![operation("draw", json!(4))], RUNNING).await.unwrap();
    client.assert_no_workflow().await;
    client.signal(&id, "go", json!(null)).await.unwrap();
    let events = client.claim(&id).await;
    assert_eq!(kinds(&events), ["WORKFLOW_STARTED", "OPERATION_COMPLETED", "SIGNAL_RECEIVED"]);
    client.complete(&id, json!(1)).await;
}

/// Clients wait for the result by reading the history. Nothing reopens the execution.
async fn after_the_end(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let task_id = Uuid::new_v4();
    client.submit(&id, vec![schedule(task_id, "charge", json!(1))], SUSPENDED).await.unwrap();
    client.poll_task().await;
    client.signal(&id, "hurry", json!(null)).await.unwrap();
    client.claim(&id).await;
    client.complete(&id, json!({"ok": true})).await;
    let late = client.complete_task(task_id, json!(1)).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    client.assert_no_workflow().await;
    let events = client.events(&id).await;
    assert_eq!(events.last(), Some(&event("WORKFLOW_COMPLETED", json!({"output": {"ok": true}}))));

    let request = GetEventsRequest { workflow_execution_id: Uuid::new_v4().to_string() };
    let unknown = client.call::<_, GetEventsResponse>("WorkflowDispatch/GetEvents", request).await;
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
}
