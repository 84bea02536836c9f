//! An execution does not end over a signal that its activation has not seen.

use flovyn_engine::ids::Payload;
use flovyn_engine::reply::Activation;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Reply};

use crate::world::{
    QUEUE, World, claim, complete, create_promise, done, json, plain_claim, schedule_child, schedule_task,
    start_timer, submit,
};

fn signal(execution_id: uuid::Uuid) -> SignalWorkflow {
    SignalWorkflow { execution_id, name: "add".into(), value: json("1") }
}

fn failed() -> Outcome {
    Outcome::Failed { error: "no".into(), failure: Failure::default(), stack_trace: None }
}

fn kinds(world: &World, id: uuid::Uuid) -> Vec<EventKind> {
    world.events(id).iter().map(|event| event.kind).collect()
}

#[test]
fn an_end_waits_for_a_signal_that_came_after_the_claim() {
    for outcome in [done(), failed()] {
        let mut world = World::new();
        let id = world.start("cart");
        let first = world.claim_workflow("cart");
        world.must(signal(id));
        let commands = vec![start_timer("t", 1_000), create_promise("p", None)];
        let answer = world.ask(submit(&first, commands, outcome.clone()));
        assert_eq!(answer.unwrap_err().code, Code::EndDeferred);
        assert_eq!(
            kinds(&world, id),
            [EventKind::WorkflowStarted, EventKind::SignalReceived, EventKind::EndDeferred],
            "nothing of the activation was carried out"
        );
        assert_eq!(world.events(id)[2].number, Some(1), "how far the workflow had read");
        let second = world.claim_workflow("cart");
        assert!(
            second.execution.base_sequence < second.execution.last_signal_sequence,
            "it is told of the signal"
        );
        world.must(submit(&second, Vec::new(), outcome));
        assert!(world.execution(id).status.is_terminal());
    }
}

#[test]
fn a_client_without_tokens_is_asked_again_too() {
    let mut world = World::new();
    let id = world.start("cart");
    let first = world.claim(plain_claim(WorkClass::Workflow, "cart")).workflows.remove(0);
    world.must(signal(id));
    assert_eq!(world.ask(submit(&first, Vec::new(), done())).unwrap_err().code, Code::EndDeferred);
    let second = world.claim(plain_claim(WorkClass::Workflow, "cart")).workflows.remove(0);
    world.must(submit(&second, Vec::new(), done()));
    assert_eq!(world.execution(id).status, ExecutionStatus::Completed);
}

#[test]
fn what_is_not_a_signal_holds_up_no_end_and_nothing_holds_up_a_cancel() {
    let mut world = World::new();
    let id = world.suspended("cart", vec![start_timer("t", 1_000), start_timer("u", 2_000)]);
    world.advance(1_000);
    world.fire_all();
    let activation = world.claim_workflow("cart");
    world.advance(1_000);
    world.fire_all();
    world.must(submit(&activation, Vec::new(), done()));
    assert_eq!(world.execution(id).status, ExecutionStatus::Completed);

    let id = world.start("cart");
    let activation = world.claim_workflow("cart");
    world.must(signal(id));
    world.must(submit(&activation, Vec::new(), Outcome::Cancelled { reason: "asked to".into() }));
    assert_eq!(world.execution(id).status, ExecutionStatus::Cancelled);

    let id = world.start("cart");
    world.claim_workflow("cart");
    world.must(signal(id));
    world.must(TerminateWorkflow { execution_id: id, reason: "now".into() });
    assert_eq!(world.execution(id).status, ExecutionStatus::Cancelled);
}

#[test]
fn signals_that_never_stop_are_refused_before_they_starve_the_end() {
    let mut world = World::new();
    let id = world.start("cart");
    let mut deferred = 0;
    loop {
        let activation = world.claim_workflow("cart");
        match world.ask(signal(id)) {
            Ok(_) => {}
            Err(refusal) => {
                assert_eq!(refusal.code, Code::TooManySignals);
                world.must(submit(&activation, Vec::new(), done()));
                break;
            }
        }
        assert_eq!(world.ask(submit(&activation, Vec::new(), done())).unwrap_err().code, Code::EndDeferred);
        deferred += 1;
    }
    assert_eq!(deferred, world.limits.deferred_ends);
    assert_eq!(world.execution(id).status, ExecutionStatus::Completed);
}

#[test]
fn one_that_goes_on_takes_signals_again() {
    let mut world = World::new();
    let id = world.start("cart");
    for _ in 0..world.limits.deferred_ends {
        let activation = world.claim_workflow("cart");
        world.must(signal(id));
        assert_eq!(world.ask(submit(&activation, Vec::new(), done())).unwrap_err().code, Code::EndDeferred);
    }
    let activation = world.claim_workflow("cart");
    world.refused(signal(id), Code::TooManySignals);
    world.must(submit(&activation, Vec::new(), Outcome::Suspended));
    world.must(signal(id));
}

