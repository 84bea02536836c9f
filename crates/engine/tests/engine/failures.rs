//! The parts of a failure beside its message are kept with the attempt, the task and the history, and reach the parent.

use flovyn_engine::event::{Event, EventKind, TaskPayloads};
use flovyn_engine::failure::StoredFailure;
use flovyn_engine::ids::{ExecutionId, TaskId};
use flovyn_engine::reply::TaskDelivery;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Reply};
use serde_json::{Value, json};

use crate::world::{QUEUE, World, complete, json as payload, schedule_child, schedule_task, submit};

fn declined() -> Failure {
    Failure { kind: Some("DECLINED".into()), details: Some(payload("{\"limit\":7}")) }
}

fn fail(delivery: &TaskDelivery, failure: Failure, non_retryable: bool) -> FailTask {
    FailTask {
        task_id: delivery.task.id,
        token: Some(delivery.token),
        error: "no funds".into(),
        failure,
        non_retryable,
        next_delay_ms: Some(0),
    }
}

fn kept(world: &World, id: TaskId) -> Value {
    world.task(id).failure.map_or(Value::Null, |failure| serde_json::from_slice(&failure).unwrap())
}

fn attempts(world: &World, id: TaskId) -> Vec<StoredFailure> {
    let attempts = world.snapshot().attempts;
    attempts
        .iter()
        .filter(|row| row.task_id == id)
        .map(|row| StoredFailure::read(row.failure.as_ref()))
        .collect()
}

/// The last event of this kind, as clients see it.
fn shown(world: &World, id: ExecutionId, kind: EventKind) -> Value {
    let event: Event = world.events(id).into_iter().rev().find(|event| event.kind == kind).unwrap();
    let task = event.task_needed().map(|id| {
        let Task { error, failure, .. } = world.task(id);
        TaskPayloads { error, failure, ..TaskPayloads::default() }
    });
    serde_json::from_slice(&event.render(task.as_ref())).unwrap()
}

#[test]
fn a_task_of_a_workflow_that_used_up_its_attempts_says_so_in_the_history() {
    let mut world = World::new();
    let id = world.suspended("order", vec![schedule_task(1, "charge")]);
    for attempt in 1..=3 {
        let delivery = world.claim_task("charge");
        let said = if attempt == 2 { Failure::default() } else { declined() };
        world.must(fail(&delivery, said, false));
        let task = world.task(delivery.task.id);
        assert_eq!(task.status == TaskStatus::Failed, attempt == 3);
        if attempt == 2 {
            assert_eq!(task.failure, None, "nothing was said of the last attempt");
        }
    }
    let task_id = world.snapshot().tasks[0].id;
    let kept = kept(&world, task_id);
    let expected = json!({ "failureType": "DECLINED", "failureDetails": { "limit": 7 }, "retryable": true, "attempts": 3 });
    assert_eq!(kept, expected);
    let shown = shown(&world, id, EventKind::TaskFailed);
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&shown[key], value, "{shown}");
    }
    assert_eq!(
        (&shown["error"], &shown["taskExecutionId"]),
        (&json!("no funds"), &json!(task_id.to_string()))
    );
    let attempts: Vec<Failure> = attempts(&world, task_id).into_iter().map(|stored| stored.failure).collect();
    assert_eq!(attempts, [declined(), Failure::default(), declined()]);
}

#[test]
fn a_task_that_gives_up_says_so_at_its_first_attempt() {
    let mut world = World::new();
    let id = world.suspended("order", vec![schedule_task(1, "charge")]);
    let delivery = world.claim_task("charge");
    let report = fail(&delivery, declined(), true);
    world.must(report.clone());
    let shown = shown(&world, id, EventKind::TaskFailed);
    assert_eq!((&shown["retryable"], &shown["attempts"]), (&json!(false), &json!(1)));
    assert_eq!(attempts(&world, delivery.task.id)[0].retryable, Some(false));
    let again = world.must(report);
    assert!(matches!(again, Reply::TaskReported { repeated: true, .. }), "{again:?}");
}

