//! Fencing: a claim is ended only by its token, or, if a plain client made it, by a plain client.

use flovyn_engine::Code;
use flovyn_engine::request::*;
use flovyn_engine::state::*;

use crate::world::{World, claim, complete, done, json, plain_claim, schedule_task, submit};

fn fail(task_id: uuid::Uuid, token: Option<i64>) -> FailTask {
    let failure = Failure::default();
    FailTask { task_id, token, error: "no".into(), failure, non_retryable: false, next_delay_ms: None }
}

#[test]
fn a_token_that_nobody_was_given_is_refused() {
    let mut world = World::new();
    world.start("parent");
    let activation = world.claim_workflow("parent");
    let task_id = world.create_task("sort");
    let delivery = world.claim_task("sort");
    for token in [i64::MIN, -1, 0, activation.token + 1, i64::MAX] {
        let forged = SubmitActivation {
            token: Some(token),
            ..submit(&activation, vec![schedule_task(1, "x")], Outcome::Suspended)
        };
        world.refused(forged, Code::StaleClaim);
        world.refused(CompleteTask { token: Some(token), ..complete(&delivery) }, Code::StaleClaim);
        world.refused(fail(task_id, Some(token)), Code::StaleClaim);
        world.refused(HeartbeatTask { task_id, token: Some(token), details: None }, Code::StaleClaim);
        world.refused(ReleaseTaskClaim { task_id, token }, Code::StaleClaim);
        world
            .refused(ReleaseWorkflowClaim { execution_id: activation.execution.id, token }, Code::StaleClaim);
    }
}

#[test]
fn a_plain_client_whose_claim_went_to_a_worker_on_the_stream_cannot_end_it() {
    let mut world = World::new();
    let execution_id = world.start("parent");
    let plain = world.claim(plain_claim(WorkClass::Workflow, "parent")).workflows.remove(0);
    world.advance(world.limits.workflow_lease_ms);
    world.fire_all();
    let second = world.claim_workflow("parent");
    world.refused(submit(&plain, vec![schedule_task(1, "x")], Outcome::Suspended), Code::StaleClaim);
    world.must(submit(&second, vec![schedule_task(2, "x")], Outcome::Suspended));
    assert_eq!(world.execution(execution_id).status, ExecutionStatus::Waiting);
}

#[test]
fn a_plain_client_whose_task_went_to_a_worker_on_the_stream_cannot_end_it() {
    let mut world = World::new();
    let task_id = world.create_task("sort");
    world.claim(plain_claim(WorkClass::Task, "sort"));
    world.advance(world.limits.task_lease_ms);
    world.fire_all();
    let second = world.claim_task("sort");
    world.refused(CompleteTask { task_id, token: None, output: json("1"), next: None }, Code::StaleClaim);
    world.must(complete(&second));
}

#[test]
fn without_a_token_nothing_is_accepted_unless_it_runs() {
    let mut world = World::new();
    let execution_id = world.start("parent");
    let task_id = world.create_task("sort");
    let activation = SubmitActivation {
        execution_id,
        token: None,
        base_sequence: None,
        commands: Vec::new(),
        outcome: Outcome::Suspended,
        unread_signals: 0,
        first_number: None,
        build_id: None,
        clean_up: None,
    };
    world.refused(activation.clone(), Code::StaleClaim);
    world.refused(CompleteTask { task_id, token: None, output: json("1"), next: None }, Code::StaleClaim);
    world.claim(plain_claim(WorkClass::Workflow, "parent"));
    world.claim(plain_claim(WorkClass::Task, "sort"));
    world.must(activation.clone());
    world.must(CompleteTask { task_id, token: None, output: json("1"), next: None });
    let other = SubmitActivation { outcome: done(), ..activation.clone() };
    assert_eq!(world.ask(other).unwrap_err().code, Code::StaleClaim);
    assert_eq!(
        world.execution(execution_id).status,
        ExecutionStatus::Pending,
        "it may have been asked in vain"
    );
    world.refused(CompleteTask { task_id, token: None, output: json("2"), next: None }, Code::StaleClaim);
}

#[test]
fn an_end_that_crosses_an_older_report_of_its_own_client_is_asked_for_again() {
    let mut world = World::new();
    let execution_id = world.start("parent");
    let nothing = SubmitActivation {
        execution_id,
        token: None,
        base_sequence: None,
        commands: Vec::new(),
        outcome: Outcome::Suspended,
        unread_signals: 0,
        clean_up: None,
        first_number: None,
        build_id: None,
    };
    let claims = |world: &mut World| {
        assert_eq!(world.claim(plain_claim(WorkClass::Workflow, "parent")).workflows.len(), 1);
    };
    let signal = SignalWorkflow { execution_id, name: "go".into(), value: json("1") };
    claims(&mut world);
    world.must(nothing.clone());
    world.must(signal.clone());
    claims(&mut world);
    // The first report arrives again, late: the claim ends, and another claim has the same events.
    world.must(nothing.clone());
    world.must(signal);
    claims(&mut world);
    // The report of the second claim counts for the third, which has seen one more signal.
    world.must(nothing.clone());
    assert_eq!(world.execution(execution_id).status, ExecutionStatus::Waiting);
    let end = SubmitActivation { outcome: done(), ..nothing };
    assert_eq!(world.ask(end.clone()).unwrap_err().code, Code::StaleClaim);
    claims(&mut world);
    world.must(end);
    assert_eq!(world.execution(execution_id).status, ExecutionStatus::Completed);
}

#[test]
fn a_claim_that_was_given_back_is_over() {
    let mut world = World::new();
    world.start("parent");
    let activation = world.claim_workflow("parent");
    world.must(ReleaseWorkflowClaim { execution_id: activation.execution.id, token: activation.token });
    world.refused(submit(&activation, Vec::new(), Outcome::Suspended), Code::StaleClaim);
    let again = world.claim(claim(WorkClass::Workflow, "parent")).workflows.remove(0);
    assert_ne!(again.token, activation.token);
    world.refused(submit(&activation, Vec::new(), Outcome::Suspended), Code::StaleClaim);
    world.must(submit(&again, Vec::new(), Outcome::Suspended));
}

/// A cancellation needs no claim, so it must not change an outcome that was accepted.
#[test]
fn a_cancellation_never_changes_an_accepted_outcome() {
    let mut world = World::new();
    let [completed, failed] = ["sort", "charge"].map(|kind| world.create_task(kind));
    let delivery = world.claim_task("sort");
    // Its worker still decides: the request only asks it to stop.
    world.must(CancelTask { task_id: completed, cooperative: true });
    world.must(complete(&delivery));
    assert_eq!(world.task(completed).status, TaskStatus::Completed);
    let token = Some(world.claim_task("charge").token);
    world.must(FailTask { non_retryable: true, ..fail(failed, token) });
    for task_id in [completed, failed] {
        for cooperative in [false, true] {
            world.refused(CancelTask { task_id, cooperative }, Code::TaskNotPending);
        }
    }
}
