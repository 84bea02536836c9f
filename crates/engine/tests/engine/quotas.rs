//! Quotas: what is counted when, what is refused, what is released. Like every promise, the count of open workflows is
//! checked after every batch.

use std::sync::Arc;

use flovyn_engine::ids::Payload;
use flovyn_engine::request::*;
use flovyn_engine::state::{Quota, Taken, next_month_ms};
use flovyn_engine::{Batch, BatchStep, Code, Exceeded, Limits, Loaded, Now, Op, Refusal, Reply, Request};

use crate::world::{BEGIN_MS, QUEUE, TENANT, World, done, id, schedule_child, submit};

const NONE: SetQuota = SetQuota {
    monthly_workflow_runs: None,
    concurrent_workflows: None,
    requests_per_second: None,
    burst: None,
};

fn world(quota: SetQuota) -> World {
    let mut world = World::new();
    let (slug, name) = ("acme".into(), "Acme".into());
    world.must(CreateTenant { id: Some(TENANT), slug, name, retention_ms: None });
    world.must(quota);
    world
}

fn monthly(limit: i64) -> SetQuota {
    SetQuota { monthly_workflow_runs: Some(limit), ..NONE }
}

fn concurrent(limit: i64) -> SetQuota {
    SetQuota { concurrent_workflows: Some(limit), ..NONE }
}

fn rate(requests_per_second: i64, burst: Option<i64>) -> SetQuota {
    SetQuota { requests_per_second: Some(requests_per_second), burst, ..NONE }
}

fn start() -> StartWorkflow {
    StartWorkflow::new("order", QUEUE, Payload::new())
}

fn keyed(name: &str) -> StartWorkflow {
    StartWorkflow { key: Some(KeySpec { name: name.into(), ttl_ms: None }), ..start() }
}

fn quota(world: &World) -> Quota {
    world.snapshot().quotas.remove(0)
}

/// Runs and open workflows.
fn counts(world: &World) -> (i64, i64) {
    let quota = quota(world);
    (quota.runs_at(world.now.ms), quota.open_workflows)
}

#[track_caller]
fn refusal(world: &mut World, op: impl Into<Op>) -> Refusal {
    let before = world.snapshot();
    let refusal = world.ask(op).unwrap_err();
    assert!(before == world.snapshot(), "{refusal} left a trace");
    refusal
}

/// The loads that a start takes; and for the first load, how many quotas it reads and how many it locks.
fn loads(found: Option<Quota>) -> (usize, usize, usize) {
    let request = Arc::new(Request::new(TENANT, 1, start()));
    let mut batch = Batch::new(vec![request], Arc::new(Limits::default()));
    let (mut loads, mut asked, mut loaded) = (0, None, None);
    while let BatchStep::Load(wants) = batch.advance(loaded.take()) {
        let mut answer = Loaded::at(Now::same(BEGIN_MS));
        if !wants.quotas.is_empty() {
            answer.quotas.extend(found.clone());
        }
        asked.get_or_insert((wants.quotas.peek.len(), wants.quotas.lock.len()));
        (loads, loaded) = (loads + 1, Some(answer));
    }
    let (looked_at, locked) = asked.unwrap();
    (loads, looked_at, locked)
}

#[test]
fn a_tenant_without_a_quota_pays_a_look_and_no_further_load() {
    assert_eq!(loads(None), (1, 1, 0));
    assert_eq!(loads(Some(quota(&world(NONE)))), (2, 1, 0));
}

#[test]
fn a_month_has_its_runs_and_the_next_one_has_them_again() {
    let mut world = world(monthly(2));
    world.must(start());
    world.must(start());
    let refused = refusal(&mut world, start());
    let left_ms = next_month_ms(world.now.ms) - world.now.ms;
    let retry_after_seconds = (left_ms + 999) / 1_000;
    assert_eq!(refused.code, Code::MonthlyQuotaExceeded);
    assert_eq!(refused.message, "Monthly workflow run quota exceeded");
    assert_eq!(refused.exceeded, Some(Exceeded { limit: 2, current: Some(2), retry_after_seconds }));
    // The last millisecond of the month is still this month.
    world.advance(left_ms - 1);
    let last = refusal(&mut world, start()).exceeded.unwrap();
    assert_eq!(last.retry_after_seconds, 1);
    world.advance(1);
    world.must(start());
    assert_eq!(counts(&world), (1, 3), "what runs on from last month is still open");
    // If the clock steps back a little, the stored month still counts.
    world.advance(-10);
    world.must(start());
    assert_eq!(counts(&world), (2, 4));
    refusal(&mut world, start());
}

