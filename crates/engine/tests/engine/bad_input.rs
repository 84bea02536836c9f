//! Invalid texts, payloads, ids and durations, in every field that can contain them.

use flovyn_engine::ids::{Payload, Text};
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Op};
use uuid::Uuid;

use crate::scene::{Scene, capability, start, task, worker};
use crate::world::{QUEUE, claim, create_promise, done, id, json, schedule_child, start_timer, submit};

/// Every request that writes text, with U+0000 in each of its texts in turn.
fn with_nul(scene: &Scene) -> Vec<Op> {
    let nul = || Text::from("a\0b");
    let (task_id, execution_id) = (scene.task_id, scene.activation.execution.id);
    let spec = |change: fn(&mut TaskSpec)| {
        let mut spec = TaskSpec::new("mail", Payload::new());
        change(&mut spec);
        scene.commands(vec![Command::ScheduleTask { task_id: id(1), spec }])
    };
    let child = |change: fn(&mut ScheduleChild)| {
        let Command::ScheduleChild(mut child) = schedule_child(1, "order") else { unreachable!() };
        change(&mut child);
        scene.commands(vec![Command::ScheduleChild(child)])
    };
    let fail_task = |change: fn(&mut FailTask)| {
        let (error, failure) = ("no".into(), Failure::default());
        let mut fail =
            FailTask { task_id, token: None, error, failure, non_retryable: false, next_delay_ms: None };
        change(&mut fail);
        fail.into()
    };
    let failed = |change: fn(&mut Text, &mut Option<Text>, &mut Option<Text>)| {
        let (mut error, mut kind, mut stack_trace) = (Text::from("no"), None, None);
        change(&mut error, &mut kind, &mut stack_trace);
        scene.outcome(Outcome::Failed { error, failure: Failure { kind, details: None }, stack_trace })
    };
    let key = |name: Text| Some(KeySpec { name, ttl_ms: None });
    vec![
        start(|s| s.kind = nul()),
        start(|s| s.queue = nul()),
        start(|s| s.workflow_version = Some(nul())),
        start(|s| s.traceparent = Some(nul())),
        start(|s| s.labels = vec![(nul(), "1".into())]),
        start(|s| s.labels = vec![("a".into(), nul())]),
        start(|s| s.key = key(nul())),
        start(|s| s.parent = Some(Parent { id: execution_id, name: nul() })),
        SignalWorkflow { execution_id, name: nul(), value: json("1") }.into(),
        CancelWorkflow { execution_id, reason: nul(), cascade: false }.into(),
        TerminateWorkflow { execution_id, reason: nul() }.into(),
        AnswerPromise { promise: PromiseRef::Id(id(1)), answer: Answer::Reject(nul()) }.into(),
        scene.commands(vec![Command::RecordOperation { name: nul(), result: json("1") }]),
        scene.commands(vec![Command::SetState { name: nul(), value: json("1") }]),
        scene.commands(vec![Command::ClearState { name: nul() }]),
        scene.commands(vec![start_timer(&nul(), 1)]),
        scene.commands(vec![create_promise(&nul(), None)]),
        scene.commands(vec![Command::CreatePromise { name: "p".into(), timeout_ms: None, key: key(nul()) }]),
        scene.commands(vec![Command::RequestCancelChild { child_id: id(1), reason: nul() }]),
        spec(|spec| spec.task_type = "a\0b".into()),
        spec(|spec| spec.queue = Some("a\0b".into())),
        spec(|spec| spec.key = Some(KeySpec { name: "a\0b".into(), ttl_ms: None })),
        child(|child| child.name = "a\0b".into()),
        child(|child| child.kind = "a\0b".into()),
        child(|child| child.queue = Some("a\0b".into())),
        child(|child| child.workflow_version = Some("a\0b".into())),
        failed(|error, _, _| *error = "a\0b".into()),
        failed(|_, failure_type, _| *failure_type = Some("a\0b".into())),
        failed(|_, _, stack_trace| *stack_trace = Some("a\0b".into())),
        scene.outcome(Outcome::Cancelled { reason: nul() }),
        scene.outcome(Outcome::ActivationFailed { code: nul(), message: "m".into() }),
        SubmitActivation {
            unread_signals: 0,
            first_number: None,
            build_id: Some(nul()),
            ..submit(
                &scene.activation,
                Vec::new(),
                Outcome::ActivationFailed { code: "c".into(), message: "m".into() },
            )
        }
        .into(),
        Claim { queue: nul(), ..claim(WorkClass::Task, "mail") }.into(),
        Claim {
            claimer: Claimer { worker: nul(), session: None, plain: false, cooperative: false, build: None },
            ..claim(WorkClass::Task, "mail")
        }
        .into(),
        task(|t| t.task_type = nul()),
        task(|t| t.queue = Some(nul())),
        task(|t| t.key = key(nul())),
        CreateTask {
            traceparent: Some(nul()),
            ..CreateTask::standalone(TaskSpec::new("mail", Payload::new()))
        }
        .into(),
        fail_task(|f| f.error = "a\0b".into()),
        fail_task(|f| f.failure.kind = Some("a\0b".into())),
        ReportProgress { task_id, token: None, progress: 0.5, details: Some(nul()) }.into(),
        AppendLogLine { task_id, token: None, level: LogLevel::Info, message: nul() }.into(),
        SetTaskState { task_id, token: None, name: nul(), value: json("1") }.into(),
        CreateTenant { id: None, slug: nul(), name: "n".into(), retention_ms: None }.into(),
        CreateTenant { id: None, slug: "slug".into(), name: nul(), retention_ms: None }.into(),
        UpdateTenant { name: nul(), retention_ms: None }.into(),
        CreateWorkerToken { name: nul(), hash: Payload::from_static(&[7; 32]), expires_ms: None }.into(),
        worker(|w| w.name = nul()),
        worker(|w| w.build_id = nul()),
        worker(|w| w.host = nul()),
        worker(|w| w.process_id = nul()),
        worker(|w| w.queue = Some(nul())),
        worker(|w| w.capabilities = vec![capability("a\0b")]),
        worker(|w| w.capabilities = vec![Capability { version: Some(nul()), ..capability("a") }]),
        PauseQueue { queue: nul() }.into(),
        ResumeQueue { queue: nul() }.into(),
    ]
}

