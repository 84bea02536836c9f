//! Standalone tasks, and idempotency keys of tasks and workflows.

use serde_json::json;
use tonic::{Code, Status};

use super::client::{Plain, QUEUE, json_bytes, parsed, start_request};
use super::commands::{FAILED, fail};
use super::messages::{StartWorkflowRequest, SubmitTaskRequest, SubmitTaskResponse};
use crate::common::{TENANT, TestServer, on_both};

on_both!(a_standalone_task, task_keys, workflow_keys);

async fn submit(client: &Plain, kind: &str, key: Option<&str>) -> Result<SubmitTaskResponse, Status> {
    let request = SubmitTaskRequest {
        workflow_execution_id: String::new(),
        org_id: TENANT.to_string(),
        kind: kind.into(),
        input: json_bytes(json!({"to": "ann"})),
        max_retries: 1,
        timeout_ms: 60_000,
        idempotency_key: key.map(Into::into),
        queue: QUEUE.into(),
    };
    client.call("TaskExecution/SubmitTask", request).await
}

async fn a_standalone_task(server: TestServer) {
    let client = Plain::of(&server);
    let created = submit(&client, "mail", None).await.unwrap();
    assert_eq!((created.idempotency_key_used, created.idempotency_key_new), (false, true));
    let task = client.poll_task().await;
    assert_eq!(task.task_execution_id, created.task_execution_id);
    assert_eq!((task.workflow_execution_id.as_str(), task.execution_count), ("", 1));
    assert_eq!((task.kind.as_str(), parsed(&task.input)), ("mail", json!({"to": "ann"})));
    client.complete_task(&task.task_execution_id, json!("sent")).await.unwrap();
    client
        .complete_task(&task.task_execution_id, json!("sent"))
        .await
        .expect("the same report is answered alike");
    let other = client.complete_task(&task.task_execution_id, json!("lost")).await.unwrap_err();
    assert_eq!(other.code(), Code::FailedPrecondition);
    client.assert_no_task().await;
}

async fn task_keys(server: TestServer) {
    let client = Plain::of(&server);
    let first = submit(&client, "mail", Some("welcome-ann")).await.unwrap();
    assert_eq!((first.idempotency_key_used, first.idempotency_key_new), (true, true));
    let second = submit(&client, "mail", Some("welcome-ann")).await.unwrap();
    assert_eq!((second.idempotency_key_used, second.idempotency_key_new), (true, false));
    assert_eq!(second.task_execution_id, first.task_execution_id);
    let other = submit(&client, "sms", Some("welcome-ann")).await.unwrap_err();
    assert_eq!(other.code(), Code::AlreadyExists);
    client.poll_task().await;
    client.assert_no_task().await;
}

async fn workflow_keys(server: TestServer) {
    let client = Plain::of(&server);
    let with_key = |kind: &str| StartWorkflowRequest {
        idempotency_key: Some("order-7".into()),
        ..start_request(kind, json!(1))
    };
    let plain = client.start_with(start_request("order", json!(1))).await.unwrap();
    assert_eq!((plain.idempotency_key_used, plain.idempotency_key_new), (false, true));
    client.claim(&plain.workflow_execution_id).await;

    let first = client.start_with(with_key("order")).await.unwrap();
    assert_eq!((first.idempotency_key_used, first.idempotency_key_new), (true, true));
    let second = client.start_with(with_key("order")).await.unwrap();
    assert_eq!((second.idempotency_key_used, second.idempotency_key_new), (true, false));
    assert_eq!(second.workflow_execution_id, first.workflow_execution_id);
    let other = client.start_with(with_key("refund")).await.unwrap_err();
    assert_eq!(other.code(), Code::AlreadyExists);

    // A failure frees the key, so this order may be started again.
    client.claim(&first.workflow_execution_id).await;
    client.submit(&first.workflow_execution_id, vec![fail("no")], FAILED).await.unwrap();
    let third = client.start_with(with_key("order")).await.unwrap();
    assert!(third.idempotency_key_new);
    assert_ne!(third.workflow_execution_id, first.workflow_execution_id);
}
