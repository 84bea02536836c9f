//! Workflow keys: an execution that signal-with-start has found or started holds its key while it is open.

use flovyn_engine::ids::ExecutionId;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Op, Reply};

use crate::world::{QUEUE, World, done, id, json, submit};

const SECOND: i64 = 1_000;
const DAY: i64 = 24 * 60 * 60 * SECOND;

fn keyed(kind: &str, ttl_ms: Option<i64>) -> StartWorkflow {
    StartWorkflow {
        key: Some(KeySpec { name: "ada".into(), ttl_ms }),
        ..StartWorkflow::new(kind, QUEUE, json("1"))
    }
}

fn with_start(ttl_ms: Option<i64>) -> SignalWithStart {
    SignalWithStart { start: keyed("cart", ttl_ms), name: "add".into(), value: json("1") }
}

fn by_key(action: KeyedAction) -> ActByKey {
    ActByKey { key: "ada".into(), action }
}

fn signal() -> KeyedAction {
    KeyedAction::Signal { name: "add".into(), value: json("2") }
}

/// The execution that received the signal, and whether it was started for it.
fn send(world: &mut World, op: impl Into<Op>) -> (ExecutionId, bool) {
    match world.must(op) {
        Reply::Signalled { execution_id, created, .. } => (execution_id, created),
        other => panic!("{other:?}"),
    }
}

fn start(world: &mut World, op: StartWorkflow) -> (ExecutionId, bool) {
    match world.must(op) {
        Reply::Started(started) => (started.execution_id, started.key_new),
        other => panic!("{other:?}"),
    }
}

fn clean(world: &mut World) -> usize {
    match world.must(CleanIdempotencyKeys { until_ms: world.now.ms, max: 10 }) {
        Reply::Cleaned { count } => count,
        other => panic!("{other:?}"),
    }
}

fn end(world: &mut World, outcome: Outcome) {
    let activation = world.claim_workflow("cart");
    world.must(submit(&activation, Vec::new(), outcome));
}

#[test]
fn an_open_execution_holds_its_key_whatever_the_lifetime() {
    for ttl_ms in [None, Some(SECOND)] {
        let mut world = World::new();
        let (id, created) = send(&mut world, with_start(ttl_ms));
        assert!(created);
        world.advance(25 * DAY);
        assert_eq!(clean(&mut world), 0);
        assert_eq!(send(&mut world, with_start(ttl_ms)), (id, false));
        assert_eq!(start(&mut world, keyed("cart", ttl_ms)), (id, false), "a start finds it too");
        world.refused(keyed("order", ttl_ms), Code::KeyConflict);
    }
}

#[test]
fn the_lifetime_counts_from_the_end() {
    let mut world = World::new();
    let (id, _) = send(&mut world, with_start(Some(10 * SECOND)));
    world.advance(DAY);
    end(&mut world, done());
    world.advance(10 * SECOND - 1);
    assert_eq!(
        start(&mut world, keyed("cart", None)),
        (id, false),
        "a start is answered with what it came to"
    );
    world.advance(1);
    let (other, new) = start(&mut world, keyed("cart", None));
    assert!(new && other != id);
}

#[test]
fn after_the_end_a_signal_with_start_starts_anew() {
    let failed = Outcome::Failed { error: "no".into(), failure: Default::default(), stack_trace: None };
    for outcome in [done(), failed, Outcome::Cancelled { reason: "stop".into() }] {
        let mut world = World::new();
        let (id, _) = send(&mut world, with_start(None));
        end(&mut world, outcome);
        let (next, created) = send(&mut world, with_start(None));
        assert!(created && next != id);
        world.advance(25 * DAY);
        assert_eq!(send(&mut world, with_start(None)), (next, false));
    }
}

#[test]
fn an_end_from_outside_frees_the_key_for_the_next_one() {
    for cancel in [true, false] {
        let mut world = World::new();
        let (id, _) = send(&mut world, with_start(None));
        world.advance(2 * DAY);
        let stop: Op = match cancel {
            true => CancelWorkflow { execution_id: id, reason: "stop".into(), cascade: true }.into(),
            false => TerminateWorkflow { execution_id: id, reason: "stop".into() }.into(),
        };
        // In one transaction: the end, and the next holders right after it.
        let answers = world.batch(vec![stop, with_start(None).into(), with_start(None).into()]);
        let Ok(Reply::Signalled { execution_id: next, created: true, .. }) = answers[1] else {
            panic!("{answers:?}");
        };
        assert_ne!(next, id);
        assert!(
            matches!(answers[2], Ok(Reply::Signalled { execution_id, created: false, .. }) if execution_id == next)
        );
    }
}

