//! A failed execution is retried whenever a client asks for it, but only once for each key.

use flovyn_engine::request::*;
use flovyn_engine::{Code, Op, Reply};
use uuid::Uuid;

use crate::world::World;

fn keyed(execution_id: Uuid, name: &str) -> Op {
    RetryWorkflow { execution_id, key: Some(KeySpec { name: name.into(), ttl_ms: None }) }.into()
}

/// An execution that was ended.
fn ended(world: &mut World, kind: &str) -> Uuid {
    let execution_id = world.start(kind);
    world.must(TerminateWorkflow { execution_id, reason: "no".into() });
    execution_id
}

fn started(reply: Reply) -> (Uuid, bool) {
    let Reply::Started(started) = reply else { panic!("{reply:?}") };
    (started.execution_id, started.key_new)
}

#[test]
fn a_key_retries_once() {
    let mut world = World::new();
    let failed = ended(&mut world, "order");
    // In one batch, then in another.
    let both = world.batch(vec![keyed(failed, "button"), keyed(failed, "button")]);
    let both: Vec<_> = both.into_iter().map(|answer| started(answer.unwrap())).collect();
    assert_eq!((both[0].1, both[1]), (true, (both[0].0, false)));
    assert_eq!(started(world.must(keyed(failed, "button"))), (both[0].0, false));
    let row = world.execution(both[0].0);
    assert_eq!((row.retry_of, row.idempotency_key.as_deref()), (Some(failed), Some("button")));
    assert!(started(world.must(keyed(failed, "other"))).1, "another key");
    assert!(started(world.must(RetryWorkflow { execution_id: failed, key: None })).1, "no key");
    assert_eq!(world.snapshot().executions.len(), 4);
}

#[test]
fn a_key_of_something_else_retries_nothing() {
    let mut world = World::new();
    let (failed, other) = (ended(&mut world, "order"), ended(&mut world, "order"));
    world.must(keyed(other, "of another retry"));
    let key = Some(KeySpec { name: "of a start".into(), ttl_ms: None });
    world.must(StartWorkflow { key, ..StartWorkflow::new("order", "main", "1".into()) });
    for name in ["of another retry", "of a start"] {
        world.refused(keyed(failed, name), Code::KeyConflict);
    }
    world.refused(keyed(failed, ""), Code::InvalidName);
    world.refused(keyed(failed, "nul\0"), Code::InvalidText);
}

#[test]
fn a_retry_that_fails_frees_its_key() {
    let mut world = World::new();
    let failed = ended(&mut world, "order");
    let (first, _) = started(world.must(keyed(failed, "button")));
    world.must(TerminateWorkflow { execution_id: first, reason: "no".into() });
    let (second, is_new) = started(world.must(keyed(failed, "button")));
    assert!(is_new && second != first);
}
