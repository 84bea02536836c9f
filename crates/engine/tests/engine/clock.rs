//! Nothing fires early, and time in a log never goes back, even when the clock does.

use flovyn_engine::reply::Fired;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Now, Reply};

use crate::world::{BEGIN_MS, World, create_promise, json, start_timer, submit};

#[test]
fn a_due_row_whose_time_has_not_come_does_nothing() {
    let mut world = World::new();
    world.suspended("parent", vec![start_timer("soon", 1_000), create_promise("late", Some(1_000))]);
    let mut delayed = StartWorkflow::new("parent", "main", json("1"));
    delayed.scheduled_ms = Some(BEGIN_MS + 1_000);
    world.must(delayed);
    world.start("held");
    world.claim_workflow("held");
    world.create_task("sort");
    world.claim_task("sort");
    let rows = world.snapshot().due;
    let classes = [
        DueClass::Timer,
        DueClass::PromiseTimeout,
        DueClass::ExecutionAlarm,
        DueClass::ExecutionLease,
        DueClass::TaskLease,
    ];
    for class in classes {
        let due = rows.iter().find(|row| row.class == class).unwrap().clone();
        // The last millisecond before the row is due.
        world.now = Now::same(due.due_ms - 1);
        let before = world.snapshot();
        assert_eq!(world.must(FireDue { due: due.clone() }), Reply::Fired(Fired::Stale), "{class}");
        assert!(before == world.snapshot(), "{class} did something early");
        let mut fired = world.clone();
        fired.now = Now::same(due.due_ms);
        assert_ne!(fired.must(FireDue { due }), Reply::Fired(Fired::Stale), "{class} never fires");
    }
}

#[test]
fn a_row_moved_to_an_earlier_time_by_its_finder_is_not_believed() {
    let mut world = World::new();
    let id = world.suspended("parent", vec![start_timer("soon", 1_000)]);
    let mut forged = world.due(DueClass::Timer);
    forged.due_ms = BEGIN_MS;
    assert_eq!(world.must(FireDue { due: forged }), Reply::Fired(Fired::Stale));
    assert_eq!(world.execution(id).status, ExecutionStatus::Waiting);
}

/// `check` inside the world asserts that event times never decrease and that no timer fired early.
#[test]
fn timers_keep_their_time_and_logs_their_order_when_the_clock_steps_back() {
    let mut world = World::new();
    let id = world.suspended("parent", vec![start_timer("soon", 1_000)]);
    world.advance(900);
    world.must(SignalWorkflow { execution_id: id, name: "go".into(), value: json("1") });
    // One hour back: the logged events keep their times, and the timer is not due.
    world.now = Now::same(BEGIN_MS - 3_600_000);
    let due = world.due(DueClass::Timer);
    assert_eq!(world.must(FireDue { due: due.clone() }), Reply::Fired(Fired::Stale));
    world.must(SignalWorkflow { execution_id: id, name: "go".into(), value: json("2") });
    let activation = world.claim_workflow("parent");
    world.must(submit(&activation, vec![start_timer("other", 10)], Outcome::Suspended));
    world.advance(20);
    world.fire_all();
    let times: Vec<i64> = world.events(id).iter().map(|event| event.time_ms).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(times.last(), Some(&(BEGIN_MS + 900)), "an event is never before the one it follows");
    let fired = |world: &World| {
        let events = world.events(id);
        events.iter().filter(|event| event.kind == EventKind::TimerFired).count()
    };
    assert_eq!(fired(&world), 1, "only the timer whose time has come");
    world.now = Now::same(due.due_ms);
    world.fire_all();
    assert_eq!(fired(&world), 2);
}

#[test]
fn a_virtual_clock_that_jumps_takes_no_claim_away() {
    let mut world = World::new();
    let id = world.suspended("parent", vec![start_timer("month", 30 * 24 * 3_600_000)]);
    world.start("held");
    world.claim_workflow("held");
    world.now.ms += 30 * 24 * 3_600_000;
    world.fire_all();
    assert_eq!(world.execution(id).status, ExecutionStatus::Pending, "the timer fired");
    let held = world.snapshot().executions.into_iter().find(|row| &*row.kind == "held").unwrap();
    assert_eq!(held.status, ExecutionStatus::Running, "leases stay on real time");
}
