//! Faults on busy streams: large work, overlapping connections, silence, and cancels and revocations at critical
//! moments.

use std::time::{Duration, Instant};

use flovyn_engine::request::RevokeWorkerToken;
use flovyn_proto::v1;
use flovyn_proto::v1::WorkflowStatus::Completed;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use flovyn_proto::v1::worker_stream_client::WorkerStreamClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use uuid::Uuid;

use super::app::{App, complete};
use super::worker::{KIND, PATIENCE, TASK, Worker, hello, signed};
use crate::common::{TENANT, TestServer, on_both};

on_both!(
    large_tasks_do_not_go_over_the_message_limit,
    large_activations_do_not_go_over_the_message_limit,
    a_session_that_comes_back_gets_the_work_and_not_its_old_connection,
    a_connection_without_hello_does_not_hold_up_the_stop,
    a_cancel_while_the_worker_was_away_is_told_when_it_comes_back,
    a_revoked_token_ends_its_streams,
    nobody_who_waits_misses_the_result,
);

/// Six of these do not fit into one message.
fn large() -> String {
    format!("\"{}\"", "x".repeat(900 << 10))
}

async fn submit_task(server: &TestServer, input: String) -> String {
    let mut tasks = TaskExecutionClient::new(server.channel());
    let submit = v1::SubmitTaskRequest {
        kind: TASK.into(),
        input: input.into(),
        max_retries: 1,
        ..v1::SubmitTaskRequest::default()
    };
    tasks.submit_task(signed(submit)).await.unwrap().into_inner().task_execution_id
}

async fn large_tasks_do_not_go_over_the_message_limit(server: TestServer) {
    for _ in 0..6 {
        submit_task(&server, large()).await;
    }
    let mut worker = Worker::with(&server, hello(Uuid::new_v4()), 0, 6).await.unwrap();
    for _ in 0..6 {
        let task = worker.task().await;
        assert_eq!(worker.complete_task(&task, "1").await.code, "");
    }
}

async fn large_activations_do_not_go_over_the_message_limit(server: TestServer) {
    let mut app = App::of(&server);
    for _ in 0..6 {
        let start = v1::StartWorkflowRequest {
            workflow_kind: KIND.into(),
            input: large().into(),
            ..v1::StartWorkflowRequest::default()
        };
        app.dispatch.start_workflow(signed(start)).await.unwrap();
    }
    let mut worker = Worker::with(&server, hello(Uuid::new_v4()), 6, 0).await.unwrap();
    for _ in 0..6 {
        let activation = worker.activation().await;
        assert_eq!(worker.submit(&activation, vec![complete("1")], Completed).await.code, "");
    }
}

async fn a_session_that_comes_back_gets_the_work_and_not_its_old_connection(server: TestServer) {
    let mut app = App::of(&server);
    let session = Uuid::new_v4();
    let mut old = Worker::with(&server, hello(session), 10, 10).await.unwrap();
    let mut new = Worker::with(&server, hello(session), 1, 0).await.unwrap();
    let id = app.start().await;
    assert_eq!(new.activation().await.id, id);
    while old.read().await {}
    assert_eq!(old.unread(), (0, 0));
}

async fn a_connection_without_hello_does_not_hold_up_the_stop(server: TestServer) {
    let (_outbound, frames) = mpsc::channel::<v1::WorkerFrame>(1);
    let mut client = WorkerStreamClient::new(server.channel());
    let mut inbound = client.connect(signed(ReceiverStream::new(frames))).await.unwrap().into_inner();
    let stopped = tokio::time::timeout(Duration::from_secs(5), server.server.stop());
    let (stopped, told) = tokio::join!(stopped, inbound.message());
    assert!(stopped.is_ok(), "the server waited for a silent client");
    assert_eq!(told.unwrap_err().code(), tonic::Code::Unavailable);
}

async fn a_cancel_while_the_worker_was_away_is_told_when_it_comes_back(server: TestServer) {
    let session = Uuid::new_v4();
    let mut worker = Worker::with(&server, hello(session), 0, 1).await.unwrap();
    let task_id = submit_task(&server, "1".into()).await;
    let task = worker.task().await;
    drop(worker);
    let mut tasks = TaskExecutionClient::new(server.channel());
    let cancel = v1::CancelTaskRequest { task_execution_id: task_id.clone() };
    tasks.cancel_task(signed(cancel)).await.unwrap();
    let held = v1::HeldClaim { id: task_id.clone(), claim_token: task.claim_token };
    let back = v1::StreamHello { held: vec![held], ..hello(session) };
    let mut worker = Worker::with(&server, back, 0, 0).await.unwrap();
    assert!(worker.welcome.lost.is_empty());
    assert_eq!(worker.cancel().await.task_execution_id, task_id);
}

async fn a_revoked_token_ends_its_streams(server: TestServer) {
    let mut worker = Worker::connect(&server).await;
    let api = server.server.api();
    let token_id = api.service().store().worker_token_list(TENANT).await.unwrap()[0].id;
    api.service().call(TENANT, RevokeWorkerToken { token_id }).await.unwrap();
    api.worker_tokens().forget_all();
    worker.send(v1::WorkerFrame { heartbeat: true, ..v1::WorkerFrame::default() }).await;
    assert!(!worker.read().await, "a stream continues without its credential");
}

async fn nobody_who_waits_misses_the_result(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let mut waiting = App::of(&server);
    for _ in 0..100 {
        let id = app.start().await;
        let activation = worker.activation().await;
        let began = Instant::now();
        let submitting = worker.submit(&activation, vec![complete("3")], Completed);
        let (result, _) = tokio::join!(waiting.result(&id), submitting);
        assert_eq!(result.status, "COMPLETED");
        assert!(began.elapsed() < PATIENCE / 2, "the change was missed");
    }
}