/// Signals that arrive before the next claim are delivered with it, so they do not put off the end.
#[test]
fn signals_are_taken_while_the_worker_is_away() {
    let mut world = World::new();
    let id = world.start("cart");
    for _ in 0..world.limits.deferred_ends {
        let activation = world.claim_workflow("cart");
        world.must(signal(id));
        assert_eq!(world.ask(submit(&activation, Vec::new(), done())).unwrap_err().code, Code::EndDeferred);
    }
    world.must(signal(id));
    // A worker takes the execution and dies.
    world.claim_workflow("cart");
    world.refused(signal(id), Code::TooManySignals);
    world.advance(world.limits.session_lease_ms);
    world.fire_all();
    world.must(signal(id));
    let activation = world.claim_workflow("cart");
    world.must(submit(&activation, Vec::new(), done()));
    assert_eq!(world.execution(id).status, ExecutionStatus::Completed);
}

/// The execution has a signal that no accepted activation has seen, and one that the running activation received.
#[test]
fn ends_from_outside_count_the_signals_that_were_not_seen() {
    type End = fn(&mut World, uuid::Uuid);
    let ends: [(&str, End); 3] = [
        ("terminated", |world, execution_id| {
            world.must(TerminateWorkflow { execution_id, reason: "no".into() });
        }),
        ("timed out", |world, _| {
            world.advance(5_000);
            world.fire_all();
        }),
        ("force-stopped", |world, execution_id| {
            world.must(CancelWorkflow { execution_id, reason: "no".into(), cascade: true });
            world.advance(2_000);
            world.fire_all();
        }),
    ];
    for (name, end) in ends {
        let mut world = World::new();
        let mut start = StartWorkflow::new("cart", QUEUE, Payload::new());
        start.execution_timeout_ms = (name == "timed out").then_some(5_000);
        let Reply::Started(started) = world.must(start) else { panic!() };
        let id = started.execution_id;
        let seen = world.claim_workflow("cart");
        world.must(submit(&seen, Vec::new(), Outcome::Suspended));
        if name == "force-stopped" {
            world.must(CancelWorkflow { execution_id: id, reason: "no".into(), cascade: true });
            let activation = world.claim_workflow("cart");
            let clean_up = Some(CleanUp { waits: false, grace_ms: Some(1_000) });
            world.must(SubmitActivation { clean_up, ..submit(&activation, Vec::new(), Outcome::Suspended) });
        }
        world.must(signal(id));
        world.claim_workflow("cart");
        world.must(signal(id));
        end(&mut world, id);
        let last = world.events(id).pop().unwrap();
        assert_eq!((last.origin, last.number), (Origin::External, Some(2)), "{name}");
    }
}

/// Code of another build ends the workflow at an earlier event than the last accepted activation saw.
#[test]
fn an_end_at_an_earlier_event_is_deferred_for_the_signals_after_it() {
    let mut world = World::new();
    let id = world.start("cart");
    let seen = world.claim_workflow("cart");
    world.must(submit(&seen, Vec::new(), Outcome::Suspended));
    world.must(signal(id));
    let seen = world.claim_workflow("cart");
    world.must(submit(&seen, Vec::new(), Outcome::Suspended));
    world.must(signal(id));
    let activation = world.claim_workflow("cart");
    let earlier = SubmitActivation { base_sequence: Some(1), ..submit(&activation, Vec::new(), done()) };
    assert_eq!(world.ask(earlier).unwrap_err().code, Code::EndDeferred);
    let deferral = world.events(id).pop().unwrap();
    assert_eq!((deferral.kind, deferral.number), (EventKind::EndDeferred, Some(1)));
    let activation = world.claim_workflow("cart");
    world.must(submit(&activation, Vec::new(), done()));
}

#[test]
fn signals_that_were_not_read_are_counted_in_the_last_event() {
    let mut world = World::new();
    let id = world.start("cart");
    world.must(signal(id));
    let activation = world.claim(claim(WorkClass::Workflow, "cart")).workflows.remove(0);
    world.must(SubmitActivation { unread_signals: 1, ..submit(&activation, Vec::new(), done()) });
    assert_eq!(world.events(id).last().unwrap().number, Some(1));
}

/// A worker with a bug: it always reports that it has seen only the start.
#[test]
fn an_end_that_never_sees_the_signal_stands_at_last() {
    let mut world = World::new();
    let id = world.start("cart");
    world.must(signal(id));
    for _ in 0..world.limits.deferred_ends {
        let activation = world.claim_workflow("cart");
        let blind = SubmitActivation { base_sequence: Some(1), ..submit(&activation, Vec::new(), done()) };
        assert_eq!(world.ask(blind).unwrap_err().code, Code::EndDeferred);
    }
    let activation = world.claim_workflow("cart");
    world.must(SubmitActivation { base_sequence: Some(1), ..submit(&activation, Vec::new(), done()) });
    assert_eq!(world.execution(id).status, ExecutionStatus::Completed);
    assert_eq!(world.events(id).pop().unwrap().number, Some(1), "an unread signal");
}