#[test]
fn a_time_limit_has_a_type_of_its_own() {
    let mut world = World::new();
    let mut spec = TaskSpec::new("slow", payload("1"));
    spec.queue = Some(QUEUE.into());
    (spec.start_to_close_ms, spec.max_retries) = (Some(1_000), Some(1));
    let id = world.create(spec);
    world.claim_task("slow");
    world.advance(1_000);
    world.fire_all();
    assert_eq!(kept(&world, id), json!({ "failureType": "TIMEOUT", "retryable": true, "attempts": 1 }));
    let mut spec = TaskSpec::new("nobody", payload("1"));
    spec.schedule_to_start_ms = Some(1_000);
    let id = world.create(spec);
    world.advance(1_000);
    world.fire_all();
    assert_eq!(kept(&world, id), json!({ "failureType": "TIMEOUT", "retryable": true, "attempts": 0 }));
}

#[test]
fn a_task_that_was_asked_to_stop_or_succeeds_later_has_no_failure() {
    let mut world = World::new();
    let stopped = world.create_task("stopped");
    let delivery = world.claim_task("stopped");
    world.must(CancelTask { task_id: stopped, cooperative: true });
    world.must(fail(&delivery, declined(), false));
    assert_eq!((world.task(stopped).status, world.task(stopped).failure), (TaskStatus::Cancelled, None));
    assert_eq!(attempts(&world, stopped)[0].failure, declined(), "what it said is kept with the attempt");
    let retried = world.create_task("retried");
    let delivery = world.claim_task("retried");
    world.must(fail(&delivery, declined(), true));
    world.must(RetryTask { task_id: retried });
    let delivery = world.claim_task("retried");
    world.must(complete(&delivery));
    assert_eq!((world.task(retried).status, world.task(retried).failure), (TaskStatus::Completed, None));
}

#[test]
fn a_failed_child_tells_its_parent_what_it_said() {
    let mut world = World::new();
    let parent = world.suspended("parent", vec![schedule_child(1, "child")]);
    let child = world.claim_workflow("child");
    let child_id = child.execution.id;
    let (error, failure) = ("no funds".into(), declined());
    let failed = Outcome::Failed { error, failure, stack_trace: Some("in \"line\" 1".into()) };
    world.must(submit(&child, Vec::new(), failed));
    let own = shown(&world, child_id, EventKind::WorkflowFailed);
    let expected = json!({ "error": "no funds", "failureType": "DECLINED", "failureDetails": { "limit": 7 },
        "stackTrace": "in \"line\" 1" });
    assert_eq!(own, expected);
    let told = shown(&world, parent, EventKind::ChildFailed);
    for key in ["error", "failureType", "failureDetails"] {
        assert_eq!(told[key], expected[key], "{told}");
    }
    let last = world.events(child_id).pop().unwrap();
    assert_eq!(last.failure().failure, declined());
}

#[test]
fn without_details_a_history_is_what_it_was_before_there_were_any() {
    let mut world = World::new();
    let id = world.start("order");
    let activation = world.claim_workflow("order");
    let failure = Failure::of_kind("ERROR");
    let failed =
        Outcome::Failed { error: "no".into(), failure: failure.clone(), stack_trace: Some("here".into()) };
    world.must(submit(&activation, Vec::new(), failed));
    let last = world.events(id).pop().unwrap();
    assert_eq!(last.payload, Some(payload("\"here\"")));
    assert_eq!((last.failure().failure, last.failure().stack_trace.as_deref()), (failure, Some("here")));
    let shown = shown(&world, id, EventKind::WorkflowFailed);
    assert_eq!(shown, json!({ "error": "no", "failureType": "ERROR", "stackTrace": "here" }));
}

#[test]
fn what_is_no_json_is_refused_and_the_attempt_goes_on() {
    let mut world = World::new();
    let id = world.create_task("charge");
    let delivery = world.claim_task("charge");
    for details in ["{", "", "1 2"] {
        let failure = Failure { kind: None, details: Some(payload(details)) };
        world.refused(fail(&delivery, failure, false), Code::InvalidPayload);
    }
    assert_eq!(world.task(id).status, TaskStatus::Running);
    world.must(fail(&delivery, declined(), true));
}
