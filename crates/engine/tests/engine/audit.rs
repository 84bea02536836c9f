//! The audit log: one row for each change of a caller, none for anything else.

use std::sync::Arc;

use flovyn_engine::Op;
use flovyn_engine::ids::Payload;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{QUEUE, TENANT, World, create_promise, id};

fn somebody() -> Arc<Actor> {
    Arc::new(Actor::new("somebody", CredentialKind::ApiKey))
}

/// The content of the last row.
fn last(world: &World) -> (&'static str, String, Value) {
    let rows = world.snapshot().audit;
    let row = rows.last().unwrap();
    assert_eq!((&*row.actor, row.credential, row.tenant_id), ("somebody", CredentialKind::ApiKey, TENANT));
    assert_eq!((row.time_ms, row.id.get_version_num()), (world.now.ms, 7));
    let details = row.details.as_deref().map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
    (row.action.name(), row.target.to_string(), details)
}

fn count(world: &World) -> usize {
    world.snapshot().audit.len()
}

/// A caller's request adds this row. Without a caller it adds none. A repeat, or a request for something that does not
/// exist, adds none either.
fn audited(world: &mut World, op: impl Into<Op>) -> (&'static str, String, Value) {
    let op = op.into();
    let before = count(world);
    let mut unnamed = world.clone();
    unnamed.batch(vec![op.clone()]).pop().unwrap().unwrap();
    assert_eq!(count(&unnamed), before, "{}", op.name());
    world.advance(1);
    world.ask_by(&somebody(), op.clone()).unwrap();
    assert_eq!(count(world), before + 1, "{}", op.name());
    last(world)
}

/// The request is refused, or has no effect.
fn leaves_none(world: &mut World, op: impl Into<Op>) {
    let (before, op) = (count(world), op.into());
    let answer = world.ask_by(&somebody(), op.clone());
    assert_eq!(count(world), before, "{}: {answer:?}", op.name());
}

#[test]
fn executions() {
    let mut world = World::new();
    let one = world.start("order");
    let signal = SignalWorkflow { execution_id: one, name: "paid".into(), value: Payload::from_static(b"7") };
    let target = one.to_string();
    assert_eq!(
        audited(&mut world, signal.clone()),
        ("workflow.signal", target.clone(), json!({ "signal": "paid" }))
    );
    let cancel = CancelWorkflow { execution_id: one, reason: "r".repeat(1_000).into(), cascade: true };
    let details = json!({ "reason": "r".repeat(200), "cascade": true });
    assert_eq!(audited(&mut world, cancel.clone()), ("workflow.cancel", target.clone(), details));
    leaves_none(&mut world, cancel);
    leaves_none(&mut world, signal);
    let (action, of, details) = audited(&mut world, RetryWorkflow { execution_id: one, key: None });
    let new = world.snapshot().executions.iter().find(|row| row.retry_of == Some(one)).unwrap().id;
    assert_eq!((action, of), ("workflow.retry", target.clone()));
    assert_eq!(details, json!({ "newWorkflowExecutionId": new.to_string() }));
    let delete = DeleteWorkflow { execution_id: one };
    assert_eq!(audited(&mut world, delete.clone()), ("workflow.delete", target, Value::Null));
    leaves_none(&mut world, delete);
    let terminate = TerminateWorkflow { execution_id: new, reason: "stop".into() };
    let details = json!({ "reason": "stop" });
    assert_eq!(audited(&mut world, terminate.clone()), ("workflow.terminate", new.to_string(), details));
    leaves_none(&mut world, terminate);
    leaves_none(&mut world, RetryWorkflow { execution_id: Uuid::from_u128(9), key: None });
}

#[test]
fn a_signal_that_starts() {
    let mut world = World::new();
    let key = Some(KeySpec { name: "cart".into(), ttl_ms: None });
    let start = StartWorkflow { key, ..StartWorkflow::new("order", QUEUE, Payload::from_static(b"1")) };
    let signal = SignalWithStart { start, name: "item".into(), value: Payload::from_static(b"1") };
    for started in [true, false] {
        let (action, target, details) = audited(&mut world, signal.clone());
        let row = &world.snapshot().executions[0];
        assert_eq!((action, target), ("workflow.signal", row.id.to_string()));
        assert_eq!(details, json!({ "signal": "item", "started": started }));
    }
}

