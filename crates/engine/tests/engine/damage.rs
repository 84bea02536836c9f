//! A world with at least one row of each kind, and every kind of damage that a test can plant in it.

use flovyn_engine::invariants::Promised;
use flovyn_engine::request::*;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;

use crate::world::{
    BEGIN_MS, TENANT, World, complete, create_promise, id, json, schedule_child, schedule_task, start_timer,
    submit,
};

/// A world with executions and tasks in every state: open, running, delayed, held back, finished and being deleted.
pub(crate) fn sound() -> World {
    let mut world = World::new();
    let (slug, name) = ("acme".into(), "Acme".into());
    world.must(CreateTenant { id: Some(TENANT), slug, name, retention_ms: None });
    world.must(SetQuota { requests_per_second: Some(10), ..SetQuota::default() });
    let commands = vec![
        schedule_task(1, "open"),
        schedule_task(2, "done"),
        start_timer("later", 1_000),
        start_timer("fired", 0),
        create_promise("late", Some(1_000)),
        schedule_child(10, "child"),
        Command::SetState { name: "step".into(), value: json("1") },
    ];
    world.suspended("waiting", commands);
    world.fire_all();
    let delivery = world.claim_task("done");
    world.must(complete(&delivery));
    let activation = world.claim_workflow("waiting");
    world.must(submit(&activation, Vec::new(), Outcome::Suspended));

    world.start("pending");
    world.start("running");
    world.claim_workflow("running");
    let mut delayed = StartWorkflow::new("delayed", "main", json("1"));
    delayed.scheduled_ms = Some(BEGIN_MS + 5_000);
    world.must(delayed);
    let mut timed = StartWorkflow::new("timed", "main", json("1"));
    timed.execution_timeout_ms = Some(5_000);
    world.must(timed);
    world.start("held");
    let activation = world.claim_workflow("held");
    let failed = Outcome::ActivationFailed { code: "PANIC".into(), message: "no".into() };
    world.must(submit(&activation, Vec::new(), failed));
    let asked = world.suspended("asked", Vec::new());
    world.must(CancelWorkflow { execution_id: asked, reason: "stop".into(), cascade: false });
    let stopped = world.suspended("stopped", vec![schedule_task(3, "left-over")]);
    world.must(TerminateWorkflow { execution_id: stopped, reason: "stop".into() });
    let deleted = world.suspended("deleted", Vec::new());
    world.must(TerminateWorkflow { execution_id: deleted, reason: "stop".into() });
    world.must(DeleteWorkflow { execution_id: deleted });
    let mut keyed = StartWorkflow::new("keyed", "main", json("1"));
    keyed.key = Some(KeySpec { name: "key".into(), ttl_ms: None });
    world.must(keyed);
    let mut held = StartWorkflow::new("entity", "main", json("1"));
    held.key = Some(KeySpec { name: "lasting".into(), ttl_ms: None });
    world.must(SignalWithStart { start: held, name: "go".into(), value: json("1") });

    world.create_task("pending");
    world.create_task("running");
    world.claim_task("running");
    let mut later = CreateTask::standalone(TaskSpec::new("delayed", json("1")));
    later.scheduled_ms = Some(BEGIN_MS + 5_000);
    world.must(later);
    let mut spec = TaskSpec::new("timed", json("1"));
    spec.total_ms = Some(5_000);
    world.create(spec);
    world.create_task("failed once");
    let delivery = world.claim_task("failed once");
    world.must(FailTask {
        task_id: delivery.task.id,
        token: Some(delivery.token),
        error: "no".into(),
        failure: Failure::default(),
        non_retryable: false,
        next_delay_ms: Some(5_000),
    });
    let deleted = world.create_task("deleted");
    world.must(CancelTask { task_id: deleted, cooperative: false });
    world.must(DeleteTask { task_id: deleted });
    let activation = world.claim_workflow("asked");
    world.must(submit(&activation, Vec::new(), Outcome::Suspended));
    world
}

fn execution<'a>(snapshot: &'a mut Snapshot, kind: &str) -> &'a mut Execution {
    snapshot.executions.iter_mut().find(|row| &*row.kind == kind).unwrap()
}

fn task<'a>(snapshot: &'a mut Snapshot, task_type: &str) -> &'a mut Task {
    snapshot.tasks.iter_mut().find(|row| &*row.task_type == task_type).unwrap()
}

fn remove_due(snapshot: &mut Snapshot, class: DueClass) {
    let before = snapshot.due.len();
    snapshot.due.retain(|row| row.class != class);
    assert!(snapshot.due.len() < before, "there was no {class}");
}

fn remove_ready(snapshot: &mut Snapshot, class: WorkClass) {
    let before = snapshot.ready.len();
    snapshot.ready.retain(|row| row.lane.class != class);
    assert!(snapshot.ready.len() < before, "there was no {class}");
}