/// The reply was lost, and meanwhile the same client has claimed the execution again.
#[test]
fn a_deferred_batch_without_a_token_is_not_taken_for_the_next_one() {
    let mut world = World::new();
    let id = world.start("cart");
    let first = world.claim(plain_claim(WorkClass::Workflow, "cart")).workflows.remove(0);
    let commands = || vec![create_promise("p", None)];
    let end = SubmitActivation { first_number: Some(2), ..submit(&first, commands(), done()) };
    world.must(signal(id));
    assert_eq!(world.ask(end.clone()).unwrap_err().code, Code::EndDeferred);
    world.claim(plain_claim(WorkClass::Workflow, "cart")).workflows.remove(0);
    assert_eq!(world.ask(end.clone()).unwrap_err().code, Code::StaleClaim);
    assert_eq!(world.events(id).len(), 3);
    world.claim(plain_claim(WorkClass::Workflow, "cart")).workflows.remove(0);
    // The history has three events now, so the next batch counts from there.
    world.must(SubmitActivation { first_number: Some(4), ..end });
    assert_eq!(world.execution(id).status, ExecutionStatus::Completed);
}

#[test]
fn a_step_along_with_a_success_never_ends_over_a_signal() {
    let mut world = World::new();
    let id = world.suspended("cart", vec![schedule_task(7, "charge")]);
    let task = world.claim_task("charge");
    world.must(signal(id));
    let row = world.execution(id);
    let step = SubmitActivation {
        token: Some(row.epoch + 1),
        // In the worker's view, the success follows what it has seen.
        base_sequence: Some(row.last_sequence),
        ..submit(
            &Activation {
                token: row.epoch + 1,
                execution: row.clone(),
                new_events: None,
                provisional: false,
            },
            Vec::new(),
            done(),
        )
    };
    let claimer = claim(WorkClass::Workflow, "cart").claimer;
    let next = Some(Box::new(Continuation { step, claimer }));
    world.must(CompleteTask { next, ..complete(&task) });
    assert_eq!(world.execution(id).status, ExecutionStatus::Pending, "it is left to the next activation");
}

#[test]
fn a_child_tells_its_parent_once_its_end_stands() {
    let mut world = World::new();
    let parent = world.suspended("order", vec![schedule_child(9, "cart")]);
    let child = world.claim_workflow("cart");
    world.must(signal(child.execution.id));
    assert_eq!(world.ask(submit(&child, Vec::new(), done())).unwrap_err().code, Code::EndDeferred);
    assert_eq!(world.execution(parent).status, ExecutionStatus::Waiting);
    let child = world.claim_workflow("cart");
    world.must(submit(&child, Vec::new(), done()));
    assert_eq!(world.execution(parent).status, ExecutionStatus::Pending);
}

/// After a cancel request, an execution that ends in another way sees its signals first, within its grace time.
#[test]
fn a_cancel_request_ends_the_run_in_time_although_signals_come() {
    let mut world = World::new();
    let id = world.start("cart");
    let mut activation = world.claim_workflow("cart");
    world.must(CancelWorkflow { execution_id: id, reason: "enough".into(), cascade: false });
    for _ in 0..3 {
        world.must(signal(id));
        assert_eq!(world.ask(submit(&activation, Vec::new(), done())).unwrap_err().code, Code::EndDeferred);
        activation = world.claim_workflow("cart");
    }
    world.must(signal(id));
    let cancelled = Outcome::Cancelled { reason: "enough".into() };
    world.must(SubmitActivation { unread_signals: 3, ..submit(&activation, Vec::new(), cancelled) });
    assert_eq!(world.execution(id).status, ExecutionStatus::Cancelled);
    assert_eq!(world.events(id).last().unwrap().number, Some(4), "with the one that came too late");
}

#[test]
fn a_history_has_room_for_a_deferred_end() {
    let mut world = World::with(Limits { history_events: 6, ..Limits::default() });
    let id = world.start("cart");
    for _ in 0..2 {
        let activation = world.claim_workflow("cart");
        match world.ask(signal(id)) {
            Ok(_) => assert_eq!(
                world.ask(submit(&activation, Vec::new(), done())).unwrap_err().code,
                Code::EndDeferred
            ),
            Err(refusal) => {
                assert_eq!(refusal.code, Code::HistoryFull);
                world.must(submit(&activation, Vec::new(), done()));
            }
        }
    }
    assert_eq!(world.execution(id).status, ExecutionStatus::Completed);
}
