//! Cancel: workers of the public protocol cannot be notified, so the server ends the execution itself.

use flovyn_proto::v1;
use serde_json::json;
use tonic::{Code, Status};
use uuid::Uuid;

use super::client::{Plain, event};
use super::commands::{COMPLETED, complete, schedule};
use crate::common::{TestServer, on_both};

on_both!(a_running_workflow_ends_at_once, a_parked_workflow_ends_at_once);

async fn cancel(client: &Plain, id: &str) -> Result<v1::CancelExecutionResponse, Status> {
    let request = v1::CancelExecutionRequest {
        workflow_execution_id: id.into(),
        reason: "changed my mind".into(),
        cascade: false,
    };
    client.call("WorkflowClient/CancelExecution", request).await
}

async fn a_running_workflow_ends_at_once(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    assert_eq!(cancel(&client, &id).await.unwrap().status, "CANCELLED");
    let cancelled = event("WORKFLOW_CANCELLED", json!({"reason": "changed my mind"}));
    assert_eq!(client.events(&id).await[1..], [cancelled]);

    let late = client.submit(&id, vec![complete(json!(1))], COMPLETED).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    assert_eq!(cancel(&client, &id).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(client.events(&id).await.len(), 2);
    client.assert_no_workflow().await;
}

async fn a_parked_workflow_ends_at_once(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let (running, waiting) = (Uuid::new_v4(), Uuid::new_v4());
    let commands = [running, waiting].map(|task| schedule(task, "charge", json!(1)));
    client.suspend(&id, commands.to_vec()).await;
    let claimed = client.poll_task().await.task_execution_id;
    assert_eq!(cancel(&client, &id).await.unwrap().status, "CANCELLED");

    // The pending task is never handed out, and the late result of the other task changes nothing.
    client.assert_no_task().await;
    assert_eq!(client.complete_task(claimed, json!(1)).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(client.events(&id).await.last().unwrap().kind, "WORKFLOW_CANCELLED");
    assert_eq!(client.events(&id).await.len(), 4);
    client.assert_no_workflow().await;
}
