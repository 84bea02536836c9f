//! Results of clients without tokens that arrive after their claim was lost. A success is accepted if that is safe.
//! There is one test for each other rule that applies.

use std::sync::Arc;
use std::time::Duration;

use flovyn_engine::reply::Claimed;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Op, Reply};
use flovyn_service::{Caller, Service};

use crate::common::{
    Place, Server, TENANT, complete, fail, id, on_each_store, on_postgres, plain, schedule_task, task, tasks,
    workflows,
};

/// A client that is identified by its connection.
fn by(connection: i64) -> Caller {
    let peer = Peer { credential: Some(1), connection: Some(connection), worker: None };
    Caller { peer: Some(Arc::new(peer)), ..TENANT.into() }
}

/// Short enough to expire while a database's clock runs.
fn short() -> Limits {
    Limits { task_lease_ms: 50, workflow_lease_ms: 50, ..Limits::default() }
}

async fn claim(server: &Server, connection: i64, claim: Claim) -> Claimed {
    Service::poll(server, by(connection), claim, Duration::ZERO).await.unwrap()
}

const OWN: i64 = 1;
const OTHER: i64 = 2;

/// Claims the task on this connection and loses the claim. Returns its success and its failure, both without a token.
async fn lose(server: &Server, connection: i64) -> (Op, Op) {
    let delivery = claim(server, connection, plain(tasks("work"))).await.tasks.remove(0);
    server.pass(server.limits().task_lease_ms).await;
    let success = CompleteTask { token: None, ..complete(&delivery) };
    let failure = FailTask { token: None, ..fail(&delivery) };
    (success.into(), failure.into())
}

async fn report(server: &Server, connection: i64, op: &Op) -> Result<Reply, Code> {
    server.call(by(connection), op.clone()).await.map_err(|refusal| refusal.code)
}

fn is_new(reply: &Result<Reply, Code>) -> bool {
    matches!(reply, Ok(Reply::TaskReported { status: TaskStatus::Completed, repeated: false }))
}

async fn it_is_taken_while_the_next_attempt_waits(place: Place) {
    let server = place.server_with(short()).await;
    let execution_id = server.suspended("order", vec![schedule_task(id(1), "work")]).await;
    let (success, failure) = lose(&server, OWN).await;
    assert_eq!(server.attempts(id(1)).await, [AttemptStatus::Timeout]);
    // The attempt has already been counted as a failure.
    assert_eq!(report(&server, OWN, &failure).await, Err(Code::StaleClaim));
    // The connection does not matter, because no other client has ever claimed the task.
    assert!(is_new(&report(&server, OTHER, &success).await));
    assert_eq!(server.attempts(id(1)).await, [AttemptStatus::Completed]);
    assert_eq!(server.count(execution_id, EventKind::TaskCompleted).await, 1);
    assert!(server.claim(tasks("work")).await.is_empty(), "there is no next attempt");
    // It has an effect only once.
    let again = report(&server, OWN, &success).await;
    assert!(matches!(again, Ok(Reply::TaskReported { repeated: true, .. })), "{again:?}");
    assert_eq!(report(&server, OWN, &failure).await, Err(Code::StaleClaim));
    server.check().await;
}

async fn it_is_taken_while_the_next_attempt_waits_for_its_time(place: Place) {
    let server = place.server_with(short()).await;
    let spec = TaskSpec { start_to_close_ms: Some(5_000), retry: long_delay(), ..task("work") };
    let task_id = server.create_task(spec).await;
    let claimed = claim(&server, OWN, plain(tasks("work"))).await;
    let success = CompleteTask { token: None, ..complete(&claimed.tasks[0]) };
    server.pass(5_000).await;
    assert!(server.task(task_id).await.status == TaskStatus::Pending);
    assert!(is_new(&report(&server, OWN, &success.into()).await));
    server.pass(10_000_000).await;
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Completed]);
    server.check().await;
}

fn long_delay() -> Option<RetryPolicy> {
    Some(RetryPolicy { initial_ms: 1_000_000, cap_ms: 1_000_000, ..RetryPolicy::default() })
}

/// The second worker's result counts, whichever arrives first.
async fn it_is_refused_once_somebody_has_claimed_the_task(place: Place) {
    let server = place.server_with(short()).await;
    let task_id = server.create_task(task("work")).await;
    let (success, _) = lose(&server, OWN).await;
    let second = claim(&server, OTHER, plain(tasks("work"))).await;
    assert_eq!(report(&server, OWN, &success).await, Err(Code::StaleClaim));
    // Also if that claim was lost as well, because nothing shows whose result it is.
    server.pass(server.limits().task_lease_ms).await;
    assert_eq!(report(&server, OWN, &success).await, Err(Code::StaleClaim));
    let second = CompleteTask { token: None, ..complete(&second.tasks[0]) };
    assert!(is_new(&report(&server, OTHER, &second.into()).await));
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Timeout, AttemptStatus::Completed]);
    server.check().await;
}

async fn it_is_refused_when_the_next_attempt_has_failed(place: Place) {
    let server = place.server_with(short()).await;
    let spec = TaskSpec { retry: long_delay(), ..task("work") };
    let task_id = server.create_task(spec).await;
    let (success, _) = lose(&server, OWN).await;
    let second = claim(&server, OTHER, plain(tasks("work"))).await;
    let failed = FailTask { token: None, ..fail(&second.tasks[0]) };
    report(&server, OTHER, &failed.into()).await.unwrap();
    assert_eq!(report(&server, OWN, &success).await, Err(Code::StaleClaim));
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Timeout, AttemptStatus::Failed]);
    server.check().await;
}

