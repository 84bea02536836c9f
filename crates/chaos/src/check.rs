//! Compares the database with the answers that clients received and with the records of the workers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use flovyn_engine::Now;
use flovyn_engine::invariants;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::{Event, EventKind, Execution, ExecutionStatus, Task, TaskStatus};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::outcomes::{self, Outcomes};
use crate::plain::{DEFAULT_NAME, Dialect};
use crate::programs::Shape;
use crate::received::Received;
use crate::runs::Runs;

/// How many findings of one kind are shown. All are counted.
const SHOWN: usize = 10;

#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Work that was acknowledged and does not exist.
    pub(crate) lost: usize,
    /// Work that was requested once and done twice.
    pub(crate) duplicated: usize,
    /// Work that was acknowledged and has not ended.
    pub(crate) stuck: usize,
    /// Work with a wrong result.
    pub(crate) wrong: usize,
    /// Tasks with two acknowledged outcomes.
    pub(crate) two_outcomes: usize,
    /// Broken promises in the database itself.
    pub(crate) violations: usize,
    /// Not an error: reports without a token that counted for a later claim of the same worker.
    pub(crate) for_later_claim: usize,
    pub(crate) messages: Vec<String>,
}

impl Findings {
    pub(crate) fn count(&self) -> usize {
        self.lost + self.duplicated + self.stuck + self.wrong + self.two_outcomes + self.violations
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.stuck += other.stuck;
        self.wrong += other.wrong;
        self.two_outcomes += other.two_outcomes;
        self.violations += other.violations;
        let room = SHOWN.saturating_sub(self.messages.len());
        self.messages.extend(other.messages.into_iter().take(room));
    }

    /// Adds the output of `flovyn doctor`. `None`: it found nothing.
    pub(crate) fn doctor(&mut self, said: Option<String>) {
        if let Some(said) = said {
            self.violations += 1;
            self.messages.push(format!("flovyn doctor: {said}"));
        }
    }

    pub(crate) fn broken(&mut self, message: impl Display) {
        self.violations += 1;
        self.say("violation", self.violations, message);
    }

    fn say(&mut self, kind: &str, count: usize, message: impl Display) {
        if count <= SHOWN {
            self.messages.push(format!("{kind}: {message}"));
        }
    }

    pub(crate) fn lost(&mut self, message: impl Display) {
        self.lost += 1;
        self.say("lost", self.lost, message);
    }

    pub(crate) fn duplicated(&mut self, message: impl Display) {
        self.duplicated += 1;
        self.say("duplicated", self.duplicated, message);
    }

    pub(crate) fn stuck(&mut self, message: impl Display) {
        self.stuck += 1;
        self.say("stuck", self.stuck, message);
    }

    pub(crate) fn two_outcomes(&mut self, message: impl Display) {
        self.two_outcomes += 1;
        self.say("two outcomes", self.two_outcomes, message);
    }

    pub(crate) fn wrong(&mut self, message: impl Display) {
        self.wrong += 1;
        self.say("wrong", self.wrong, message);
    }
}

pub(crate) fn check(
    snapshot: &Snapshot,
    now: Now,
    received: &[Received],
    runs: &Runs,
    outcomes: &Outcomes,
) -> Findings {
    let mut found = Findings::default();
    for violation in invariants::check(snapshot, now) {
        found.broken(violation);
    }
    let stored = Stored::of(snapshot);
    for (number, received) in (0..).zip(received) {
        check_received(&mut found, &stored, number, received);
    }
    for number in stored.work.keys().filter(|number| **number >= received.len() as u64) {
        found.duplicated(format!("work {number}, which nobody started"));
    }
    check_tasks(&mut found, snapshot, runs, outcomes);
    outcomes.check(&mut found, snapshot);
    check_outcomes(&mut found, &snapshot.events);
    found
}

/// The database, indexed by what clients know.
struct Stored<'a> {
    executions: BTreeMap<Uuid, &'a Execution>,
    tasks: BTreeMap<Uuid, &'a Task>,
    events: BTreeMap<Uuid, Vec<&'a Event>>,
    /// Ids of executions and standalone tasks, by the number in their input.
    work: BTreeMap<u64, Vec<Uuid>>,
}

