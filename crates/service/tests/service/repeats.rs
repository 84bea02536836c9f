//! Requests that are sent again after their reply was lost: the log is the same as if they had been sent once.

use std::sync::Arc;

use flovyn_engine::ids::ExecutionId;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Op, Reply};
use flovyn_service::Caller;

use crate::common::{
    Fault, Faulty, Place, Server, TENANT, at_once, child, complete, dealt, fail, id, json, on_each_store,
    on_postgres, plain, schedule_task, start_timer, submit, suspend, task, workflows,
};

fn some_of_everything() -> Vec<Command> {
    vec![
        schedule_task(id(1), "work"),
        Command::RecordOperation { name: "step".into(), result: json("1") },
        start_timer("later", 60_000),
        Command::SetState { name: "state".into(), value: json("1") },
        Command::CreatePromise { name: "p".into(), timeout_ms: Some(60_000), key: None },
        Command::ScheduleChild(child(id(2), "child")),
    ]
}

/// Sends a request and cancels the call before the answer arrives.
async fn send_and_go_away(server: &Server, op: impl Into<Op>) {
    let mut call = Box::pin(server.call(TENANT, op.into()));
    let _sent = futures::poll!(&mut call);
    drop(call);
}

async fn kinds(server: &Server, id: ExecutionId) -> Vec<EventKind> {
    server.events(id).await.iter().map(|event| event.kind).collect()
}

fn is_repeated(reply: &Reply) -> bool {
    matches!(reply, Reply::Submitted { repeated: true, .. } | Reply::TaskReported { repeated: true, .. })
}

async fn a_batch_sent_again_after_its_reply_was_lost_leaves_the_log_as_it_was(place: Place) {
    let server = place.server().await;
    let execution_id = server.start("order").await;
    let batch = submit(&server.claim_workflow("order").await, some_of_everything(), Outcome::Suspended);
    send_and_go_away(&server, batch.clone()).await;
    let again = server.must(batch.clone()).await;
    assert!(is_repeated(&again), "{again:?}");
    let once = server.snapshot().await;
    assert_eq!(kinds(&server, execution_id).await.len(), 1 + some_of_everything().len());
    // Sent again after the execution has continued.
    server.must(batch.clone()).await;
    assert!(server.snapshot().await == once);
    let delivery = server.claim_task("work").await;
    server.must(complete(&delivery)).await;
    let second = server.claim_workflow("order").await;
    let before = server.snapshot().await;
    assert!(is_repeated(&server.must(batch).await));
    assert!(server.snapshot().await == before, "the current claim is unchanged");
    assert_eq!(server.stats().figures().repeated_reports, 3);
    server.must(suspend(&second)).await;
    server.check().await;
}

async fn a_batch_sent_by_many_at_once_is_applied_once(place: Place) {
    let servers = place.servers(2).await;
    let execution_id = servers[0].start("order").await;
    let batch = submit(&servers[0].claim_workflow("order").await, some_of_everything(), Outcome::Suspended);
    let answers = at_once(dealt(&servers, vec![batch; 6])).await;
    let replies: Vec<Reply> = answers.into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!(replies.iter().filter(|reply| !is_repeated(reply)).count(), 1, "{replies:?}");
    assert_eq!(kinds(&servers[0], execution_id).await.len(), 1 + some_of_everything().len());
    servers[0].check().await;
}

async fn a_batch_sent_again_after_an_unknown_commit_leaves_the_log_as_it_was(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.server_on(store.clone(), Limits::default());
    let execution_id = server.start("order").await;
    let batch = submit(&server.claim_workflow("order").await, some_of_everything(), Outcome::Suspended);
    store.next(&[Fault::LostBefore, Fault::LostAfter]);
    server.refused(batch.clone(), Code::OutcomeUnknown).await;
    assert_eq!(kinds(&server, execution_id).await.len(), 1, "nothing was written");
    server.refused(batch.clone(), Code::OutcomeUnknown).await;
    assert!(is_repeated(&server.must(batch).await));
    assert_eq!(kinds(&server, execution_id).await.len(), 1 + some_of_everything().len());
    server.check().await;
}

