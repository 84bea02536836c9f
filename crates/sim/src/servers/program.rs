//! Workflows that are derived from a number: their steps, the expected result, and the next commands for a history.

use bytes::Bytes;
use flovyn_engine::ids::{ExecutionId, Payload, Text, named_id};
use flovyn_engine::request::{Command, Outcome, ScheduleChild, TaskSpec};
use flovyn_engine::state::{Event, EventKind, RetryPolicy};
use flovyn_store::LoggedEvent;
use serde_json::{Value, json};

use crate::rng::Rng;

pub(super) const KIND: &str = "program";
pub(super) const TASK: &str = "double";
pub(super) const QUEUE: &str = "default";
/// Programs of children have no children themselves.
const CHILDREN: u64 = 1 << 32;
const SIGNALLED: u64 = 3;
const ANSWERED: u64 = 5;

#[derive(Debug)]
pub(super) enum Step {
    /// Tasks in parallel; each with its number and how often it fails first.
    Tasks(Vec<(u64, u64)>),
    Sleep(i64),
    Child(u64),
    Signal,
    Promise,
    State,
}

pub(super) fn steps(number: u64) -> Vec<Step> {
    let mut rng = Rng::new(number);
    let count = 1 + rng.below(4);
    let step = |_| match rng.below(12) {
        0..5 => Step::Tasks(
            (0..1 + rng.below(3)).map(|_| (rng.draw() % 1_000, rng.of([0, 0, 0, 1, 2]))).collect(),
        ),
        5..7 => Step::Sleep(rng.of([0, 20, 700, 3_000])),
        7 if number < CHILDREN => Step::Child(CHILDREN + rng.draw() % 10_000),
        8 | 9 => Step::Signal,
        10 => Step::Promise,
        _ => Step::State,
    };
    (0..count).map(step).collect()
}

/// The expected result of a program.
pub(super) fn result(number: u64) -> u64 {
    let of_step = |step: &Step| match step {
        Step::Tasks(tasks) => tasks.iter().map(|(n, _)| doubled(*n)).sum(),
        Step::Child(child) => result(*child),
        Step::Signal => SIGNALLED,
        Step::Promise => ANSWERED,
        Step::Sleep(_) | Step::State => 0,
    };
    steps(number).iter().map(of_step).sum()
}

pub(super) fn doubled(n: u64) -> u64 {
    2 * n + 1
}

/// Names of the signals that a program waits for.
pub(super) fn signals(number: u64) -> Vec<String> {
    let is_signal =
        |(index, step): (usize, &Step)| matches!(step, Step::Signal).then(|| format!("go-{index}"));
    steps(number).iter().enumerate().filter_map(is_signal).collect()
}

pub(super) fn input(number: u64, name: &str) -> Payload {
    bytes(&json!({ "number": number, "name": name }))
}

pub(super) fn task_input(n: u64, failures: u64, name: &str) -> Payload {
    bytes(&json!({ "n": n, "failures": failures, "name": name }))
}

pub(super) fn bytes(value: &Value) -> Payload {
    Bytes::from(value.to_string())
}

pub(super) fn read(payload: Option<&Payload>) -> Value {
    payload.and_then(|payload| serde_json::from_slice(payload).ok()).unwrap_or_default()
}

/// The input of an entity, which receives requests as signals.
pub(super) fn entity(name: &str) -> Payload {
    bytes(&json!({ "entity": true, "name": name }))
}

pub(super) fn is_entity(started: &Event) -> bool {
    read(started.payload.as_ref())["entity"] == json!(true)
}

/// The signal that is a request to an entity.
pub(super) const REQUEST: &str = "request";
/// An entity ends when it has answered this many requests ...
const REQUESTS: usize = 4;
/// ... or when it has reached this age.
const LIFE_MS: i64 = 4_000;

pub(super) fn number_of(started: &Event) -> u64 {
    read(started.payload.as_ref())["number"].as_u64().unwrap_or_default()
}

pub(super) fn task_spec(n: u64, failures: u64, name: &str) -> TaskSpec {
    let mut spec = TaskSpec::new(TASK, task_input(n, failures, name));
    // More retries than faults can consume: a task of these programs always succeeds in the end.
    spec.max_retries = Some(1_000);
    spec.retry = Some(RetryPolicy { initial_ms: 100, factor: 1.5, cap_ms: 1_000 });
    spec
}

/// The next step of an activation of a program.
pub(super) struct Decision {
    pub(super) commands: Vec<Command>,
    pub(super) outcome: Outcome,
}

