//! Starts that are written together with their first step. The scheduler's own tests show that the next start of a
//! slow kind is written first; here that would depend on the speed of the machine.

use std::time::Duration;

use flovyn_engine::reply::{Activation, Started};
use flovyn_engine::request::*;
use flovyn_engine::state::ExecutionStatus;
use flovyn_engine::{Code, Refusal, Reply};
use flovyn_service::{Options, Outcome as End, loops};
use tokio::task::JoinHandle;

use crate::common::{
    Fault, Faulty, LONG, Place, Server, TENANT, answered, json, many, on_each_store, on_postgres, submit,
    task, tasks, until, workflow, workflows,
};

const SHORT: Duration = Duration::from_millis(1);

async fn server(place: &Place, first_step_within: Duration) -> Server {
    place.start(place.store().await, options(first_step_within))
}

fn options(first_step_within: Duration) -> Options {
    let loops = loops::Options { enabled: false, ..loops::Options::default() };
    Options { first_step_within, loops, ..Options::default() }
}

fn provisional(kind: &str) -> Claim {
    Claim { provisional: true, ..workflows(kind) }
}

type Starting = JoinHandle<Result<Reply, Refusal>>;

/// A start that was handed to a worker and is not written yet.
async fn handed(server: &Server, start: StartWorkflow) -> (Starting, Activation) {
    let poll = server.poll(provisional(&start.kind)).await;
    let caller = server.clone();
    let starting = tokio::spawn(async move { caller.ask(start).await });
    let activation = answered(poll).await.workflows.remove(0);
    assert!(activation.provisional);
    (starting, activation)
}

async fn started(starting: Starting) -> Started {
    until("the start is answered", || starting.is_finished()).await;
    match starting.await.unwrap() {
        Ok(Reply::Started(started)) => started,
        other => panic!("{other:?}"),
    }
}

fn completed(activation: &Activation) -> SubmitActivation {
    submit(activation, Vec::new(), Outcome::Completed { output: json("2") })
}

async fn a_start_and_its_first_step_are_one_commit(place: Place) {
    let server = server(&place, LONG).await;
    let before = server.stats().figures().commits;
    let (starting, activation) = handed(&server, workflow("quick")).await;
    let sent = activation.new_events.clone().unwrap();
    assert!(server.snapshot().await.executions.is_empty(), "nothing is written");
    assert!(!starting.is_finished(), "no caller is answered");
    // The activation that the worker received stays true, whenever it is written.
    server.move_clock(5_000);
    server.must(completed(&activation)).await;
    assert_eq!(started(starting).await.execution_id, activation.execution.id);
    assert_eq!(server.stats().figures().commits, before + 1);
    let snapshot = server.check().await;
    let execution = &snapshot.executions[0];
    assert_eq!(execution.status, ExecutionStatus::Completed);
    assert_eq!(
        (execution.id, execution.created_ms),
        (activation.execution.id, activation.execution.created_ms)
    );
    assert_eq!(snapshot.events[0], sent[0].0);
    assert!(snapshot.due.is_empty() && snapshot.ready.is_empty());
}

async fn its_end_is_told_once(place: Place) {
    let server = server(&place, LONG).await;
    let poll = server.poll(provisional("quick")).await;
    let mut follower = server.follower(TENANT);
    let starter = follower.starter();
    let starting = tokio::spawn(async move { starter.start(workflow("quick")).await });
    let activation = answered(poll).await.workflows.remove(0);
    server.must(completed(&activation)).await;
    started(starting).await;
    let ended = follower.next().await;
    assert_eq!((ended.execution_id, ended.outcome), (activation.execution.id, End::Completed(json("2"))));
    assert_eq!(follower.try_next(), None);
}

async fn a_first_step_that_is_late_is_not_waited_for(place: Place) {
    let server = server(&place, SHORT).await;
    let (starting, activation) = handed(&server, workflow("slow")).await;
    assert_eq!(started(starting).await.execution_id, activation.execution.id);
    assert_eq!(server.check().await.executions[0].status, ExecutionStatus::Running);
    server.must(completed(&activation)).await;
    let snapshot = server.check().await;
    assert_eq!(snapshot.executions[0].status, ExecutionStatus::Completed);
}

async fn what_is_given_back_is_handed_out_once_it_is_written(place: Place) {
    let server = server(&place, LONG).await;
    let (starting, activation) = handed(&server, workflow("acts")).await;
    let (execution_id, token) = (activation.execution.id, activation.token);
    server.must(ReleaseWorkflowClaim { execution_id, token }).await;
    assert_eq!(started(starting).await.execution_id, execution_id);
    let again = server.claim_workflow("acts").await;
    assert_eq!((again.execution.id, again.token, again.provisional), (execution_id, token + 1, false));
    server.refused(completed(&activation), Code::StaleClaim).await;
    server.check().await;
}

async fn whoever_does_not_know_of_it_gets_what_is_written(place: Place) {
    let server = server(&place, LONG).await;
    let poll = server.poll(workflows("quick")).await;
    let id = server.start("quick").await;
    let activation = answered(poll).await.workflows.remove(0);
    assert_eq!((activation.execution.id, activation.provisional), (id, false));
    server.check().await;
}

