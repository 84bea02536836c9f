//! Sessions: credit, fencing, reconnects, cancel notices, drain.

use flovyn_proto::v1;
use flovyn_proto::v1::WorkflowStatus::{Completed, Suspended};
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use uuid::Uuid;

use super::app::{App, complete, schedule_task};
use super::worker::{TASK, Worker, hello, signed};
use crate::common::{TestServer, on_both};

on_both!(
    no_more_is_pushed_than_there_is_credit,
    a_stale_token_is_refused_and_a_repeated_result_recognised,
    goodbye_releases_at_once,
    a_session_that_comes_back_keeps_what_it_names,
    a_session_that_does_not_come_back_loses_its_claims,
    a_running_task_is_told_to_stop,
    the_last_session_is_preferred,
    a_restart_of_the_server_burns_no_attempt,
    what_was_lost_in_a_restart_is_released_although_the_worker_lives,
    a_long_history_comes_in_pages,
);

async fn submit_task(server: &TestServer, max_retries: i32) -> String {
    let mut tasks = TaskExecutionClient::new(server.channel());
    let submit = v1::SubmitTaskRequest {
        kind: TASK.into(),
        input: "1".into(),
        max_retries,
        ..v1::SubmitTaskRequest::default()
    };
    tasks.submit_task(signed(submit)).await.unwrap().into_inner().task_execution_id
}

async fn task_info(app: &mut App, id: &str) -> v1::TaskInfo {
    let get = v1::GetTaskRequest { task_execution_id: id.into() };
    app.client.get_task(signed(get)).await.unwrap().into_inner()
}

async fn no_more_is_pushed_than_there_is_credit(server: TestServer) {
    let mut app = App::of(&server);
    for _ in 0..5 {
        app.start().await;
    }
    let mut worker = Worker::with(&server, hello(Uuid::new_v4()), 2, 0).await.unwrap();
    let mut running = vec![worker.activation().await, worker.activation().await];
    // After a round trip through the same stream: anything else would have been pushed before the answer.
    let done = running.pop().unwrap();
    let submit = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: done.id.clone(),
        commands: vec![complete("1")],
        status: Completed.into(),
        claim_token: Some(done.claim_token),
        base_sequence: Some(1),
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    let mut dispatch = app.dispatch.clone();
    dispatch.submit_workflow_commands(signed(submit)).await.unwrap();
    worker.grant(0, 0).await;
    assert_eq!(worker.unread(), (0, 0));
    let pending =
        v1::ListExecutionsRequest { status: "PENDING".into(), ..v1::ListExecutionsRequest::default() };
    let left = app.client.list_executions(signed(pending)).await.unwrap().into_inner();
    assert_eq!(left.executions.len(), 3);
    worker.grant(3, 0).await;
    for _ in 0..3 {
        running.push(worker.activation().await);
    }
    let ids: std::collections::BTreeSet<_> = running.iter().map(|activation| &activation.id).collect();
    assert_eq!(ids.len(), 4);
}

async fn a_stale_token_is_refused_and_a_repeated_result_recognised(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let activation = worker.activation().await;
    let stale = v1::WorkflowExecution { claim_token: activation.claim_token + 1, ..activation.clone() };
    let ack = worker.submit(&stale, vec![complete("0")], Completed).await;
    assert_eq!((ack.code.as_str(), ack.retryable), ("FLV0050", false));
    let ack = worker.submit(&activation, vec![complete("1")], Completed).await;
    assert_eq!((ack.code.as_str(), ack.repeated_result), ("", false));
    let ack = worker.submit(&activation, vec![complete("1")], Completed).await;
    assert_eq!((ack.code.as_str(), ack.repeated_result), ("", true));
    assert_eq!(app.result(&id).await.output.as_deref(), Some(&b"1"[..]));
}

async fn goodbye_releases_at_once(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let task_id = submit_task(&server, 3).await;
    assert_eq!(worker.activation().await.id, id);
    assert_eq!(worker.task().await.task_execution_id, task_id);
    worker.goodbye().await;
    let mut other = Worker::connect(&server).await;
    assert_eq!(other.activation().await.id, id);
    // An orderly end: the attempt was not begun and does not count.
    assert_eq!(other.task().await.execution_count, 1);
}

async fn a_session_that_comes_back_keeps_what_it_names(server: TestServer) {
    let mut app = App::of(&server);
    let session = Uuid::new_v4();
    let mut worker = Worker::with(&server, hello(session), 10, 10).await.unwrap();
    let (kept, forgotten) = (app.start().await, app.start().await);
    let mut claims = [worker.activation().await, worker.activation().await];
    claims.sort_by_key(|activation| activation.id != kept);
    drop(worker);
    let held = v1::HeldClaim { id: kept.clone(), claim_token: claims[0].claim_token };
    let gone = v1::HeldClaim { id: Uuid::new_v4().to_string(), claim_token: 1 };
    let back = v1::StreamHello { held: vec![held, gone.clone()], ..hello(session) };
    let mut worker = Worker::with(&server, back, 0, 0).await.unwrap();
    assert_eq!(worker.welcome.lost, [gone.id]);
    // Claims that it did not name are free for others; claims that it named are still its own.
    let mut other = Worker::connect(&server).await;
    let taken = other.activation().await;
    assert_eq!(taken.id, forgotten);
    assert_eq!(worker.submit(&claims[0], vec![complete("1")], Completed).await.code, "");
    assert_eq!(worker.submit(&claims[1], vec![complete("1")], Completed).await.code, "FLV0050");
    assert_eq!(app.result(&kept).await.status, "COMPLETED");
    assert_eq!(other.submit(&taken, vec![complete("2")], Completed).await.code, "");
}