async fn a_report_of_a_task_sent_again_is_recognised(place: Place) {
    let server = place.server().await;
    let execution_id = server.suspended("order", vec![schedule_task(id(1), "work")]).await;
    let delivery = server.claim_task("work").await;
    send_and_go_away(&server, fail(&delivery)).await;
    assert!(is_repeated(&server.must(fail(&delivery)).await));
    assert_eq!(server.attempts(id(1)).await, [AttemptStatus::Failed]);
    server.pass(60_000).await;
    let delivery = server.claim_task("work").await;
    send_and_go_away(&server, complete(&delivery)).await;
    assert!(is_repeated(&server.must(complete(&delivery)).await));
    assert_eq!(server.count(execution_id, EventKind::TaskCompleted).await, 1);
    server.check().await;
}

/// A client of the public protocol, which is identified by its connection.
fn on_one_connection() -> Caller {
    let peer = Peer { credential: None, connection: Some(7), worker: None };
    Caller { peer: Some(Arc::new(peer)), ..TENANT.into() }
}

async fn claimed(server: &Server) -> flovyn_engine::reply::Activation {
    match server.call(on_one_connection(), plain(workflows("order"))).await.unwrap() {
        Reply::Claimed(mut claimed) => claimed.workflows.remove(0),
        other => panic!("{other:?}"),
    }
}

/// An execution that a plain client has claimed twice. It ran `some_of_everything` in the first claim.
async fn claimed_again_by_a_plain_client(server: &Server) -> flovyn_engine::reply::Activation {
    server.start("order").await;
    let first = claimed(server).await;
    let batch = submit(&first, some_of_everything(), Outcome::Suspended);
    server.call(on_one_connection(), batch).await.unwrap();
    server.must(crate::common::signal(first.execution.id)).await;
    claimed(server).await
}

async fn a_repeated_batch_without_token_is_acknowledged_and_queued_again(place: Place) {
    let server = place.server().await;
    let second = claimed_again_by_a_plain_client(&server).await;
    let execution_id = second.execution.id;
    let before = server.events(execution_id).await;
    let batch = submit(&second, some_of_everything(), Outcome::Suspended);
    let reply = server.call(on_one_connection(), batch).await.unwrap();
    assert_eq!(reply, Reply::Submitted { status: ExecutionStatus::Pending, repeated: true });
    assert!(server.events(execution_id).await == before);
    server.check().await;
    // The client receives the history that it lacked, and continues.
    let third = claimed(&server).await;
    server.call(on_one_connection(), suspend(&third)).await.unwrap();
    assert_eq!(server.status(execution_id).await, ExecutionStatus::Waiting);
}

async fn a_half_repeated_batch_without_token_is_refused_and_queued_again(place: Place) {
    let server = place.server().await;
    let second = claimed_again_by_a_plain_client(&server).await;
    let execution_id = second.execution.id;
    let before = server.events(execution_id).await;
    for known in [schedule_task(id(1), "work"), start_timer("later", 60_000), some_of_everything().remove(5)]
    {
        let mixed = vec![known, schedule_task(id(9), "work")];
        server.refused(submit(&second, mixed, Outcome::Suspended), Code::PartialRepeat).await;
        assert!(server.events(execution_id).await == before);
        assert_eq!(server.status(execution_id).await, ExecutionStatus::Pending, "queued again");
        server.check().await;
        server.claim(plain(workflows("order"))).await.workflows.remove(0);
    }
}

async fn a_start_sent_again_with_its_key_starts_nothing(place: Place) {
    let server = place.server().await;
    send_and_go_away(&server, crate::common::keyed("order", "key")).await;
    let again = server.start_as(crate::common::keyed("order", "key")).await;
    assert!(!again.key_new);
    let spec = TaskSpec { key: crate::common::key_spec("task"), ..task("work") };
    send_and_go_away(&server, CreateTask::standalone(spec.clone())).await;
    server.create_task(spec).await;
    let snapshot = server.check().await;
    assert_eq!((snapshot.executions.len(), snapshot.tasks.len()), (1, 1));
}

on_each_store!(
    a_batch_sent_again_after_its_reply_was_lost_leaves_the_log_as_it_was,
    a_batch_sent_by_many_at_once_is_applied_once,
    a_batch_sent_again_after_an_unknown_commit_leaves_the_log_as_it_was,
    a_report_of_a_task_sent_again_is_recognised,
    a_repeated_batch_without_token_is_acknowledged_and_queued_again,
    a_half_repeated_batch_without_token_is_refused_and_queued_again,
    a_start_sent_again_with_its_key_starts_nothing,
);
on_postgres!(a_batch_sent_by_many_at_once_is_applied_once);
