//! A history becomes too large for one reply of the plain protocol, in every state of its execution.

use flovyn_engine::Limits;
use flovyn_engine::request::*;
use flovyn_engine::state::*;

use crate::world::{QUEUE, World, claim, complete, done, json, plain_claim, schedule_task, submit};

fn world() -> World {
    World::with(Limits { unary_history_bytes: 1_000, ..Limits::default() })
}

fn much() -> flovyn_engine::ids::Payload {
    json(&format!("\"{}\"", "x".repeat(2_000)))
}

/// Only a worker on the stream can claim it.
fn assert_large(world: &mut World) {
    assert!(world.claim(plain_claim(WorkClass::Workflow, "order")).is_empty());
    let activation = world.claim(claim(WorkClass::Workflow, "order")).workflows.remove(0);
    world.must(submit(&activation, Vec::new(), done()));
}

#[test]
fn by_its_own_input() {
    let mut world = world();
    world.must(StartWorkflow::new("order", QUEUE, much()));
    assert_large(&mut world);
}

#[test]
fn by_a_signal_while_it_is_in_line() {
    let mut world = world();
    let execution_id = world.start("order");
    world.must(SignalWorkflow { execution_id, name: "much".into(), value: much() });
    assert_large(&mut world);
}

#[test]
fn by_the_signal_that_wakes_it() {
    let mut world = world();
    let execution_id = world.suspended("order", Vec::new());
    world.must(SignalWorkflow { execution_id, name: "much".into(), value: much() });
    assert_large(&mut world);
}

#[test]
fn by_the_result_of_its_task() {
    let mut world = world();
    world.suspended("order", vec![schedule_task(1, "work")]);
    let delivery = world.claim_task("work");
    world.must(CompleteTask { output: much(), ..complete(&delivery) });
    assert_large(&mut world);
}

#[test]
fn while_it_is_held_back() {
    let mut world = world();
    let execution_id = world.start("order");
    let activation = world.claim_workflow("order");
    let failed = Outcome::ActivationFailed { code: "PANIC".into(), message: "no".into() };
    world.must(submit(&activation, Vec::new(), failed));
    world.must(SignalWorkflow { execution_id, name: "much".into(), value: much() });
    world.advance(1_000);
    world.fire_all();
    assert_large(&mut world);
}

/// `check` inside the world finds rows that are wrongly left in the ready table.
#[test]
fn by_the_reason_of_its_own_end() {
    let reason = "x".repeat(2_000);
    let mut world = world();
    let execution_id = world.start("order");
    world.must(TerminateWorkflow { execution_id, reason: reason.clone().into() });
    assert_eq!(world.execution(execution_id).status, ExecutionStatus::Cancelled);
    let execution_id = world.start("order");
    world.must(CancelWorkflow { execution_id, reason: reason.into(), cascade: false });
    assert_eq!(world.execution(execution_id).status, ExecutionStatus::Cancelled);
}