#[test]
fn a_nul_in_any_text_that_is_written_is_refused() {
    let mut scene = Scene::new(Limits::default());
    for op in with_nul(&scene) {
        scene.world.refused(op, Code::InvalidText);
    }
}

/// A database refuses such a text in a query as well as in a write.
#[test]
fn a_nul_in_any_text_that_is_looked_up_is_refused() {
    let scene = Scene::new(Limits::default());
    let nul = || Text::from("a\0b");
    let task_id = scene.task_id;
    let kind = |kind: Text, versions| ClaimKind { kind, versions, timeout_ms: None };
    let ops: Vec<Op> = vec![
        AnswerPromise { promise: PromiseRef::Key(nul()), answer: Answer::Resolve(json("1")) }.into(),
        scene.commands(vec![Command::CancelTimer { timer_id: nul() }]),
        GetTaskState { task_id, name: nul() }.into(),
        ClearTaskState { task_id, token: None, name: nul() }.into(),
        Claim { kinds: vec![kind(nul(), Vec::new())], ..claim(WorkClass::Task, "x") }.into(),
        Claim { kinds: vec![kind("order".into(), vec![nul()])], ..claim(WorkClass::Workflow, "x") }.into(),
        Claim {
            claimer: Claimer { build: Some(nul()), ..claim(WorkClass::Workflow, "x").claimer },
            ..claim(WorkClass::Workflow, "x")
        }
        .into(),
    ];
    let mut let_through = Vec::new();
    for op in ops {
        match scene.world.clone().ask(op.clone()) {
            Err(refusal) if refusal.code == Code::InvalidText => {}
            other => let_through.push(format!("{op:?}: {other:?}")),
        }
    }
    assert!(let_through.is_empty(), "not refused as text:\n{}", let_through.join("\n"));
}

