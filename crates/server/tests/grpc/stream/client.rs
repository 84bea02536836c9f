//! The client service.

use std::collections::BTreeSet;

use flovyn_proto::v1;
use flovyn_proto::v1::WorkflowStatus::Completed;
use tonic::Code;

use super::app::{App, complete};
use super::worker::{KIND, TASK, Worker, signed};
use crate::common::{TestServer, on_both};

on_both!(
    listing_pages_through_everything_once,
    a_bulk_start_is_all_or_nothing,
    tasks_in_bulk,
    waiting_ends_with_the_time_or_with_the_result,
    terminate_ends_at_once,
    a_traceparent_is_kept_and_handed_on,
);

fn start(kind: &str) -> v1::StartWorkflowRequest {
    v1::StartWorkflowRequest { workflow_kind: kind.into(), ..v1::StartWorkflowRequest::default() }
}

async fn listing_pages_through_everything_once(server: TestServer) {
    let mut app = App::of(&server);
    let mut items: Vec<_> = (0..7).map(|_| start(KIND)).collect();
    items[3].metadata.insert("customer".into(), "42".into());
    app.client.start_workflows(signed(v1::StartWorkflowsRequest { items })).await.unwrap();
    let mut seen = BTreeSet::new();
    let mut page_token = String::new();
    loop {
        let list =
            v1::ListExecutionsRequest { page_size: 3, page_token, ..v1::ListExecutionsRequest::default() };
        let page = app.client.list_executions(signed(list)).await.unwrap().into_inner();
        for execution in page.executions {
            assert!(seen.insert(execution.id));
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 7);
    let labelled = v1::ListExecutionsRequest {
        label_name: "customer".into(),
        label_value: "42".into(),
        ..v1::ListExecutionsRequest::default()
    };
    let found = app.client.list_executions(signed(labelled)).await.unwrap().into_inner().executions;
    assert_eq!(found.len(), 1);
    let whole = app.get(&found[0].id).await;
    assert_eq!(whole.labels.get("customer").map(String::as_str), Some("42"));
    assert_eq!(whole.waiting_on[0].kind, "NO_WORKER");
}

async fn a_bulk_start_is_all_or_nothing(server: TestServer) {
    let mut app = App::of(&server);
    let items = vec![start(KIND), start("")];
    let refused = app.client.start_workflows(signed(v1::StartWorkflowsRequest { items })).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("item 1"), "{}", refused.message());
    let none = app.client.list_executions(signed(v1::ListExecutionsRequest::default())).await.unwrap();
    assert!(none.into_inner().executions.is_empty());
}

async fn tasks_in_bulk(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let task = |n: i32| v1::SubmitTaskRequest {
        kind: TASK.into(),
        input: n.to_string().into(),
        ..v1::SubmitTaskRequest::default()
    };
    let items = (0..20).map(task).collect();
    let made = app.client.submit_tasks(signed(v1::SubmitTasksRequest { items })).await.unwrap().into_inner();
    assert_eq!(made.items.len(), 20);
    let mut done = BTreeSet::new();
    for _ in 0..20 {
        let task = worker.task().await;
        assert_eq!(worker.complete_task(&task, "null").await.code, "");
        done.insert(task.task_execution_id);
    }
    assert_eq!(done, made.items.into_iter().map(|item| item.task_execution_id).collect());
}

async fn waiting_ends_with_the_time_or_with_the_result(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let activation = worker.activation().await;
    let wait = v1::WaitForResultRequest { workflow_execution_id: id.clone(), timeout_ms: 1 };
    let unfinished = app.client.wait_for_result(signed(wait)).await.unwrap().into_inner();
    assert_eq!(unfinished.status, "RUNNING");
    let mut waiting = App::of(&server);
    let submitting = worker.submit(&activation, vec![complete("3")], Completed);
    let (result, _) = tokio::join!(waiting.result(&id), submitting);
    assert_eq!(result.output.as_deref(), Some(&b"3"[..]));
}

async fn terminate_ends_at_once(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let activation = worker.activation().await;
    let terminate =
        v1::TerminateExecutionRequest { workflow_execution_id: id.clone(), reason: "stop".into() };
    app.client.terminate_execution(signed(terminate)).await.unwrap();
    assert_eq!(app.result(&id).await.status, "CANCELLED");
    let ack = worker.submit(&activation, vec![complete("3")], Completed).await;
    assert!(!ack.code.is_empty() && !ack.retryable, "{ack:?}");
}

async fn a_traceparent_is_kept_and_handed_on(server: TestServer) {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let mut request = signed(start(KIND));
    request.metadata_mut().insert("traceparent", PARENT.parse().unwrap());
    let id = app.dispatch.start_workflow(request).await.unwrap().into_inner().workflow_execution_id;
    assert_eq!(app.get(&id).await.traceparent.as_deref(), Some(PARENT));
    let activation = worker.activation().await;
    let task = super::app::schedule_task(uuid::Uuid::new_v4(), 1);
    worker.submit(&activation, vec![task], v1::WorkflowStatus::Suspended).await;
    assert_eq!(worker.task().await.traceparent, PARENT);
}