/// A trigger took the key for a day; after the signal it is a workflow key.
#[test]
fn a_signal_with_start_makes_the_key_of_a_started_execution_a_workflow_key() {
    let mut world = World::new();
    let (id, _) = start(&mut world, keyed("cart", Some(60 * SECOND)));
    world.advance(59 * SECOND);
    assert_eq!(send(&mut world, with_start(None)), (id, false));
    world.advance(25 * DAY);
    assert_eq!(clean(&mut world), 0);
    assert_eq!(send(&mut world, with_start(None)), (id, false));
    end(&mut world, done());
    // For the lifetime that the trigger had asked for.
    world.advance(60 * SECOND - 1);
    assert_eq!(start(&mut world, keyed("cart", None)), (id, false));
    world.advance(1);
    assert!(start(&mut world, keyed("cart", None)).1);
}

#[test]
fn an_idempotency_key_expires_although_its_execution_is_open() {
    let mut world = World::new();
    let (id, _) = start(&mut world, keyed("cart", Some(60 * SECOND)));
    world.must(by_key(signal()));
    world.advance(60 * SECOND);
    let (other, created) = send(&mut world, with_start(None));
    assert!(created && other != id, "a signal by key takes no key");
}

#[test]
fn a_key_without_a_lifetime_lasts_for_24_hours() {
    let mut world = World::new();
    let (id, _) = start(&mut world, keyed("cart", None));
    world.advance(DAY - 1);
    assert_eq!(start(&mut world, keyed("cart", None)), (id, false));
    world.advance(1);
    assert_eq!(clean(&mut world), 1);
    assert!(start(&mut world, keyed("cart", None)).1);
}

#[test]
fn an_end_that_is_deferred_keeps_the_key_and_answers_the_signal() {
    let mut world = World::new();
    let (id, _) = send(&mut world, with_start(Some(SECOND)));
    let activation = world.claim_workflow("cart");
    world.advance(2 * SECOND);
    assert_eq!(send(&mut world, with_start(Some(SECOND))), (id, false));
    let answer = world.ask(submit(&activation, Vec::new(), done()));
    assert_eq!(answer.unwrap_err().code, Code::EndDeferred);
    world.advance(2 * SECOND);
    assert_eq!(send(&mut world, with_start(Some(SECOND))), (id, false));
    end(&mut world, done());
    let signals = world.events(id).iter().filter(|event| event.kind == EventKind::SignalReceived).count();
    assert_eq!(signals, 3);
    assert!(send(&mut world, with_start(None)).1);
}

#[test]
fn one_that_takes_no_more_signals_is_not_doubled() {
    let mut world = World::new();
    let (id, _) = send(&mut world, with_start(None));
    for _ in 0..world.limits.deferred_ends {
        let activation = world.claim_workflow("cart");
        assert_eq!(send(&mut world, with_start(None)), (id, false));
        assert!(world.ask(submit(&activation, Vec::new(), done())).is_err());
    }
    let activation = world.claim_workflow("cart");
    world.refused(with_start(None), Code::TooManySignals);
    world.must(submit(&activation, Vec::new(), done()));
    assert!(send(&mut world, with_start(None)).1);
}

/// A child's key and labels are stored as those of a start. A held key fails the child, and its parent receives why.
#[test]
fn a_child_has_a_key_and_labels() {
    let keyed = |number, kind: &str| match crate::world::schedule_child(number, kind) {
        Command::ScheduleChild(child) => Command::ScheduleChild(ScheduleChild {
            key: Some(KeySpec { name: "ada".into(), ttl_ms: None }),
            labels: vec![("customer".into(), "ada".into())],
            ..child
        }),
        other => panic!("{other:?}"),
    };
    let mut world = World::new();
    let parent = world.suspended("parent", vec![keyed(10, "cart"), keyed(11, "cart"), keyed(12, "other")]);
    let first = world.execution(id(10));
    assert_eq!((first.idempotency_key.as_deref(), first.status), (Some("ada"), ExecutionStatus::Pending));
    assert!(world.snapshot().labels.iter().any(|label| label.execution_id == id(10)));
    assert_eq!(world.execution(parent).open_children, 1);
    for number in [11, 12] {
        let child = world.execution(id(number));
        assert_eq!((child.status, child.parent_id), (ExecutionStatus::Failed, Some(parent)));
        let told = world
            .events(parent)
            .into_iter()
            .find(|event| event.kind == EventKind::ChildFailed && event.subject == Some(id(number)));
        let told = told.unwrap();
        assert!(told.text.unwrap().starts_with("FLV0042: idempotency key 'ada' belongs to "));
        assert!(String::from_utf8_lossy(&told.payload.unwrap()).contains("FLV0042"));
    }
    // The parent may cancel a child that has failed at once.
    let activation = world.claim_workflow("parent");
    let cancel = Command::RequestCancelChild { child_id: id(11), reason: "r".into() };
    world.must(submit(&activation, vec![cancel], Outcome::Suspended));
    let signal = KeyedAction::Signal { name: "go".into(), value: json("1") };
    let Reply::ByKey { execution_id, .. } = world.must(ActByKey { key: "ada".into(), action: signal }) else {
        panic!()
    };
    assert_eq!(execution_id, id(10));
}

