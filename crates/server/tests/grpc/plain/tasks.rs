//! Standalone tasks, and idempotency keys of tasks and workflows.

use flovyn_proto::v1;
use serde_json::json;
use tonic::{Code, Status};

use super::client::{Plain, QUEUE, json_bytes, parsed, start_request};
use super::commands::{FAILED, fail};
use super::messages::{StartWorkflowRequest, SubmitTaskRequest, SubmitTaskResponse};
use crate::common::{TENANT, TestServer, on_both};

on_both!(a_standalone_task, task_keys, workflow_keys, messages_after_the_end_of_an_attempt_are_refused);

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

/// A log line, progress and live data, as a client without tokens sends them.
async fn tell(client: &Plain, task_id: &str) -> [Result<(), Status>; 3] {
    let line = v1::LogMessageRequest {
        task_execution_id: task_id.into(),
        level: "INFO".into(),
        message: "hello".into(),
        claim_token: None,
    };
    let progress = v1::ReportProgressRequest {
        task_execution_id: task_id.into(),
        progress: 0.5,
        ..v1::ReportProgressRequest::default()
    };
    let datum = v1::StreamTaskDataRequest {
        task_execution_id: task_id.into(),
        payload: "1".into(),
        ..v1::StreamTaskDataRequest::default()
    };
    let datum = client.call::<_, v1::StreamTaskDataResponse>("TaskExecution/StreamTaskData", datum).await;
    [
        client.call("TaskExecution/LogMessage", line).await,
        client.call("TaskExecution/ReportProgress", progress).await,
        datum.map(drop),
    ]
}

async fn messages_after_the_end_of_an_attempt_are_refused(server: TestServer) {
    let (client, other) = (Plain::of(&server), Plain::of(&server));
    let id = client.submit_task("mail").await;
    client.poll_task().await;
    assert!(tell(&client, &id).await.iter().all(Result::is_ok));
    client.fail_task(&id, "down").await.unwrap();
    let all_refused = |answers: [Result<(), Status>; 3]| {
        answers.into_iter().all(|answer| answer.is_err_and(|error| error.code() == Code::FailedPrecondition))
    };
    // The task waits for its next attempt.
    assert!(all_refused(tell(&client, &id).await));
    other.poll_task().await;
    other.complete_task(&id, json!(1)).await.unwrap();
    for stale in [&client, &other] {
        assert!(all_refused(tell(stale, &id).await));
    }
    // The line that was accepted is written by and by, although its claim ended first.
    let store = server.server.api().service().store().clone();
    let until = std::time::Instant::now() + super::client::DEADLINE;
    loop {
        let lines = store.task_log_page(TENANT, id.parse().unwrap(), 0, 100).await.unwrap();
        if lines.len() == 1 {
            break;
        }
        assert!(lines.is_empty() && std::time::Instant::now() < until, "{lines:?}");
    }
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
