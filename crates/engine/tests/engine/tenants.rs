//! Ids of another tenant are unknown: a caller can neither learn nor change anything by them.

use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Class, Op, Reply};
use uuid::Uuid;

use crate::world::{
    QUEUE, TENANT, World, claim, complete, done, id, json, schedule_child, schedule_task, start_timer, submit,
};

const STRANGER: Uuid = Uuid::from_u128(0xB000_0000_0000_7000_8000_0000_0000_0002);

#[test]
fn a_stranger_finds_nothing_by_the_ids_of_another_tenant() {
    let mut world = World::new();
    let door = Some(KeySpec { name: "door".into(), ttl_ms: None });
    let commands = vec![
        schedule_task(1, "own"),
        start_timer("t", 60_000),
        Command::CreatePromise { name: "p".into(), timeout_ms: None, key: door },
    ];
    let waiting = world.suspended("waiting", commands);
    let promise = world.snapshot().promises[0].id;
    world.start("running");
    let running = world.claim_workflow("running");
    let failed = world.start("failed");
    world.must(TerminateWorkflow { execution_id: failed, reason: "stop".into() });
    let task_id = world.create_task("job");
    let delivery = world.claim_task("job");
    let Reply::Registered { worker_id } = world.must(RegisterWorker {
        id: None,
        name: "w".into(),
        build_id: "b".into(),
        host: "h".into(),
        process_id: "1".into(),
        queue: None,
        capabilities: Vec::new(),
        session: true,
    }) else {
        panic!("not registered")
    };
    let answer = || Answer::Resolve(json("1"));
    let start_under = Parent { id: waiting, name: "child".into() };
    let ops: Vec<Op> = vec![
        StartWorkflow { parent: Some(start_under), ..StartWorkflow::new("x", QUEUE, json("1")) }.into(),
        SignalWorkflow { execution_id: waiting, name: "s".into(), value: json("1") }.into(),
        CancelWorkflow { execution_id: waiting, reason: "r".into(), cascade: true }.into(),
        TerminateWorkflow { execution_id: waiting, reason: "r".into() }.into(),
        AnswerPromise { promise: PromiseRef::Id(promise), answer: answer() }.into(),
        AnswerPromise { promise: PromiseRef::Key("door".into()), answer: answer() }.into(),
        submit(&running, Vec::new(), done()).into(),
        ReleaseWorkflowClaim { execution_id: running.execution.id, token: running.token }.into(),
        ReleaseHeldBack { execution_id: waiting }.into(),
        RetryWorkflow { execution_id: failed, key: None }.into(),
        DeleteWorkflow { execution_id: failed }.into(),
        CreateTask { execution_id: Some(waiting), ..CreateTask::standalone(TaskSpec::new("x", json("1"))) }
            .into(),
        complete(&delivery).into(),
        HeartbeatTask { task_id, token: Some(delivery.token), details: None }.into(),
        ReportProgress { task_id, token: None, progress: 0.5, details: None }.into(),
        AppendLogLine { task_id, token: None, level: LogLevel::Info, message: "m".into() }.into(),
        SetTaskState { task_id, token: None, name: "s".into(), value: json("1") }.into(),
        GetTaskState { task_id, name: "s".into() }.into(),
        ListTaskState { task_id }.into(),
        ClearTaskState { task_id, token: None, name: "s".into() }.into(),
        ClearAllTaskState { task_id, token: None }.into(),
        CancelTask { task_id, cooperative: true }.into(),
        ReleaseTaskClaim { task_id, token: delivery.token }.into(),
        RetryTask { task_id }.into(),
        DeleteTask { task_id }.into(),
        HeartbeatWorker { worker_id }.into(),
    ];
    let before = world.snapshot();
    for op in ops {
        let refusal = world.ask_as(STRANGER, op.clone()).expect_err("a stranger is refused");
        assert_eq!(refusal.code.class(), Class::NotFound, "{refusal} for {op:?}");
    }
    assert!(before == world.snapshot(), "a stranger changed something");
}

#[test]
fn a_stranger_is_given_no_work_of_another_tenant() {
    let mut world = World::new();
    world.start("order");
    world.create_task("mail");
    for (class, kind) in [(WorkClass::Workflow, "order"), (WorkClass::Task, "mail")] {
        match world.ask_as(STRANGER, claim(class, kind)) {
            Ok(Reply::Claimed(claimed)) => assert!(claimed.is_empty()),
            other => panic!("{other:?}"),
        }
    }
}

/// Equal ids in the commands of two tenants name different rows.
#[test]
fn two_tenants_may_use_the_same_ids() {
    let mut world = World::new();
    let commands = || vec![schedule_task(1, "own"), start_timer("t", 60_000), schedule_child(2, "child")];
    world.suspended("order", commands());
    world.ask_as(STRANGER, StartWorkflow::new("order", QUEUE, json("1"))).unwrap();
    let claimed = world.ask_as(STRANGER, claim(WorkClass::Workflow, "order"));
    let Ok(Reply::Claimed(claimed)) = claimed else { panic!("{claimed:?}") };
    world.ask_as(STRANGER, submit(&claimed.workflows[0], commands(), Outcome::Suspended)).unwrap();
    let tasks = world.snapshot().tasks;
    assert_eq!(tasks.iter().filter(|row| row.id == id(1)).count(), 2);
}

/// A command that names another tenant's child, task or promise as its own is refused.
#[test]
fn commands_reach_nothing_of_another_tenant() {
    let mut world = World::new();
    world.suspended("order", vec![schedule_task(1, "own"), schedule_child(2, "child")]);
    world.ask_as(STRANGER, StartWorkflow::new("order", QUEUE, json("1"))).unwrap();
    let claimed = world.ask_as(STRANGER, claim(WorkClass::Workflow, "order"));
    let Ok(Reply::Claimed(claimed)) = claimed else { panic!("{claimed:?}") };
    let before = world.snapshot();
    for command in [
        Command::CancelTask { task_id: id(1) },
        Command::RequestCancelChild { child_id: id(2), reason: "r".into() },
    ] {
        let op = submit(&claimed.workflows[0], vec![command], Outcome::Suspended);
        let mut tried = world.clone();
        assert_eq!(tried.ask_as(STRANGER, op).unwrap_err().code.class(), Class::NotFound);
        // The tenant's own claim has ended; the other tenant's rows are unchanged.
        let after = tried.snapshot();
        let of_tenant =
            |rows: Vec<Execution>| rows.into_iter().filter(|row| row.tenant_id == TENANT).collect();
        let (had, has): (Vec<_>, Vec<_>) =
            (of_tenant(before.executions.clone()), of_tenant(after.executions));
        assert!(had == has && before.tasks == after.tasks && before.events == after.events);
    }
}