/// Ends the execution with this id.
type End = fn(&mut World, uuid::Uuid);

#[test]
fn every_way_to_end_frees_a_place() {
    let ends: [(&str, End); 7] = [
        ("completed", |world, _| {
            let activation = world.claim_workflow("order");
            world.must(submit(&activation, Vec::new(), done()));
        }),
        ("failed", |world, _| {
            let activation = world.claim_workflow("order");
            let failed =
                Outcome::Failed { error: "no".into(), failure: Failure::default(), stack_trace: None };
            world.must(submit(&activation, Vec::new(), failed));
        }),
        ("cancelled by itself", |world, _| {
            let activation = world.claim_workflow("order");
            world.must(submit(&activation, Vec::new(), Outcome::Cancelled { reason: "enough".into() }));
        }),
        ("cancelled", |world, execution_id| {
            world.must(CancelWorkflow { execution_id, reason: "no".into(), cascade: true });
        }),
        ("terminated", |world, execution_id| {
            world.must(TerminateWorkflow { execution_id, reason: "no".into() });
        }),
        ("timed out", |world, _| {
            world.advance(5_000);
            world.fire_all();
        }),
        ("asked to stop without any effect", |world, execution_id| {
            let first = world.claim_workflow("order");
            world.must(CancelWorkflow { execution_id, reason: "no".into(), cascade: true });
            assert_eq!(counts(world).1, 1, "it still cleans up");
            world.must(submit(&first, Vec::new(), Outcome::Suspended));
            let second = world.claim_workflow("order");
            world.must(submit(&second, Vec::new(), Outcome::Suspended));
            world.advance(world.limits.cancel_grace_ms);
            world.fire_all();
        }),
    ];
    for (name, end) in ends {
        let mut world = world(concurrent(1));
        let timed = name == "timed out";
        let first = StartWorkflow { execution_timeout_ms: timed.then_some(5_000), ..start() };
        let Reply::Started(started) = world.must(first) else { panic!() };
        let refused = refusal(&mut world, start());
        assert_eq!(refused.code, Code::ConcurrentQuotaExceeded, "{name}");
        assert_eq!(refused.message, "Concurrent workflow quota exceeded");
        let exceeded = Exceeded { limit: 1, current: Some(1), retry_after_seconds: 1 };
        assert_eq!(refused.exceeded, Some(exceeded), "{name}");
        end(&mut world, started.execution_id);
        assert_eq!(counts(&world).1, 0, "{name}");
        world.must(start());
        refusal(&mut world, start());
    }
}

#[test]
fn a_bulk_start_is_counted_as_many_and_refused_as_one() {
    let mut world = world(SetQuota { concurrent_workflows: Some(7), ..monthly(5) });
    world.must(start());
    world.must(start());
    let refused = refusal(&mut world, StartWorkflows { items: vec![start(); 4] });
    assert_eq!(refused.message, "Monthly workflow run quota exceeded");
    assert_eq!(refused.exceeded.map(|exceeded| (exceeded.limit, exceeded.current)), Some((5, Some(2))));
    world.must(StartWorkflows { items: vec![start(); 3] });
    assert_eq!(counts(&world), (5, 5));
    world.must(concurrent(6));
    let refused = refusal(&mut world, StartWorkflows { items: vec![start(), start()] });
    assert_eq!(refused.code, Code::ConcurrentQuotaExceeded);
    assert_eq!(refused.exceeded.map(|exceeded| (exceeded.limit, exceeded.current)), Some((6, Some(5))));
    // Two starts with one key count once.
    world.must(StartWorkflows { items: vec![keyed("key"), keyed("key")] });
    assert_eq!(counts(&world), (6, 6));
}

#[test]
fn requests_of_one_batch_see_each_other() {
    let mut world = world(concurrent(2));
    let answers = world.batch(vec![start().into(), start().into(), start().into(), keyed("key").into()]);
    let let_in: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(let_in, [true, true, false, false]);
    // An end makes room for a later request in the same batch.
    let execution_id = world.snapshot().executions[0].id;
    let end = TerminateWorkflow { execution_id, reason: "no".into() };
    let answers = world.batch(vec![start().into(), end.into(), start().into(), start().into()]);
    let let_in: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(let_in, [false, true, true, false]);
}