#[test]
fn a_payload_that_is_not_json_is_refused_wherever_it_stands() {
    let mut scene = Scene::new(Limits::default());
    let broken = || json("{not json");
    let (task_id, execution_id) = (scene.task_id, scene.activation.execution.id);
    let Command::ScheduleChild(child) = schedule_child(1, "order") else { unreachable!() };
    let ops: Vec<Op> = vec![
        start(|s| s.input = broken()),
        StartWorkflows { items: vec![StartWorkflow::new("order", QUEUE, broken())] }.into(),
        SignalWorkflow { execution_id, name: "go".into(), value: broken() }.into(),
        AnswerPromise { promise: PromiseRef::Id(id(1)), answer: Answer::Resolve(broken()) }.into(),
        scene.commands(vec![Command::RecordOperation { name: "op".into(), result: broken() }]),
        scene.commands(vec![Command::SetState { name: "s".into(), value: broken() }]),
        scene.commands(vec![Command::ScheduleTask { task_id: id(1), spec: TaskSpec::new("mail", broken()) }]),
        scene.commands(vec![Command::ScheduleChild(ScheduleChild { input: broken(), ..child })]),
        scene.outcome(Outcome::Completed { output: broken() }),
        task(|t| t.input = broken()),
        CompleteTask { task_id, token: None, output: broken(), next: None }.into(),
        HeartbeatTask { task_id, token: None, details: Some(broken()) }.into(),
        SetTaskState { task_id, token: None, name: "s".into(), value: broken() }.into(),
        // Other values that are refused with the code of an invalid payload.
        ReportProgress { task_id, token: None, progress: f64::NAN, details: None }.into(),
        ReportProgress { task_id, token: None, progress: 1.5, details: None }.into(),
        CreateWorkerToken { name: "t".into(), hash: Payload::from_static(&[7; 31]), expires_ms: None }.into(),
    ];
    for op in ops {
        scene.world.refused(op, Code::InvalidPayload);
    }
}

#[test]
fn the_nil_id_is_refused_wherever_a_caller_chooses_one() {
    let mut scene = Scene::new(Limits::default());
    let Command::ScheduleChild(child) = schedule_child(1, "order") else { unreachable!() };
    let nil = Uuid::nil();
    let ops: Vec<Op> = vec![
        scene.commands(vec![Command::ScheduleTask { task_id: nil, spec: TaskSpec::new("mail", json("1")) }]),
        scene.commands(vec![Command::ScheduleChild(ScheduleChild { child_id: nil, ..child })]),
        CreateTenant { id: Some(nil), slug: "slug".into(), name: "n".into(), retention_ms: None }.into(),
        worker(|w| w.id = Some(nil)),
    ];
    for op in ops {
        scene.world.refused(op, Code::InvalidId);
    }
}

#[test]
fn durations_and_policies_out_of_range_are_refused() {
    let mut scene = Scene::new(Limits::default());
    let too_long = Limits::default().duration_max_ms + 1;
    let policy =
        |initial_ms, factor, cap_ms| task(|t| t.retry = Some(RetryPolicy { initial_ms, factor, cap_ms }));
    for ms in [-1, 0, too_long] {
        for op in [
            start(|s| s.execution_timeout_ms = Some(ms)),
            task(|t| t.schedule_to_start_ms = Some(ms)),
            task(|t| t.start_to_close_ms = Some(ms)),
            task(|t| t.total_ms = Some(ms)),
            task(|t| t.heartbeat_ms = Some(ms)),
            worker(|w| w.capabilities = vec![Capability { timeout_ms: Some(ms), ..capability("a") }]),
            UpdateTenant { name: "n".into(), retention_ms: Some(ms) }.into(),
        ] {
            scene.world.refused(op, Code::InvalidDuration);
        }
    }
    for op in [
        start(|s| s.scheduled_ms = Some(-1)),
        start(|s| s.scheduled_ms = Some(i64::MAX)),
        start(|s| s.priority_seconds = i64::MIN),
        task(|t| t.priority_seconds = i64::MAX),
        scene.commands(vec![create_promise("p", Some(-1))]),
    ] {
        scene.world.refused(op, Code::InvalidDuration);
    }
    for op in [
        policy(0, 2.0, 1_000),
        policy(1_000, 2.0, 0),
        policy(1_000, 0.5, 1_000),
        policy(1_000, f64::NAN, 1_000),
        policy(1_000, f64::INFINITY, 1_000),
        policy(too_long, 2.0, 1_000),
        policy(1_000, 2.0, i64::MAX),
        task(|t| t.max_retries = Some(-1)),
    ] {
        scene.world.refused(op, Code::InvalidRetryPolicy);
    }
    scene.world.must(scene.outcome(done()));
}
