//! Every limit refuses what exceeds it, by name, and a refused request leaves every row as it was.

use flovyn_engine::ids::{Payload, Text};
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Op};
use uuid::Uuid;

use crate::world::{
    QUEUE, World, claim, create_promise, done, id, json, schedule_child, schedule_task, start_timer, submit,
};

/// A world with one execution and one task that run, and what it takes to talk about them.
struct Scene {
    world: World,
    activation: flovyn_engine::reply::Activation,
    task_id: Uuid,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        let mut world = World::with(limits);
        world.start("order");
        let activation = world.claim_workflow("order");
        let task_id = world.create_task("mail");
        world.claim_task("mail");
        Self { world, activation, task_id }
    }

    fn commands(&self, commands: Vec<Command>) -> Op {
        submit(&self.activation, commands, Outcome::Suspended).into()
    }

    fn outcome(&self, outcome: Outcome) -> Op {
        submit(&self.activation, Vec::new(), outcome).into()
    }

    fn signal(&self) -> Op {
        SignalWorkflow { execution_id: self.activation.execution.id, name: "go".into(), value: json("1") }
            .into()
    }
}

fn start(change: impl FnOnce(&mut StartWorkflow)) -> Op {
    let mut start = StartWorkflow::new("order", QUEUE, Payload::new());
    change(&mut start);
    start.into()
}

fn task(change: impl FnOnce(&mut TaskSpec)) -> Op {
    let mut spec = TaskSpec::new("mail", Payload::new());
    change(&mut spec);
    CreateTask::standalone(spec).into()
}

fn keyed(name: &str, ttl_ms: Option<i64>) -> Op {
    start(|start| start.key = Some(KeySpec { name: name.into(), ttl_ms }))
}

fn worker(change: impl FnOnce(&mut RegisterWorker)) -> Op {
    let mut worker = RegisterWorker {
        id: None,
        name: "w".into(),
        build_id: "b".into(),
        host: "h".into(),
        process_id: "1".into(),
        queue: None,
        capabilities: Vec::new(),
        session: true,
    };
    change(&mut worker);
    worker.into()
}

fn capability(kind: &str) -> Capability {
    Capability { class: WorkClass::Task, kind: kind.into(), version: None, timeout_ms: None }
}

fn text(length: usize) -> Text {
    "ü".repeat(length).into()
}

fn payload(bytes: usize) -> Payload {
    json(&format!("\"{}\"", "x".repeat(bytes - 2)))
}

fn operations(count: usize) -> Vec<Command> {
    vec![Command::RecordOperation { name: "step".into(), result: json("1") }; count]
}

fn states(count: usize) -> Vec<Command> {
    (0..count).map(|n| Command::SetState { name: n.to_string().into(), value: json("1") }).collect()
}

fn tasks(count: usize) -> Vec<Command> {
    (0..count).map(|n| schedule_task(n as u128 + 1, "mail")).collect()
}

fn many_claims(kinds: usize, max: usize) -> Op {
    let one = claim(WorkClass::Task, "none");
    Claim { kinds: vec![one.kinds[0].clone(); kinds], max, ..one }.into()
}

/// A limit, what just fits, what exceeds it after some requests, and the code.
struct Case {
    limit: &'static str,
    tweak: fn(&mut Limits),
    fits: fn(&Scene) -> Op,
    before: fn(&Scene) -> Vec<Op>,
    exceeds: fn(&Scene) -> Op,
    code: Code,
}

macro_rules! case {
    ($limit:ident = $value:expr, $fits:expr, $exceeds:expr, $code:ident) => {
        case!($limit = $value, $fits, |_| Vec::new(), $exceeds, $code)
    };
    ($limit:ident = $value:expr, $fits:expr, $before:expr, $exceeds:expr, $code:ident) => {
        Case {
            limit: stringify!($limit),
            tweak: |limits| limits.$limit = $value,
            fits: $fits,
            before: $before,
            exceeds: $exceeds,
            code: Code::$code,
        }
    };
}