async fn a_start_for_later_does_not_wait(place: Place) {
    let server = server(&place, LONG).await;
    let poll = server.poll(provisional("quick")).await;
    let scheduled_ms = Some(server.store().now().await.unwrap().ms + 60_000);
    server.start_as(StartWorkflow { scheduled_ms, ..workflow("quick") }).await;
    assert!(!poll.is_finished());
    server.check().await;
}

async fn whatever_else_is_written_takes_it_along(place: Place) {
    let server = server(&place, LONG).await;
    let before = server.stats().figures().commits;
    let (starting, activation) = handed(&server, workflow("quick")).await;
    server.create_task(task("other")).await;
    started(starting).await;
    assert_eq!(server.stats().figures().commits, before + 1);
    server.must(completed(&activation)).await;
    assert_eq!(server.check().await.executions[0].status, ExecutionStatus::Completed);
}

async fn a_server_that_stops_writes_it(place: Place) {
    let server = server(&place, LONG).await;
    let (starting, activation) = handed(&server, workflow("quick")).await;
    server.stop().await;
    assert_eq!(started(starting).await.execution_id, activation.execution.id);
    let snapshot = server.check().await;
    assert_eq!(snapshot.executions[0].status, ExecutionStatus::Running);
}

/// For example if the disk is full: the activation that the worker received never took effect.
async fn what_cannot_be_written_never_started(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.start(store.clone(), options(LONG));
    let (starting, activation) = handed(&server, workflow("quick")).await;
    store.next(&[Fault::Unavailable]);
    server.refused(completed(&activation), Code::StoreUnavailable).await;
    assert_eq!(starting.await.unwrap().unwrap_err().code, Code::StoreUnavailable);
    assert!(server.check().await.executions.is_empty());
    server.refused(completed(&activation), Code::ExecutionNotFound).await;
}

/// After a conflict it is decided again, with the same outcome.
async fn a_conflict_changes_nothing(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.start(store.clone(), options(LONG));
    let (starting, activation) = handed(&server, workflow("quick")).await;
    store.next(&[Fault::Conflict]);
    server.must(completed(&activation)).await;
    assert_eq!(started(starting).await.execution_id, activation.execution.id);
    assert_eq!(server.check().await.executions[0].status, ExecutionStatus::Completed);
}

/// A batch that is refused again is halved. The started execution still belongs to its worker.
async fn cut_from_its_step_it_is_still_its_workers(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.start(store.clone(), options(LONG));
    let (starting, activation) = handed(&server, workflow("quick")).await;
    store.next(&[Fault::Conflict, Fault::Conflict]);
    server.must(completed(&activation)).await;
    assert_eq!(started(starting).await.execution_id, activation.execution.id);
    assert_eq!(server.check().await.executions[0].status, ExecutionStatus::Completed);
}

/// Each start has its own claim, even if one worker takes both.
async fn two_starts_go_to_one_worker(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.start(store.clone(), options(LONG));
    let poll = server.poll(many(provisional("quick"), 2)).await;
    store.hold();
    let other = server.clone();
    let other = tokio::spawn(async move { other.claim(tasks("nothing")).await });
    until("a batch is in flight", || store.waiting() == 1).await;
    // Both wait for that batch, and become the next batch.
    let mut starting = [1, 2].map(|_| Box::pin(server.call(TENANT, workflow("quick"))));
    for start in &mut starting {
        assert!(futures::poll!(start).is_pending());
    }
    store.release();
    other.await.unwrap();
    let activations = answered(poll).await.workflows;
    assert!(activations.len() == 2 && activations.iter().all(|activation| activation.provisional));
    let before = server.stats().figures().commits;
    server.must(completed(&activations[1])).await;
    assert_eq!(server.stats().figures().commits, before + 1);
    let answers = futures::future::join_all(starting).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Reply::Started(_)))), "{answers:?}");
    server.must(completed(&activations[0])).await;
    let snapshot = server.check().await;
    assert!(snapshot.executions.iter().all(|execution| execution.status == ExecutionStatus::Completed));
}

/// If other processes write to the database, no worker receives an execution whose start is not written.
async fn with_other_processes_a_start_is_written_first(place: Place) {
    let server = server(&place, LONG).await;
    let poll = server.poll(provisional("quick")).await;
    let id = server.start("quick").await;
    let activation = answered(poll).await.workflows.remove(0);
    assert_eq!((activation.execution.id, activation.provisional), (id, false));
}

on_each_store!(
    a_start_and_its_first_step_are_one_commit,
    its_end_is_told_once,
    a_first_step_that_is_late_is_not_waited_for,
    what_is_given_back_is_handed_out_once_it_is_written,
    whoever_does_not_know_of_it_gets_what_is_written,
    a_start_for_later_does_not_wait,
    whatever_else_is_written_takes_it_along,
    a_server_that_stops_writes_it,
    what_cannot_be_written_never_started,
    a_conflict_changes_nothing,
    cut_from_its_step_it_is_still_its_workers,
    two_starts_go_to_one_worker,
);
on_postgres!(with_other_processes_a_start_is_written_first);