async fn it_is_refused_when_the_lost_attempt_was_the_last(place: Place) {
    let server = place.server_with(short()).await;
    let task_id = server.create_task(TaskSpec { max_retries: Some(1), ..task("work") }).await;
    let (success, _) = lose(&server, OWN).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Failed);
    assert_eq!(report(&server, OWN, &success).await, Err(Code::StaleClaim));
    server.check().await;
}

async fn it_is_refused_when_the_task_was_cancelled(place: Place) {
    let server = place.server_with(short()).await;
    let task_id = server.create_task(task("work")).await;
    let (success, _) = lose(&server, OWN).await;
    server.must(CancelTask { task_id, cooperative: false }).await;
    assert_eq!(report(&server, OWN, &success).await, Err(Code::StaleClaim));
    assert_eq!(server.task(task_id).await.status, TaskStatus::Cancelled);
    server.check().await;
}

async fn it_is_refused_when_the_workflow_has_ended(place: Place) {
    let server = place.server_with(short()).await;
    let execution_id = server.suspended("order", vec![schedule_task(id(1), "work")]).await;
    let (success, _) = lose(&server, OWN).await;
    server.must(TerminateWorkflow { execution_id, reason: "enough".into() }).await;
    assert_eq!(report(&server, OWN, &success).await, Err(Code::ExecutionFinished));
    server.fire_due().await;
    assert_eq!(report(&server, OWN, &success).await, Err(Code::StaleClaim));
    server.check().await;
}

/// A claim that never reached its worker does not identify a client.
async fn it_is_refused_after_a_claim_that_was_given_back(place: Place) {
    let server = place.server_with(short()).await;
    let task_id = server.create_task(task("work")).await;
    let (success, _) = lose(&server, OWN).await;
    let second = claim(&server, OTHER, plain(tasks("work"))).await;
    server.must(ReleaseTaskClaim { task_id, token: second.tasks[0].token }).await;
    assert_eq!(report(&server, OWN, &success).await, Err(Code::StaleClaim));
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Timeout]);
    server.check().await;
}

/// A late activation is never accepted: the step runs again on the current history.
async fn a_late_step_is_refused(place: Place) {
    let server = place.server_with(short()).await;
    server.start("order").await;
    let claimed = claim(&server, OWN, plain(workflows("order"))).await.workflows.remove(0);
    server.pass(server.limits().workflow_lease_ms).await;
    let step = SubmitActivation {
        execution_id: claimed.execution.id,
        token: None,
        base_sequence: None,
        commands: vec![],
        outcome: Outcome::Completed { output: Default::default() },
        unread_signals: 0,
        clean_up: None,
        first_number: None,
        build_id: None,
    };
    assert_eq!(report(&server, OWN, &step.into()).await, Err(Code::StaleClaim));
    server.check().await;
}

/// Two workers report on one connection, behind a proxy, and each names itself.
async fn a_heartbeat_of_another_worker_is_not_answered_from_memory(place: Place) {
    let server = place.server().await;
    server.create_task(task("work")).await;
    let named = |connection, worker: &str| {
        let peer = Peer { credential: Some(1), connection, worker: Some(worker.into()) };
        Caller { peer: Some(Arc::new(peer)), ..TENANT.into() }
    };
    let mut asked = plain(tasks("work"));
    asked.claimer.worker = "b".into();
    let claimed = Service::poll(&server, named(Some(OWN), "b"), asked, Duration::ZERO).await.unwrap();
    let heartbeat = HeartbeatTask { task_id: claimed.tasks[0].task.id, token: None, details: None };
    for _ in 0..2 {
        assert!(!server.heartbeat(named(Some(OWN), "b"), heartbeat.clone()).await.unwrap());
        let refused = server.heartbeat(named(Some(OWN), "a"), heartbeat.clone()).await.unwrap_err();
        assert_eq!(refused.code, Code::StaleClaim);
    }
    // Without a connection, both senders may be the same, so each heartbeat is judged.
    server.heartbeat(named(None, "b"), heartbeat.clone()).await.unwrap();
    server.must(complete(&claimed.tasks[0])).await;
    let refused = server.heartbeat(named(None, "b"), heartbeat.clone()).await.unwrap_err();
    assert_eq!(refused.code, Code::StaleClaim);
}

on_each_store!(
    a_heartbeat_of_another_worker_is_not_answered_from_memory,
    it_is_taken_while_the_next_attempt_waits,
    it_is_taken_while_the_next_attempt_waits_for_its_time,
    it_is_refused_once_somebody_has_claimed_the_task,
    it_is_refused_when_the_next_attempt_has_failed,
    it_is_refused_when_the_lost_attempt_was_the_last,
    it_is_refused_when_the_task_was_cancelled,
    it_is_refused_when_the_workflow_has_ended,
    it_is_refused_after_a_claim_that_was_given_back,
    a_late_step_is_refused,
);
on_postgres!(
    it_is_taken_while_the_next_attempt_waits,
    it_is_refused_once_somebody_has_claimed_the_task,
    it_is_refused_when_the_workflow_has_ended,
);
