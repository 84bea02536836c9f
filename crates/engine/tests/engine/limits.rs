//! Every limit refuses what exceeds it, with a code. A refused request leaves every row unchanged, except that a
//! refused report ends its claim.

use flovyn_engine::ids::{Payload, Text};
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Op};

use crate::scene::{Scene, capability, keyed, start, task, worker};
use crate::world::{QUEUE, claim, json, schedule_task, start_timer};

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

/// A limit: a request that just fits, a request that exceeds it after some preparation, and the code.
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

fn failed_with(details: Payload) -> Outcome {
    let failure = Failure { kind: None, details: Some(details) };
    Outcome::Failed { error: "no".into(), failure, stack_trace: None }
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
            version_bytes = 32,
            |_| start(|s| s.workflow_version = Some(text(16))),
            |_| start(|s| s.workflow_version = Some(text(17))),
            InvalidName
        ),
        case!(
            text_bytes = 32,
            |s| AppendLogLine {
                task_id: s.task_id,
                token: Some(1),
                level: LogLevel::Info,
                message: text(16)
            }
            .into(),
            |s| AppendLogLine {
                task_id: s.task_id,
                token: Some(1),
                level: LogLevel::Info,
                message: text(17)
            }
            .into(),
            InvalidText
        ),
        case!(
            failure_details_bytes = 64,
            |s| s.outcome(failed_with(payload(64))),
            |s| s.outcome(failed_with(payload(65))),
            PayloadTooLarge
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
        case!(history_events = 7, |s| s.commands(operations(3)), |s| s.commands(operations(4)), HistoryFull),
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

/// Does not compile when a limit is added: a new limit belongs into the table above, or here with a test of its own.
#[test]
fn every_limit_has_its_case() {
    let Limits {
        payload_bytes: _,
        name_chars: _,
        version_bytes: _,
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
        // These limits refuse nothing: lines beyond the limit are dropped; the others are durations and sizes of steps.
        log_lines: _,
        // See endings.rs and refusals.rs.
        deferred_ends: _,
        equal_refusals: _,
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
        failure_details_bytes: _,
    } = Limits::default();
    assert_eq!(cases().len(), 21);
}

#[test]
fn log_lines_beyond_the_limit_are_dropped_and_the_task_goes_on() {
    let mut scene = Scene::new(Limits { log_lines: 2, ..Limits::default() });
    for n in 0..5 {
        let message = n.to_string().into();
        scene.world.must(AppendLogLine {
            task_id: scene.task_id,
            token: Some(1),
            level: LogLevel::Info,
            message,
        });
    }
    let lines: Vec<Text> = scene.world.snapshot().task_logs.into_iter().map(|line| line.message).collect();
    assert_eq!(lines, ["0".into(), "1".into()]);
}