impl<'a> Stored<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let mut events: BTreeMap<Uuid, Vec<&Event>> = BTreeMap::new();
        for event in &snapshot.events {
            events.entry(event.execution_id).or_default().push(event);
        }
        let mut stored = Self {
            executions: snapshot.executions.iter().map(|row| (row.id, row)).collect(),
            tasks: snapshot.tasks.iter().map(|row| (row.id, row)).collect(),
            events,
            work: BTreeMap::new(),
        };
        for row in snapshot.executions.iter().filter(|row| row.parent_id.is_none()) {
            let first = stored.events.get(&row.id).and_then(|events| events.first());
            let number = first.and_then(|event| number_in(event.payload.as_deref()));
            stored.work.entry(number.unwrap_or(u64::MAX)).or_default().push(row.id);
        }
        for row in snapshot.tasks.iter().filter(|row| row.execution_id.is_none()) {
            let number = number_in(Some(&row.input));
            stored.work.entry(number.unwrap_or(u64::MAX)).or_default().push(row.id);
        }
        stored
    }

    /// The outcome of work. `None`: it does not exist.
    fn ending(&self, id: Uuid) -> Option<Ending> {
        if let Some(task) = self.tasks.get(&id) {
            return Some(match task.status {
                TaskStatus::Completed => Ending::Result(
                    number_in(task.output.as_deref()).map_or(Value::Null, |number| json!(number)),
                ),
                TaskStatus::Failed | TaskStatus::Cancelled => Ending::Other(format!("{:?}", task.error)),
                status => Ending::Open(format!("{status:?}")),
            });
        }
        let row = self.executions.get(&id)?;
        let last = self.events.get(&id).and_then(|events| events.last());
        Some(match (row.status, last) {
            (ExecutionStatus::Completed, Some(last)) if last.kind == EventKind::WorkflowCompleted => {
                Ending::Result(last.payload.as_deref().map(parsed).unwrap_or_default())
            }
            (status, last) if status.is_terminal() => {
                Ending::Other(format!("{status:?} with {:?}", last.map(|event| (event.kind, &event.text))))
            }
            (status, last) => Ending::Open(format!("{status:?} after {:?}", last.map(|event| event.kind))),
        })
    }
}

enum Ending {
    Result(Value),
    Other(String),
    Open(String),
}

fn parsed(payload: &[u8]) -> Value {
    serde_json::from_slice(payload).unwrap_or_default()
}

fn number_in(payload: Option<&[u8]>) -> Option<u64> {
    parsed(payload?)["number"].as_u64()
}

fn check_received(found: &mut Findings, stored: &Stored<'_>, number: u64, received: &Received) {
    let name = format!("{:?} {number}", received.shape);
    let there = stored.work.get(&number).map_or(&[][..], Vec::as_slice);
    if there.len() > 1 {
        found.duplicated(format!("{name} exists {} times: {there:?}", there.len()));
    }
    let ids: BTreeSet<&Uuid> = received.acknowledged.iter().collect();
    if ids.len() > 1 {
        found.duplicated(format!("{name} was acknowledged under several ids: {ids:?}"));
    }
    for id in &ids {
        if !there.contains(id) {
            found.lost(format!("{name} was acknowledged as {id} and is not there"));
        }
    }
    let expected = json!(received.shape.expected(number));
    for id in there {
        match stored.ending(*id) {
            Some(Ending::Result(result)) if result == expected => {}
            Some(Ending::Result(result)) => {
                found.wrong(format!("{name} ended with {result}, not {expected}"))
            }
            Some(Ending::Other(what)) => found.wrong(format!("{name} ended as {what}")),
            // No client knows this work: it may still wait for an answer or for its turn.
            Some(Ending::Open(_))
                if ids.is_empty() && (!received.shape.ends_alone() || received.shape == Shape::Task) => {}
            Some(Ending::Open(what)) => found.stuck(format!("{name} ({id}) is {what}")),
            None => found.lost(format!("{name} ({id}) has no row")),
        }
    }
    match &received.result {
        Some(Ok(result)) if *result == expected => {}
        Some(Ok(result)) => found.wrong(format!("{name}: the client received {result}, not {expected}")),
        Some(Err(error)) => found.wrong(format!("{name}: the client received the error '{error}'")),
        None => {}
    }
    if received.shape == Shape::Signal
        && let Some(id) = ids.first()
    {
        let events = stored.events.get(id).map_or(&[][..], Vec::as_slice);
        let signals = events.iter().filter(|event| event.kind == EventKind::SignalReceived).count();
        if signals < received.signals_acknowledged {
            found.lost(format!("{name}: a signal that was acknowledged is not in the log"));
        }
        if signals > received.signals_sent {
            found.duplicated(format!("{name} has {signals} signals, {} were sent", received.signals_sent));
        }
    }
}

