//! Signals: accepted in every state before the end, in order, never merged.

use serde_json::{Value, json};
use tonic::Code;

use super::client::{Event, Plain, QUEUE, event, json_bytes, kinds};
use super::messages::{SignalWithStartRequest, SignalWithStartResponse};
use crate::common::{TENANT, TestServer, on_both};

on_both!(in_every_state, signal_with_start_is_one_step, signal_with_start_after_the_end_starts_anew);

fn received(value: Value) -> Event {
    event("SIGNAL_RECEIVED", json!({"signalName": "add", "signalValue": value}))
}

async fn in_every_state(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("sum", json!(null)).await;
    assert_eq!(client.signal(&id, "add", json!({"n": 1})).await.unwrap(), 2);
    let events = client.claim(&id).await;
    assert_eq!(events[1..], [received(json!({"n": 1}))]);

    // The execution is claimed and its activation has not seen this signal, so it must run again.
    assert_eq!(client.signal(&id, "add", json!({"n": 2})).await.unwrap(), 3);
    client.suspend(&id, vec![]).await;
    assert_eq!(client.claim(&id).await.len(), 3);
    client.suspend_again(&id).await;
    client.assert_no_workflow().await;

    // The execution is parked. Two signals with the same value are two signals.
    assert_eq!(client.signal(&id, "add", json!({"n": 2})).await.unwrap(), 4);
    let events = client.claim(&id).await;
    assert_eq!(events[2..], [received(json!({"n": 2})), received(json!({"n": 2}))]);

    client.complete(&id, json!(5)).await;
    let late = client.signal(&id, "add", json!(9)).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    assert_eq!(client.events(&id).await.len(), 5);
    client.assert_no_workflow().await;
}

async fn signal_with_start(client: &Plain, workflow_id: &str, value: Value) -> SignalWithStartResponse {
    let request = SignalWithStartRequest {
        org_id: TENANT.to_string(),
        workflow_id: workflow_id.into(),
        workflow_kind: "sum".into(),
        workflow_input: json_bytes(json!(0)),
        queue: QUEUE.into(),
        signal_name: "add".into(),
        signal_value: json_bytes(value),
    };
    client.call("WorkflowDispatch/SignalWithStartWorkflow", request).await.unwrap()
}

async fn signal_with_start_is_one_step(server: TestServer) {
    let client = Plain::of(&server);
    // A worker already waits: it would receive the execution between start and signal if these were two steps.
    let poll = tokio::spawn({
        let client = client.clone();
        async move {
            let execution = client.poll_workflow().await;
            (client.events(&execution.id).await, execution.id)
        }
    });
    let first = signal_with_start(&client, "cart-1", json!(1)).await;
    assert!(first.workflow_created);
    assert_eq!(first.signal_event_sequence, 2);
    let (events, id) = poll.await.unwrap();
    assert_eq!(id, first.workflow_execution_id);
    assert_eq!(kinds(&events), ["WORKFLOW_STARTED", "SIGNAL_RECEIVED"]);

    let second = signal_with_start(&client, "cart-1", json!(2)).await;
    assert!(!second.workflow_created);
    assert_eq!((second.workflow_execution_id, second.signal_event_sequence), (id.clone(), 3));
    assert_eq!(client.events(&id).await[1..], [received(json!(1)), received(json!(2))]);
    client.assert_no_workflow().await;
}

async fn signal_with_start_after_the_end_starts_anew(server: TestServer) {
    let client = Plain::of(&server);
    let first = signal_with_start(&client, "cart-1", json!(1)).await;
    client.claim(&first.workflow_execution_id).await;
    client.complete(&first.workflow_execution_id, json!(1)).await;
    let second = signal_with_start(&client, "cart-1", json!(2)).await;
    assert!(second.workflow_created);
    assert_ne!(second.workflow_execution_id, first.workflow_execution_id);
    assert_eq!(client.claim(&second.workflow_execution_id).await[1..], [received(json!(2))]);
}