/// Replays the history as the workflow's code would.
pub(super) fn decide(id: ExecutionId, history: &[LoggedEvent]) -> Decision {
    let Some(started) = history.first() else {
        return Decision { commands: Vec::new(), outcome: Outcome::Suspended };
    };
    let log = Log { id, history };
    let mut commands = Vec::new();
    let mut sum = 0;
    if let Some(event) = history.iter().find(|logged| logged.event.kind == EventKind::CancellationRequested) {
        let reason = event.event.text.clone().unwrap_or_default();
        return Decision { commands, outcome: Outcome::Cancelled { reason } };
    }
    if is_entity(&started.event) {
        return log.of_entity();
    }
    for (index, step) in steps(number_of(&started.event)).into_iter().enumerate() {
        match log.value_of(index, step, &mut commands) {
            Some(value) => sum += value,
            None => return Decision { commands, outcome: Outcome::Suspended },
        }
    }
    Decision { commands, outcome: Outcome::Completed { output: bytes(&json!({ "sum": sum })) } }
}

struct Log<'a> {
    id: ExecutionId,
    history: &'a [LoggedEvent],
}

impl Log<'_> {
    fn of_entity(&self) -> Decision {
        let timer_id = Text::from("life");
        let started = self.named(EventKind::TimerStarted, &timer_id).is_some();
        let is_request = |logged: &&LoggedEvent| logged.event.kind == EventKind::SignalReceived;
        let requests = self.history.iter().filter(is_request).count();
        let commands = match started {
            true => Vec::new(),
            false => vec![Command::StartTimer { timer_id: timer_id.clone(), duration_ms: LIFE_MS }],
        };
        let ends = requests >= REQUESTS || self.named(EventKind::TimerFired, &timer_id).is_some();
        let output = bytes(&json!({ "sum": requests }));
        Decision { commands, outcome: if ends { Outcome::Completed { output } } else { Outcome::Suspended } }
    }

    /// The value of a step. `None`: it waits. If the step was not requested yet, this adds its commands.
    fn value_of(&self, index: usize, step: Step, commands: &mut Vec<Command>) -> Option<u64> {
        let name: Text = format!("step-{index}").into();
        match step {
            Step::Tasks(tasks) => {
                let values: Vec<_> = tasks
                    .into_iter()
                    .enumerate()
                    .map(|(place, (n, failures))| self.task(index, place, n, failures, commands))
                    .collect();
                values.into_iter().sum()
            }
            Step::Sleep(duration_ms) => {
                if self.named(EventKind::TimerStarted, &name).is_none() {
                    commands.push(Command::StartTimer { timer_id: name.clone(), duration_ms });
                }
                self.named(EventKind::TimerFired, &name).map(|_| 0)
            }
            Step::Child(number) => {
                let child_id = named_id(self.id, &name);
                if self.about(EventKind::ChildInitiated, child_id).is_none() {
                    commands.push(Command::ScheduleChild(ScheduleChild {
                        child_id,
                        name: name.clone(),
                        kind: KIND.into(),
                        input: input(number, "child"),
                        queue: None,
                        priority_seconds: 0,
                        workflow_version: None,
                        execution_timeout_ms: None,
                        cancel_grace_ms: None,
                        key: None,
                        labels: Vec::new(),
                    }));
                }
                let ended = self.about(EventKind::ChildCompleted, child_id)?;
                read(ended.event.payload.as_ref())["sum"].as_u64()
            }
            Step::Signal => self.named(EventKind::SignalReceived, &format!("go-{index}")).map(|_| SIGNALLED),
            Step::Promise => {
                if self.named(EventKind::PromiseCreated, &name).is_none() {
                    commands.push(Command::CreatePromise { name: name.clone(), timeout_ms: None, key: None });
                }
                self.named(EventKind::PromiseResolved, &name).map(|_| ANSWERED)
            }
            Step::State => {
                if self.named(EventKind::StateSet, &name).is_none() {
                    commands.push(Command::SetState { name, value: bytes(&json!(index)) });
                }
                Some(0)
            }
        }
    }

    fn task(
        &self,
        index: usize,
        place: usize,
        n: u64,
        failures: u64,
        commands: &mut Vec<Command>,
    ) -> Option<u64> {
        let task_id = named_id(self.id, &format!("task-{index}-{place}"));
        if self.about(EventKind::TaskScheduled, task_id).is_none() {
            commands.push(Command::ScheduleTask { task_id, spec: task_spec(n, failures, "step") });
        }
        let ended = self.about(EventKind::TaskCompleted, task_id)?;
        let output = ended.task.as_ref().and_then(|task| task.output.as_ref());
        read(output)["doubled"].as_u64()
    }

    fn named(&self, kind: EventKind, name: &str) -> Option<&LoggedEvent> {
        self.history
            .iter()
            .find(|logged| logged.event.kind == kind && logged.event.name.as_deref() == Some(name))
    }

    fn about(&self, kind: EventKind, subject: uuid::Uuid) -> Option<&LoggedEvent> {
        self.history.iter().find(|logged| logged.event.kind == kind && logged.event.subject == Some(subject))
    }
}