#[test]
fn a_deleted_execution_leaves_its_key() {
    let mut world = World::new();
    let (id, _) = send(&mut world, with_start(None));
    world.refused(DeleteWorkflow { execution_id: id }, Code::ExecutionNotFinished);
    end(&mut world, done());
    world.must(DeleteWorkflow { execution_id: id });
    assert!(world.snapshot().keys.is_empty());
    let (next, _) = send(&mut world, with_start(None));
    // The rows of the first execution are removed; the key of the second one stays.
    world.fire_all();
    assert_eq!(send(&mut world, with_start(None)), (next, false));
    world.refused(by_key(KeyedAction::Signal { name: "".into(), value: json("1") }), Code::InvalidName);
}

#[test]
fn a_held_key_is_a_conflict_for_tasks_old_and_new() {
    let mut world = World::new();
    let mut spec =
        TaskSpec { queue: Some(QUEUE.into()), max_retries: Some(0), ..TaskSpec::new("mail", json("1")) };
    spec.key = Some(KeySpec { name: "ada".into(), ttl_ms: None });
    let task = world.create(spec.clone());
    let delivery = world.claim_task("mail");
    world.must(FailTask {
        task_id: task,
        token: Some(delivery.token),
        error: "no".into(),
        failure: Default::default(),
        non_retryable: true,
        next_delay_ms: None,
    });
    let (id, _) = send(&mut world, with_start(None));
    world.advance(2 * DAY);
    world.refused(CreateTask::standalone(spec), Code::KeyConflict);
    // Its failure had freed the key. The task runs again without a key.
    world.must(RetryTask { task_id: task });
    assert_eq!(send(&mut world, with_start(None)), (id, false));
}

#[test]
fn a_key_names_the_open_execution_or_else_the_last_one() {
    let mut world = World::new();
    world.refused(by_key(signal()), Code::ExecutionNotFound);
    let (first, _) = send(&mut world, with_start(None));
    let named = |world: &mut World, action: KeyedAction| match world.must(by_key(action)) {
        Reply::ByKey { execution_id, reply } => (execution_id, *reply),
        other => panic!("{other:?}"),
    };
    let (id, reply) = named(&mut world, signal());
    assert_eq!((id, reply), (first, Reply::Signalled { execution_id: first, sequence: 3, created: false }));
    let (id, reply) = named(&mut world, KeyedAction::Terminate { reason: "stop".into() });
    assert_eq!((id, reply), (first, Reply::Cancelled { status: ExecutionStatus::Cancelled }));
    // Nobody holds the key; its last holder has finished.
    world.refused(by_key(signal()), Code::ExecutionFinished);
    world.refused(
        by_key(KeyedAction::Cancel { reason: "stop".into(), cascade: true }),
        Code::ExecutionFinished,
    );
    world.advance(1);
    let (second, _) = send(&mut world, with_start(None));
    assert_eq!(named(&mut world, signal()).0, second);
    let cancel = KeyedAction::Cancel { reason: "stop".into(), cascade: true };
    assert_eq!(named(&mut world, cancel).0, second);
    assert_eq!(world.execution(second).status, ExecutionStatus::Cancelled);
}

#[test]
fn an_action_by_key_meets_whoever_has_the_key_by_then() {
    let mut world = World::new();
    let (first, _) = send(&mut world, with_start(None));
    let stop = TerminateWorkflow { execution_id: first, reason: "stop".into() };
    let answers = world.batch(vec![stop.into(), with_start(None).into(), by_key(signal()).into()]);
    let Ok(Reply::Signalled { execution_id: second, created: true, .. }) = answers[1] else {
        panic!("{answers:?}");
    };
    assert!(
        matches!(answers[2], Ok(Reply::ByKey { execution_id, .. }) if execution_id == second),
        "{answers:?}"
    );
}

/// A started execution is still found by its idempotency key after the key has expired.
#[test]
fn a_key_that_has_run_out_names_the_last_one_that_had_it() {
    let mut world = World::new();
    let (id, _) = start(&mut world, keyed("cart", Some(SECOND)));
    world.advance(2 * SECOND);
    for cleaned in [false, true] {
        if cleaned {
            assert_eq!(clean(&mut world), 1);
        }
        let Reply::ByKey { execution_id, .. } = world.must(by_key(signal())) else { panic!("not by key") };
        assert_eq!(execution_id, id);
    }
}