/// Checks that no claim was handed out twice, and that each accepted output is that of the claim's own run.
fn check_tasks(found: &mut Findings, snapshot: &Snapshot, runs: &Runs, outcomes: &Outcomes) {
    let tasks: BTreeMap<Uuid, &Task> = snapshot.tasks.iter().map(|row| (row.id, row)).collect();
    for ((id, token), of_claim) in &runs.0 {
        if *of_claim > 1 {
            found.duplicated(format!("claim {token} of task {id} was run {of_claim} times"));
        }
        match tasks.get(id) {
            None => found.lost(format!("task {id} was run and is not there")),
            Some(task) if task.epoch < *token => {
                found.lost(format!(
                    "claim {token} of task {id} was run; the last one stored is {}",
                    task.epoch
                ));
            }
            Some(_) => {}
        }
    }
    for task in tasks.values().filter(|task| task.status == TaskStatus::Completed) {
        let (id, accepted, author) = (task.id, task.accepted_epoch, outcomes::author(task));
        let Some((worker, token)) = author.filter(|(_, token)| runs.0.contains_key(&(id, *token))) else {
            found.wrong(format!("task {id} is completed, but nobody ran it: {author:?}"));
            continue;
        };
        let is_holder = holds(snapshot, task, worker, outcomes.plain.get(&worker));
        match token == accepted {
            true => {}
            // The task went to the same worker again, and a report without a token does not say which claim it means.
            false if is_holder => found.for_later_claim += 1,
            false => found
                .wrong(format!("task {id}: the output of claim {token} of {worker}, accepted of {accepted}")),
        }
    }
}

/// Whether the task's claim is that of this process, which sends no tokens. A nameless one is known by its registration.
fn holds(snapshot: &Snapshot, task: &Task, worker: u32, dialect: Option<&Dialect>) -> bool {
    let process = worker.to_string();
    match dialect {
        None => false,
        Some(Dialect::Registered | Dialect::Unknown) => task.worker.as_deref() == Some(&*process),
        Some(Dialect::Nameless) => {
            let session = snapshot.workers.iter().find(|row| Some(row.id) == task.session);
            // After a new connection a poll does not say which process of the name it comes from.
            let is_process = session.is_none_or(|row| *row.process_id == *process);
            task.worker.as_deref() == Some(DEFAULT_NAME) && is_process
        }
    }
}

/// Checks that a task has only one outcome in the log.
fn check_outcomes(found: &mut Findings, events: &[Event]) {
    let mut outcomes: BTreeMap<(Uuid, Option<Uuid>), usize> = BTreeMap::new();
    let of_tasks = |event: &&Event| matches!(event.kind, EventKind::TaskCompleted | EventKind::TaskFailed);
    for event in events.iter().filter(of_tasks) {
        *outcomes.entry((event.execution_id, event.subject)).or_default() += 1;
    }
    for ((execution, task), count) in outcomes.into_iter().filter(|(_, count)| *count > 1) {
        found.duplicated(format!("task {task:?} has {count} outcomes in the log of {execution}"));
    }
}