#[test]
fn promises_by_id_and_by_key() {
    let mut world = World::new();
    let key = Some(KeySpec { name: "door".into(), ttl_ms: None });
    let second = Command::CreatePromise { name: "second".into(), timeout_ms: None, key };
    let commands = vec![create_promise("first", None), second];
    let execution = world.suspended("order", commands);
    let promise = |world: &World, name: &str| {
        let rows = world.snapshot().promises;
        rows.iter().find(|row| &*row.name == name).unwrap().id
    };
    let (first, second) = (promise(&world, "first"), promise(&world, "second"));
    let details = |name: &str| json!({ "workflowExecutionId": execution.to_string(), "name": name });
    let resolve = AnswerPromise {
        promise: PromiseRef::Id(first),
        answer: Answer::Resolve(Payload::from_static(b"\"secret\"")),
    };
    let expected = ("promise.resolve", first.to_string(), details("first"));
    assert_eq!(audited(&mut world, resolve.clone()), expected);
    leaves_none(&mut world, resolve);
    let reject =
        AnswerPromise { promise: PromiseRef::Key("door".into()), answer: Answer::Reject("secret".into()) };
    assert_eq!(
        audited(&mut world, reject.clone()),
        ("promise.reject", second.to_string(), details("second"))
    );
    leaves_none(&mut world, reject);
}

#[test]
fn tasks_queues_tokens_and_tenants() {
    let mut world = World::new();
    let task = world.create_task("work");
    let cancel = CancelTask { task_id: task, cooperative: false };
    assert_eq!(audited(&mut world, cancel.clone()), ("task.cancel", task.to_string(), Value::Null));
    leaves_none(&mut world, cancel);
    leaves_none(&mut world, RetryTask { task_id: task });
    assert_eq!(
        audited(&mut world, DeleteTask { task_id: task }),
        ("task.delete", task.to_string(), Value::Null)
    );

    let pause = PauseQueue { queue: "slow".into() };
    assert_eq!(audited(&mut world, pause.clone()), ("queue.pause", "slow".into(), Value::Null));
    leaves_none(&mut world, pause);
    let resume = ResumeQueue { queue: "slow".into() };
    assert_eq!(audited(&mut world, resume.clone()), ("queue.resume", "slow".into(), Value::Null));
    leaves_none(&mut world, resume);

    let tenant =
        CreateTenant { id: Some(TENANT), slug: "acme".into(), name: "Acme".into(), retention_ms: None };
    let details = json!({ "slug": "acme" });
    assert_eq!(audited(&mut world, tenant.clone()), ("tenant.create", TENANT.to_string(), details.clone()));
    leaves_none(&mut world, tenant);
    let update = UpdateTenant { name: "Acme Ltd".into(), retention_ms: None };
    assert_eq!(audited(&mut world, update.clone()), ("tenant.update", TENANT.to_string(), details));
    leaves_none(&mut world, update);

    let create =
        CreateWorkerToken { name: "ci".into(), hash: Payload::from_static(&[7; 32]), expires_ms: None };
    let (action, target, details) = audited(&mut world, create);
    let token_id = world.snapshot().worker_tokens[0].id;
    assert_eq!(
        (action, target, details),
        ("worker_token.create", token_id.to_string(), json!({ "name": "ci" }))
    );
    let revoke = RevokeWorkerToken { token_id };
    let expected = ("worker_token.revoke", token_id.to_string(), json!({ "name": "ci" }));
    assert_eq!(audited(&mut world, revoke.clone()), expected);
    leaves_none(&mut world, revoke);
}

#[test]
fn starts_tasks_and_what_workers_do_leave_none() {
    let mut world = World::new();
    leaves_none(&mut world, StartWorkflow::new("order", QUEUE, Payload::from_static(b"1")));
    let items = vec![StartWorkflow::new("order", QUEUE, Payload::from_static(b"1"))];
    leaves_none(&mut world, StartWorkflows { items });
    assert_eq!(world.snapshot().executions.len(), 2, "they were carried out");
    leaves_none(&mut world, HeartbeatWorker { worker_id: id(1) });
}

#[test]
fn what_cannot_be_stored_in_a_name_is_replaced() {
    let odd = Actor::new(&format!("a\0b{}", "x".repeat(1_000)), CredentialKind::Jwt);
    assert!(odd.subject().starts_with("a\u{fffd}bx"));
    assert_eq!(odd.subject().chars().count(), 255);
}