fn cases() -> Vec<Case> {
    vec![
        case!(
            payload_bytes = 64,
            |_| start(|s| s.input = payload(64)),
            |_| start(|s| s.input = payload(65)),
            PayloadTooLarge
        ),
        case!(
            name_chars = 16,
            |_| start(|s| s.kind = text(16)),
            |_| start(|s| s.kind = text(17)),
            InvalidName
        ),
        case!(
            text_bytes = 32,
            |s| AppendLogLine { task_id: s.task_id, level: LogLevel::Info, message: text(16) }.into(),
            |s| AppendLogLine { task_id: s.task_id, level: LogLevel::Info, message: text(17) }.into(),
            InvalidText
        ),
        case!(
            labels = 1,
            |_| start(|s| s.labels = vec![("a".into(), "1".into())]),
            |_| start(|s| s.labels = vec![("a".into(), "1".into()), ("b".into(), "1".into())]),
            TooManyLabels
        ),
        case!(
            label_chars = 8,
            |_| start(|s| s.labels = vec![("a".into(), text(8))]),
            |_| start(|s| s.labels = vec![("a".into(), text(9))]),
            TooManyLabels
        ),
        case!(history_events = 6, |s| s.commands(operations(3)), |s| s.commands(operations(4)), HistoryFull),
        case!(buffered_signals = 1, Scene::signal, |s| vec![s.signal()], Scene::signal, TooManySignals),
        case!(pending_tasks = 1, |s| s.commands(tasks(1)), |s| s.commands(tasks(2)), TooManyPendingTasks),
        case!(state_keys = 1, |s| s.commands(states(1)), |s| s.commands(states(2)), TooManyStateKeys),
        case!(commands = 2, |s| s.commands(operations(2)), |s| s.commands(operations(3)), InvalidBatch),
        case!(
            bulk_items = 1,
            |_| CleanIdempotencyKeys { until_ms: 0, max: 1 }.into(),
            |_| StartWorkflows { items: vec![StartWorkflow::new("order", QUEUE, Payload::new()); 2] }.into(),
            InvalidBatch
        ),
        case!(claim_items = 2, |_| many_claims(1, 2), |_| many_claims(1, 3), InvalidBatch),
        case!(claim_lanes = 2, |_| many_claims(2, 1), |_| many_claims(3, 1), InvalidBatch),
        case!(
            paused_queues = 1,
            |_| PauseQueue { queue: "a".into() }.into(),
            |_| vec![PauseQueue { queue: "a".into() }.into()],
            |_| PauseQueue { queue: "b".into() }.into(),
            TooManyQueuesPaused
        ),
        case!(
            capabilities = 1,
            |_| worker(|w| w.capabilities = vec![capability("a")]),
            |_| worker(|w| w.capabilities = vec![capability("a"), capability("b")]),
            InvalidBatch
        ),
        case!(
            max_retries = 5,
            |_| task(|t| t.max_retries = Some(5)),
            |_| task(|t| t.max_retries = Some(6)),
            InvalidRetryPolicy
        ),
        case!(ttl_min_ms = 1_000, |_| keyed("k", Some(1_000)), |_| keyed("k", Some(999)), InvalidTtl),
        case!(
            ttl_max_ms = 90_000_000,
            |_| keyed("k", Some(90_000_000)),
            |_| keyed("k", Some(90_000_001)),
            InvalidTtl
        ),
        case!(
            duration_max_ms = 60_000,
            |s| s.commands(vec![start_timer("t", 60_000)]),
            |s| s.commands(vec![start_timer("t", 60_001)]),
            InvalidDuration
        ),
    ]
}

#[test]
fn what_exceeds_a_limit_is_refused_by_name_and_changes_nothing() {
    for case in cases() {
        let mut limits = Limits::default();
        (case.tweak)(&mut limits);
        let mut scene = Scene::new(limits);
        let fits = (case.fits)(&scene);
        let fit = scene.world.clone().ask(fits);
        assert!(fit.is_ok(), "{}: what fits is refused: {fit:?}", case.limit);
        for op in (case.before)(&scene) {
            scene.world.must(op);
        }
        let exceeds = (case.exceeds)(&scene);
        scene.world.refused(exceeds, case.code);
    }
}