#[test]
fn a_repeated_key_costs_nothing() {
    let mut world = world(SetQuota { concurrent_workflows: Some(1), ..monthly(1) });
    world.must(keyed("key"));
    let Reply::Started(again) = world.must(keyed("key")) else { panic!() };
    assert!(!again.key_new);
    world.must(SignalWithStart { start: keyed("key"), name: "go".into(), value: Payload::new() });
    assert_eq!(counts(&world), (1, 1));
    let other = SignalWithStart { start: keyed("other"), name: "go".into(), value: Payload::new() };
    assert_eq!(refusal(&mut world, other).code, Code::MonthlyQuotaExceeded);
}

#[test]
fn retries_and_signals_with_start_are_counted_and_children_are_not() {
    let mut world = world(concurrent(2));
    let execution_id = world.start("parent");
    let activation = world.claim_workflow("parent");
    world.must(submit(&activation, vec![schedule_child(1, "child")], Outcome::Suspended));
    let parent = Some(Parent { id: execution_id, name: "named".into() });
    world.must(StartWorkflow { parent, ..start() });
    assert_eq!(counts(&world), (1, 1));
    assert!(!world.execution(id(1)).counted && world.execution(execution_id).counted);
    world.must(SignalWithStart { start: keyed("key"), name: "go".into(), value: Payload::new() });
    assert_eq!(counts(&world), (2, 2));
    let retried = RetryWorkflow { execution_id: id(1), key: None };
    world.must(TerminateWorkflow { execution_id: id(1), reason: "no".into() });
    assert_eq!(counts(&world), (2, 2), "a child gives nothing back");
    assert_eq!(refusal(&mut world, retried.clone()).code, Code::ConcurrentQuotaExceeded);
    world.must(TerminateWorkflow { execution_id, reason: "no".into() });
    world.must(retried);
    assert_eq!(counts(&world), (3, 2));
}

#[test]
fn what_was_there_before_the_quota_is_not_counted_and_limits_can_go() {
    let mut world = World::new();
    let (slug, name) = ("acme".into(), "Acme".into());
    world.must(CreateTenant { id: Some(TENANT), slug, name, retention_ms: None });
    let before = world.start("order");
    world.must(concurrent(1));
    assert_eq!(counts(&world), (0, 0));
    world.must(TerminateWorkflow { execution_id: before, reason: "no".into() });
    world.must(start());
    world.must(NONE);
    world.must(start());
    assert_eq!(counts(&world), (2, 2), "counted on, without a limit");
    world.must(concurrent(2));
    assert_eq!(refusal(&mut world, start()).code, Code::ConcurrentQuotaExceeded);
    world.must(concurrent(0));
    let none = refusal(&mut world, start()).exceeded.unwrap();
    assert_eq!((none.limit, none.current), (0, Some(2)));
}

#[test]
fn a_bucket_is_emptied_by_all_who_ask_and_fills_with_time() {
    let mut world = world(rate(100, Some(30)));
    let take = |world: &mut World, most| match world.must(TakeRequests { most }) {
        Reply::RequestsTaken { limit: 100, taken } => taken,
        other => panic!("{other:?}"),
    };
    // At most a tenth of a second's requests at a time, and at least one.
    assert_eq!(take(&mut world, 1_000).granted, 10);
    assert_eq!(take(&mut world, -5).granted, 1);
    assert_eq!(take(&mut world, 10).granted, 10);
    assert_eq!(take(&mut world, 10).granted, 9);
    let before = world.snapshot();
    assert_eq!(take(&mut world, 10), Taken { granted: 0, wait_ms: 100 });
    assert!(before == world.snapshot(), "who gets nothing writes nothing");
    world.advance(9);
    assert_eq!(take(&mut world, 1), Taken { granted: 0, wait_ms: 1 });
    world.advance(1);
    assert_eq!(take(&mut world, 10).granted, 1);
    // A smaller bucket has less at once.
    world.advance(60_000);
    world.must(rate(100, Some(3)));
    assert_eq!(take(&mut world, 10).granted, 3);
    world.must(NONE);
    assert_eq!(world.must(TakeRequests { most: 1 }), Reply::RequestsUnlimited);
    world.must(rate(100, None));
    assert_eq!(quota(&world).bucket, 100_000, "a new bucket is full");
    let mut other = World::new();
    assert_eq!(other.must(TakeRequests { most: 1 }), Reply::RequestsUnlimited);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let mut world = world(NONE);
    let wrong = [
        monthly(-1),
        monthly(i64::MAX),
        concurrent(-1),
        rate(0, None),
        rate(-1, None),
        rate(1_000_001, None),
        rate(1, Some(0)),
        SetQuota { burst: Some(1), ..NONE },
    ];
    for wrong in wrong {
        world.refused(wrong, Code::InvalidValue);
    }
    World::new().refused(monthly(1), Code::TenantNotFound);
}