async fn a_session_that_does_not_come_back_loses_its_claims(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let task_id = submit_task(&server, 3).await;
    worker.activation().await;
    worker.task().await;
    drop(worker);
    let mut other = Worker::connect(&server).await;
    assert_eq!(other.activation().await.id, id);
    let task = other.task().await;
    // The attempt was delivered, so it counts.
    assert_eq!((task.task_execution_id.as_str(), task.execution_count), (task_id.as_str(), 2));
}

async fn a_running_task_is_told_to_stop(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let task_id = submit_task(&server, 3).await;
    let task = worker.task().await;
    let mut tasks = TaskExecutionClient::new(server.channel());
    let cancel = v1::CancelTaskRequest { task_execution_id: task_id.clone() };
    tasks.cancel_task(signed(cancel)).await.unwrap();
    let notice = worker.cancel().await;
    assert_eq!((&notice.task_execution_id, notice.claim_token), (&task_id, task.claim_token));
    worker.fail_task(&task, "stopped").await;
    assert_eq!(task_info(&mut app, &task_id).await.status, "CANCELLED");
}

async fn the_last_session_is_preferred(server: TestServer) {
    let mut app = App::of(&server);
    let mut owner = Worker::connect(&server).await;
    let id = app.start().await;
    let mut activation = owner.activation().await;
    // This worker has waited longer than the owner's next claim, so it would be served first without the preference.
    let bystander = Worker::connect(&server).await;
    for number in 0..5 {
        assert_eq!(owner.submit(&activation, Vec::new(), Suspended).await.code, "");
        app.signal(&id, "next", &number.to_string()).await;
        activation = owner.activation().await;
        assert_eq!(activation.id, id);
    }
    assert_eq!(bystander.unread(), (0, 0));
}

async fn a_restart_of_the_server_burns_no_attempt(server: TestServer) {
    let session = Uuid::new_v4();
    let mut worker = Worker::with(&server, hello(session), 10, 10).await.unwrap();
    let task_id = submit_task(&server, 1).await;
    let task = worker.task().await;
    let restarted = tokio::join!(server.restart(), worker.drain()).0;
    let held = v1::HeldClaim { id: task_id.clone(), claim_token: task.claim_token };
    let back = v1::StreamHello { held: vec![held], ..hello(session) };
    let mut worker = Worker::with(&restarted, back, 0, 0).await.unwrap();
    assert!(worker.welcome.lost.is_empty());
    assert_eq!(worker.complete_task(&task, "1").await.code, "");
    let info = task_info(&mut App::of(&restarted), &task_id).await;
    assert_eq!((info.status.as_str(), info.execution_count), ("COMPLETED", 1));
}

async fn what_was_lost_in_a_restart_is_released_although_the_worker_lives(server: TestServer) {
    let session = Uuid::new_v4();
    let mut worker = Worker::with(&server, hello(session), 10, 10).await.unwrap();
    let id = App::of(&server).start().await;
    let task_id = submit_task(&server, 3).await;
    worker.activation().await;
    worker.task().await;
    let restarted = tokio::join!(server.restart(), worker.drain()).0;
    // The worker reconnects and names no claims, because it never received any.
    let mut worker = Worker::with(&restarted, hello(session), 10, 10).await.unwrap();
    assert_eq!(worker.activation().await.id, id);
    let task = worker.task().await;
    assert_eq!((task.task_execution_id, task.execution_count), (task_id, 2));
}

async fn a_long_history_comes_in_pages(server: TestServer) {
    let mut app = App::of(&server);
    let id = app.start().await;
    for number in 0..600 {
        app.signal(&id, "tick", &number.to_string()).await;
    }
    let mut worker = Worker::connect(&server).await;
    let activation = worker.activation().await;
    assert!(activation.more_events);
    assert_eq!(activation.events.len(), 500);
    let all = app.events(&id).await;
    assert_eq!(all.len(), 601);
    let task = schedule_task(Uuid::new_v4(), 1);
    let submit = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.clone(),
        commands: vec![task],
        status: Suspended.into(),
        claim_token: Some(activation.claim_token),
        base_sequence: Some(601),
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    assert_eq!(worker.submit_raw(submit).await.code, "");
    assert_eq!(app.get(&id).await.status, "WAITING");
}