/// Removes the alarm of an execution as if it had never been set.
pub(crate) fn forget_alarm(snapshot: &mut Snapshot, kind: &str) {
    let row = execution(snapshot, kind);
    assert!(row.alarm_ms.take().is_some());
    let id = row.id;
    snapshot.due.retain(|due| due.id != id || due.class != DueClass::ExecutionAlarm);
}

pub(crate) fn forget_task_alarm(snapshot: &mut Snapshot, task_type: &str) {
    let row = task(snapshot, task_type);
    assert!(row.alarm_ms.take().is_some());
    let id = row.id;
    snapshot.due.retain(|due| due.id != id || due.class != DueClass::TaskAlarm);
}

fn events<'a>(snapshot: &'a mut Snapshot, kind: &str) -> Vec<&'a mut Event> {
    let id = execution(snapshot, kind).id;
    snapshot.events.iter_mut().filter(|event| event.execution_id == id).collect()
}

fn drop_event(snapshot: &mut Snapshot, kind: EventKind) {
    let place = snapshot.events.iter().position(|event| event.kind == kind).unwrap();
    snapshot.events.remove(place);
}

pub(crate) type Damage = (&'static str, Promised, fn(&mut Snapshot));

pub(crate) const ORPHANS: &[Damage] = &[
    ("a timer that nothing fires", Promised::P6, |s| remove_due(s, DueClass::Timer)),
    ("a promise that nothing times out", Promised::P6, |s| remove_due(s, DueClass::PromiseTimeout)),
    ("an execution alarm without its row", Promised::P6, |s| remove_due(s, DueClass::ExecutionAlarm)),
    ("a task alarm without its row", Promised::P6, |s| remove_due(s, DueClass::TaskAlarm)),
    ("an execution's lease that nothing ends", Promised::P6, |s| remove_due(s, DueClass::ExecutionLease)),
    ("a task's lease that nothing ends", Promised::P6, |s| remove_due(s, DueClass::TaskLease)),
    ("left-over items that nothing closes", Promised::P6, |s| remove_due(s, DueClass::CloseItems)),
    ("a deleted execution that nothing purges", Promised::P6, |s| remove_due(s, DueClass::PurgeExecution)),
    ("a deleted task that nothing purges", Promised::P6, |s| remove_due(s, DueClass::PurgeTask)),
    ("a pending execution that nobody can claim", Promised::P6, |s| remove_ready(s, WorkClass::Workflow)),
    ("a pending task that nobody can claim", Promised::P6, |s| remove_ready(s, WorkClass::Task)),
    ("a held-back execution that no build finds", Promised::P6, |s| remove_ready(s, WorkClass::HeldBack)),
    ("a delayed start that nothing brings", Promised::P6, |s| forget_alarm(s, "delayed")),
    ("a back-off that nothing ends", Promised::P6, |s| forget_alarm(s, "held")),
    ("an execution timeout that will not fire", Promised::P6, |s| forget_alarm(s, "timed")),
    ("a delayed task that nothing brings", Promised::P6, |s| forget_task_alarm(s, "delayed")),
    ("a running execution without a lease", Promised::P6, |s| execution(s, "running").lease_until_ms = None),
    ("a running task without a lease", Promised::P6, |s| task(s, "running").lease_until_ms = None),
    ("a lost wake-up", Promised::P6, |s| execution(s, "waiting").base_sequence -= 1),
    ("a second alarm row", Promised::P6, |s| {
        let mut second = s.due.iter().find(|row| row.class == DueClass::ExecutionAlarm).unwrap().clone();
        second.due_ms += 1;
        s.due.push(second);
    }),
    ("the alarm of a timer that was cancelled", Promised::P6, |s| {
        s.timers.iter_mut().find(|row| row.status == TimerStatus::Open).unwrap().status =
            TimerStatus::Cancelled;
    }),
    ("the ready row of what runs", Promised::P6, |s| {
        let row = execution(s, "running").clone();
        let class = WorkClass::Workflow;
        s.ready.push(Ready { lane: row.lane(class), sort_ms: row.sort_ms(), id: row.id });
    }),
    ("the ready row of nobody", Promised::P6, |s| s.ready[0].id = id(999)),
    ("the alarm of an execution that is not there", Promised::P6, |s| {
        s.due.push(Due::new(DueClass::ExecutionAlarm, BEGIN_MS, TENANT, id(999)));
    }),
    ("the alarm of a task that is not there", Promised::P6, |s| {
        s.due.push(Due::new(DueClass::TaskAlarm, BEGIN_MS, TENANT, id(999)));
    }),
    ("the timeout of a promise that is not there", Promised::P6, |s| {
        s.due.push(Due::new(DueClass::PromiseTimeout, BEGIN_MS, TENANT, id(999)));
    }),
];

pub(crate) const BROKEN_LOGS: &[Damage] = &[
    ("a gap in a log", Promised::P3, |s| drop_event(s, EventKind::TimerStarted)),
    ("a log without its start", Promised::P3, |s| {
        events(s, "pending")[0].kind = EventKind::SignalReceived;
    }),
    ("a finished execution without its end", Promised::P3, |s| drop_event(s, EventKind::WorkflowCancelled)),
    ("an end that is not last", Promised::P3, |s| {
        events(s, "waiting")[1].kind = EventKind::WorkflowCompleted
    }),
    ("times that go back", Promised::P3, |s| events(s, "waiting")[2].time_ms -= 1_000),
    ("events of nobody", Promised::P3, |s| {
        let mut stray = s.events[0].clone();
        stray.execution_id = id(999);
        s.events.push(stray);
    }),
    ("a task too many", Promised::P7, |s| execution(s, "waiting").open_tasks += 1),
    ("a timer too few", Promised::P7, |s| execution(s, "waiting").open_timers -= 1),
    ("a promise too many", Promised::P7, |s| execution(s, "waiting").open_promises += 1),
    ("a child too few", Promised::P7, |s| execution(s, "waiting").open_children -= 1),
    ("a refusal without a reason", Promised::P12, |s| execution(s, "waiting").equal_refusals = 1),
    ("a quota that lost count", Promised::P7, |s| s.quotas[0].open_workflows -= 1),
    ("a bucket that holds too much", Promised::P7, |s| s.quotas[0].bucket += 1),
    ("a counted workflow without a quota", Promised::P7, |s| s.quotas.clear()),
    ("a state key that no event set", Promised::P7, |s| s.states[0].name = "other".into()),
    ("a wrong last external event", Promised::P7, |s| execution(s, "waiting").last_external_sequence = 1),
    ("a status that the log does not know", Promised::P7, |s| {
        execution(s, "pending").status = ExecutionStatus::Completed;
    }),
    ("a timer that fired early", Promised::P8, |s| {
        s.timers.iter_mut().find(|row| &*row.name == "fired").unwrap().fire_ms += 1;
    }),
    ("a timer that fired twice", Promised::P5, |s| {
        let fired = s.events.iter().find(|event| event.kind == EventKind::TimerFired).unwrap().clone();
        events(s, "waiting")[1].kind = EventKind::TimerFired;
        events(s, "waiting")[1].name = fired.name;
    }),
    ("a task that is not in the log", Promised::P5, |s| drop_event(s, EventKind::TaskScheduled)),
    ("a result that is not in the log", Promised::P5, |s| drop_event(s, EventKind::TaskCompleted)),
    ("a result that is in the log twice", Promised::P5, |s| {
        let subject = s.events.iter().find(|event| event.kind == EventKind::TaskCompleted).unwrap().subject;
        events(s, "waiting")[1].kind = EventKind::TaskFailed;
        events(s, "waiting")[1].subject = subject;
    }),
    ("an attempt that was not recorded", Promised::P4, |s| {
        s.attempts.pop().unwrap();
    }),
    ("an attempt that ended before it began", Promised::P4, |s| s.attempts[0].finished_ms = 0),
    ("two outcomes of one task", Promised::P4, |s| {
        let done = task(s, "done").clone();
        let mut second = done.ended_attempts(Vec::new()).remove(0);
        second.attempt += 1;
        s.attempts.push(second);
    }),
    ("a success of an attempt that has failed", Promised::P4, |s| {
        let done = task(s, "done").clone();
        let [mut attempt] = <[Attempt; 1]>::try_from(done.ended_attempts(Vec::new())).unwrap();
        attempt.status = AttemptStatus::Failed;
        s.attempts.push(attempt);
    }),
    ("a key held by what has failed", Promised::P2, |s| {
        let stopped = execution(s, "stopped").id;
        s.keys[0].holder_id = stopped;
    }),
    ("a second execution for one key", Promised::P2, |s| {
        let mut double = execution(s, "keyed").clone();
        (double.id, double.created_ms) = (id(999), double.created_ms + 1);
        s.executions.push(double);
    }),
    ("a workflow key that is free while its execution is open", Promised::P13, |s| {
        s.keys.retain(|key| &*key.name != "lasting");
    }),
    ("a workflow key that runs out while its execution is open", Promised::P13, |s| {
        let key = s.keys.iter_mut().find(|key| &*key.name == "lasting").unwrap();
        key.expires_ms = BEGIN_MS + 1_000;
        key.ttl_after_end_ms = None;
    }),
    ("a workflow key that a second execution took over", Promised::P13, |s| {
        let mut double = execution(s, "entity").clone();
        double.id = id(998);
        let key = s.keys.iter_mut().find(|key| &*key.name == "lasting").unwrap();
        key.holder_id = double.id;
        s.executions.push(double);
    }),
];
