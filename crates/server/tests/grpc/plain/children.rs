//! Child workflows: the parent is notified of every way a child can end.

use flovyn_proto::v1;
use serde_json::json;
use uuid::Uuid;

use super::client::{Plain, event, parsed};
use super::commands::{FAILED, child, fail};
use crate::common::{TestServer, on_both};

on_both!(a_child_completes, a_child_fails, a_cancelled_child_counts_as_failed);

/// A parent that waits for the child "pack-1", which is claimed. Returns the parent's id and the child's.
async fn with_child(client: &Plain) -> (String, Uuid) {
    let parent = client.start("ship", json!(null)).await;
    client.claim(&parent).await;
    let child_id = Uuid::new_v4();
    client.suspend(&parent, vec![child(child_id, "pack-1", "pack", json!({"box": 1}))]).await;
    let execution = client.poll_workflow().await;
    assert_eq!((execution.id, execution.kind.as_str()), (child_id.to_string(), "pack"));
    // The child named no queue, so it has the parent's.
    assert_eq!((execution.queue.as_str(), parsed(&execution.input)), ("default", json!({"box": 1})));
    let initiated = client.events(&parent).await.remove(1);
    let data = json!({
        "childExecutionName": "pack-1", "childWorkflowKind": "pack", "childExecutionId": child_id.to_string(),
    });
    assert_eq!(initiated, event("CHILD_WORKFLOW_INITIATED", data));
    (parent, child_id)
}

async fn a_child_completes(server: TestServer) {
    let client = Plain::of(&server);
    let (parent, child_id) = with_child(&client).await;
    client.complete(&child_id.to_string(), json!({"weight": 2})).await;
    let events = client.claim(&parent).await;
    let data = json!({
        "childExecutionName": "pack-1", "childExecutionId": child_id.to_string(), "output": {"weight": 2},
    });
    assert_eq!(events[2..], [event("CHILD_WORKFLOW_COMPLETED", data)]);
    client.complete(&parent, json!(null)).await;
}

async fn a_child_fails(server: TestServer) {
    let client = Plain::of(&server);
    let (parent, child_id) = with_child(&client).await;
    client.submit(&child_id.to_string(), vec![fail("box too small")], FAILED).await.unwrap();
    let events = client.claim(&parent).await;
    let data = json!({
        "childExecutionName": "pack-1",
        "childExecutionId": child_id.to_string(),
        "childworkflowExecutionId": child_id.to_string(),
        "error": "box too small",
        "failureType": "ERROR",
    });
    assert_eq!(events[2..], [event("CHILD_WORKFLOW_FAILED", data)]);
}

/// No worker resolves a cancelled child, so without a failure the parent would wait forever.
async fn a_cancelled_child_counts_as_failed(server: TestServer) {
    let client = Plain::of(&server);
    let (parent, child_id) = with_child(&client).await;
    let cancel = v1::CancelExecutionRequest {
        workflow_execution_id: child_id.to_string(),
        reason: "no boxes".into(),
        cascade: false,
    };
    client.call::<_, v1::CancelExecutionResponse>("WorkflowClient/CancelExecution", cancel).await.unwrap();
    let events = client.claim(&parent).await;
    assert_eq!(events[2].kind, "CHILD_WORKFLOW_FAILED");
    assert_eq!(events[2].data["childExecutionName"], "pack-1");
    assert!(events[2].data["error"].as_str().unwrap().contains("no boxes"), "{events:?}");
}