/// Does not compile when a limit is added: it belongs into the table above, or beside it with a test of its own.
#[test]
fn every_limit_has_its_case() {
    let Limits {
        payload_bytes: _,
        name_chars: _,
        text_bytes: _,
        labels: _,
        label_chars: _,
        history_events: _,
        buffered_signals: _,
        pending_tasks: _,
        state_keys: _,
        commands: _,
        bulk_items: _,
        claim_items: _,
        claim_lanes: _,
        paused_queues: _,
        capabilities: _,
        max_retries: _,
        ttl_min_ms: _,
        ttl_max_ms: _,
        duration_max_ms: _,
        // Not refusals: lines beyond the limit are dropped, the others are durations and sizes of steps.
        log_lines: _,
        ttl_default_ms: _,
        cancel_grace_ms: _,
        activation_backoff_ms: _,
        activation_backoff_max_ms: _,
        worker_silence_ms: _,
        session_lease_ms: _,
        workflow_lease_ms: _,
        task_lease_ms: _,
        announce_within_ms: _,
        unary_history_bytes: _,
    } = Limits::default();
    assert_eq!(cases().len(), 19);
}

#[test]
fn log_lines_beyond_the_limit_are_dropped_and_the_task_goes_on() {
    let mut scene = Scene::new(Limits { log_lines: 2, ..Limits::default() });
    for n in 0..5 {
        let message = n.to_string().into();
        scene.world.must(AppendLogLine { task_id: scene.task_id, level: LogLevel::Info, message });
    }
    let lines: Vec<Text> = scene.world.snapshot().task_logs.into_iter().map(|line| line.message).collect();
    assert_eq!(lines, ["0".into(), "1".into()]);
}

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
    let failed = |change: fn(&mut Text, &mut Option<Text>, &mut Option<Text>)| {
        let (mut error, mut failure_type, mut stack_trace) = (Text::from("no"), None, None);
        change(&mut error, &mut failure_type, &mut stack_trace);
        scene.outcome(Outcome::Failed { error, failure_type, stack_trace })
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
        scene.outcome(Outcome::ActivationFailed { code: "c".into(), message: nul() }),
        SubmitActivation {
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
            claimer: Claimer { worker: nul(), session: None, plain: false, cooperative: false },
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
        FailTask { task_id, token: None, error: nul(), non_retryable: false, next_delay_ms: None }.into(),
        ReportProgress { task_id, progress: 0.5, details: Some(nul()) }.into(),
        AppendLogLine { task_id, level: LogLevel::Info, message: nul() }.into(),
        SetTaskState { task_id, name: nul(), value: json("1") }.into(),
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

/// A database refuses such a text when it is looked up as well as when it is written.
#[test]
fn a_nul_in_any_text_that_is_looked_up_is_refused() {
    let scene = Scene::new(Limits::default());
    let nul = || Text::from("a\0b");
    let task_id = scene.task_id;
    let lane = Lane {
        tenant_id: crate::world::TENANT,
        class: WorkClass::HeldBack,
        queue: nul(),
        kind: "order".into(),
        version: Text::default(),
    };
    let kind = |kind: Text, versions| ClaimKind { kind, versions, timeout_ms: None };
    let ops: Vec<Op> = vec![
        AnswerPromise { promise: PromiseRef::Key(nul()), answer: Answer::Resolve(json("1")) }.into(),
        scene.commands(vec![Command::CancelTimer { timer_id: nul() }]),
        GetTaskState { task_id, name: nul() }.into(),
        ClearTaskState { task_id, name: nul() }.into(),
        Claim { kinds: vec![kind(nul(), Vec::new())], ..claim(WorkClass::Task, "x") }.into(),
        Claim { kinds: vec![kind("order".into(), vec![nul()])], ..claim(WorkClass::Workflow, "x") }.into(),
        ReleaseForBuild { build_id: "b".into(), lanes: vec![lane], max: 1 }.into(),
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
        CompleteTask { task_id, token: None, output: broken() }.into(),
        HeartbeatTask { task_id, token: None, details: Some(broken()) }.into(),
        SetTaskState { task_id, name: "s".into(), value: broken() }.into(),
        // Other things that are not what they should be.
        ReportProgress { task_id, progress: f64::NAN, details: None }.into(),
        ReportProgress { task_id, progress: 1.5, details: None }.into(),
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
