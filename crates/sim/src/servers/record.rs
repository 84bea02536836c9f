//! Compares the answers that clients and workers received with the database.
//!
//! Only answers that arrived count. A request without an answer may have been carried out or not. A request that was
//! definitely refused must not have been.

use std::collections::{BTreeMap, BTreeSet};

use flovyn_engine::ids::{ExecutionId, TaskId, TenantId};
use flovyn_engine::request::Op;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Reply, has_failed};
use uuid::Uuid;

use super::program;
use super::server::By;
use super::world::World;

type Id = (TenantId, Uuid);

/// A start or a standalone task that a client wants to be carried out once.
#[derive(Debug, Default, Clone)]
pub(super) struct Wish {
    pub(super) key: Option<String>,
    /// Ids with which it was acknowledged.
    pub(super) acknowledged: BTreeSet<Uuid>,
    /// At least one try had no answer, or an answer with an unknown outcome.
    pub(super) unknown: bool,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    /// By tenant and the name in the input. All clients that use a key use its name.
    pub(super) wishes: BTreeMap<(TenantId, String), Wish>,
    /// Signals by execution and name: how many were acknowledged, and how many were sent.
    pub(super) signals: BTreeMap<(Id, String), (usize, usize)>,
    /// Acknowledged requests to entities: the execution that received the request, and its text.
    pub(super) requests: BTreeSet<(Id, String)>,
    /// Claims that workers received.
    handed: BTreeSet<(Id, i64)>,
    /// How often each claim was reported.
    sent: BTreeMap<(Id, i64), usize>,
    /// Claims with an acknowledged report that was not a repeat.
    accepted: BTreeSet<(Id, i64)>,
    /// Completions that were acknowledged, also as repeats: task and claim.
    completed: BTreeSet<(Id, i64)>,
    /// Executions whose end was acknowledged to their worker.
    ended: BTreeSet<Id>,
    /// Acknowledged terminations.
    pub(super) terminated: BTreeSet<Id>,
    /// Work that was cancelled or terminated, with or without an answer.
    pub(super) asked_to_stop: BTreeSet<Id>,
}

/// Records that a worker received a claim. No other worker may have received it.
pub(super) fn handed(world: &World, id: Id, token: i64) {
    world.lock().figures.claims += 1;
    if !world.lock().record.handed.insert((id, token)) {
        world.violated("P4 claim", format!("claim {token} of {} was handed out twice", id.1));
    }
}

/// Checks that an execution is held back only from the builds that failed on it, until its delay is over.
pub(super) fn of_build(world: &World, execution: &Execution, build: &str) {
    if execution.not_before_ms.is_none() {
        return;
    }
    world.lock().figures.taken_early += 1;
    if execution.failure_build.as_ref().is_some_and(|failed| has_failed(failed, &build.into())) {
        let message = format!("{} went back to build {build}, which had failed on it", execution.id);
        world.violated("held back", message);
    }
}

/// Records that a request is sent.
pub(super) fn sent(world: &World, tenant: TenantId, op: &Op) {
    let reports = match op {
        Op::CompleteTask(op) => {
            let next = op.next.as_ref().map(|next| (next.step.execution_id, next.step.token));
            [Some((op.task_id, op.token)), next]
        }
        Op::FailTask(op) => [Some((op.task_id, op.token)), None],
        Op::SubmitActivation(op) => [Some((op.execution_id, op.token)), None],
        _ => [None, None],
    };
    let mut inner = world.lock();
    inner.figures.operations += 1;
    for (id, token) in reports.into_iter().flatten() {
        let Some(token) = token else { continue };
        *inner.record.sent.entry(((tenant, id), token)).or_default() += 1;
    }
}

/// Records that an answer arrived, to any copy of the request.
pub(super) fn acknowledged(world: &World, by: &By, op: &Op, reply: &Reply) {
    let tenant = by.caller.tenant_id;
    world.lock().figures.acknowledged += 1;
    let first = |id: Id, token: Option<i64>, repeated: bool| {
        let token = token.unwrap_or_default();
        if !repeated && !world.lock().record.accepted.insert((id, token)) {
            world.violated("P4 outcome", format!("two reports of claim {token} of {} were accepted", id.1));
        }
        let sent = world.lock().record.sent.get(&(id, token)).copied().unwrap_or(0);
        // Without a token, a report with the accepted content is a repeat, and many failures have equal content.
        if repeated && sent < 2 && !by.without_tokens {
            let message = format!("the only report of claim {token} of {} was taken for a repeat", id.1);
            world.violated("P4 stale claim", message);
        }
        world.say(|| {
            let again = if repeated { " again" } else { "" };
            format!("{} of {} claim {token} accepted{again}", op.name(), super::short(id.1))
        });
    };
    match (op, reply) {
        (Op::CompleteTask(op), Reply::TaskReported { repeated, .. }) => {
            let id = (tenant, op.task_id);
            first(id, op.token, *repeated);
            world.lock().record.completed.insert((id, op.token.unwrap_or_default()));
        }
        (Op::CompleteTask(op), Reply::Continued { execution }) => {
            let Some(next) = &op.next else {
                return world.violated("P5 result", format!("task {} was continued by nobody", op.task_id));
            };
            let (task, workflow) = ((tenant, op.task_id), (tenant, next.step.execution_id));
            handed(world, workflow, next.step.token.unwrap_or_default());
            first(task, op.token, false);
            first(workflow, next.step.token, false);
            let mut inner = world.lock();
            inner.figures.continued += 1;
            inner.record.completed.insert((task, op.token.unwrap_or_default()));
            if execution.is_terminal() {
                inner.record.ended.insert(workflow);
            }
        }
        (Op::FailTask(op), Reply::TaskReported { repeated, .. }) => {
            first((tenant, op.task_id), op.token, *repeated);
        }
        (Op::SubmitActivation(op), Reply::Submitted { repeated, status }) => {
            let id = (tenant, op.execution_id);
            first(id, op.token, *repeated);
            if status.is_terminal() {
                world.lock().record.ended.insert(id);
            }
        }
        (Op::TerminateWorkflow(op), Reply::Cancelled { status: ExecutionStatus::Cancelled }) => {
            world.lock().record.terminated.insert((tenant, op.execution_id));
        }
        _ => {}
    }
}

impl Record {
    /// Records the outcome of a try.
    pub(super) fn tried(&mut self, wish: &(TenantId, String), outcome: Result<Uuid, Option<Code>>) {
        let wish = self.wishes.entry(wish.clone()).or_default();
        match outcome {
            Ok(id) => {
                wish.acknowledged.insert(id);
            }
            Err(code) => wish.unknown |= code.is_none_or(|code| !super::server::is_definite(code)),
        }
    }
}

/// The rows that were found, by the name of the wish.
type Found = BTreeMap<(TenantId, String), Vec<Uuid>>;

/// Compares the record with the rows at the end of a run. Returns the violations, each with the name of its check.
pub(super) fn check(record: &Record, rows: &Snapshot) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    check_wishes(record, &found(rows), &mut wrong);
    check_results(record, rows, &mut wrong);
    check_tasks(record, rows, &mut wrong);
    check_signals(record, rows, &mut wrong);
    check_requests(record, rows, &mut wrong);
    wrong
}

fn found(rows: &Snapshot) -> Found {
    let mut found = Found::new();
    let mut add = |tenant: TenantId, payload: Option<&flovyn_engine::ids::Payload>, id: Uuid| {
        if let Some(name) = program::read(payload)["name"].as_str() {
            found.entry((tenant, name.to_owned())).or_default().push(id);
        }
    };
    for event in rows.events.iter().filter(|event| event.kind == EventKind::WorkflowStarted) {
        add(event.tenant_id, event.payload.as_ref(), event.execution_id);
    }
    for task in rows.tasks.iter().filter(|task| task.execution_id.is_none()) {
        add(task.tenant_id, Some(&task.input), task.id);
    }
    found
}

fn check_wishes(record: &Record, found: &Found, wrong: &mut Vec<(&'static str, String)>) {
    for (name, wish) in &record.wishes {
        let made = found.get(name).map(Vec::as_slice).unwrap_or_default();
        for id in wish.acknowledged.iter().filter(|id| !made.contains(id)) {
            let owner = found.iter().find(|(_, ids)| ids.contains(id)).map(|(name, _)| name);
            match owner {
                Some(owner) if owner.0 != name.0 => {
                    wrong.push((
                        "P9 tenant",
                        format!("{} was told of {id}, which is another tenant's", name.1),
                    ));
                }
                _ => {
                    wrong.push(("P1 start", format!("{} was acknowledged as {id} and is not there", name.1)))
                }
            }
        }
        if made.len() > 1 {
            let check = if wish.key.is_some() { "P2 key" } else { "P5 start" };
            wrong.push((check, format!("{} was asked for once and is there {} times", name.1, made.len())));
        }
        if wish.acknowledged.is_empty() && !wish.unknown && !made.is_empty() {
            wrong.push(("P5 refusal", format!("{} was refused and is there", name.1)));
        }
    }
}

fn check_results(record: &Record, rows: &Snapshot, wrong: &mut Vec<(&'static str, String)>) {
    let mut numbers: BTreeMap<Id, u64> = BTreeMap::new();
    let mut outputs: BTreeMap<Id, u64> = BTreeMap::new();
    // Requests to entities: each request in the log must be answered.
    let mut asked: BTreeMap<Id, u64> = BTreeMap::new();
    for event in &rows.events {
        let id = (event.tenant_id, event.execution_id);
        match event.kind {
            EventKind::WorkflowStarted if program::is_entity(event) => drop(asked.insert(id, 0)),
            EventKind::SignalReceived => {
                asked.entry(id).and_modify(|count| *count += 1);
            }
            EventKind::WorkflowStarted => drop(numbers.insert(id, program::number_of(event))),
            EventKind::WorkflowCompleted => {
                let sum = program::read(event.payload.as_ref())["sum"].as_u64();
                outputs.insert(id, sum.unwrap_or_default());
            }
            _ => {}
        }
    }
    for row in &rows.executions {
        let id = row.key();
        let stopped = stopped(record, rows, row);
        match row.status {
            ExecutionStatus::Completed => {
                let expected = numbers.get(&id).map(|number| program::result(*number));
                let expected = expected.or(asked.get(&id).copied());
                if outputs.get(&id).copied() != expected {
                    let message = format!("{}: {:?}, expected {expected:?}", row.id, outputs.get(&id));
                    wrong.push(("P5 result", message));
                }
                if record.terminated.contains(&id) {
                    wrong.push(("P1 stop", format!("{} was terminated and has completed", row.id)));
                }
            }
            ExecutionStatus::Cancelled if stopped => {}
            status => wrong.push(("P5 result", format!("{} is {status}, and nobody asked for it", row.id))),
        }
    }
    let terminal = |id: &&Id| rows.executions.iter().any(|row| row.key() == **id && row.status.is_terminal());
    for id in record.ended.iter().filter(|id| !terminal(id)) {
        wrong.push(("P1 completion", format!("the end of {} was acknowledged and is not there", id.1)));
    }
}

/// Whether the execution, or the parent that started it, was cancelled or terminated.
fn stopped(record: &Record, rows: &Snapshot, row: &Execution) -> bool {
    let parent = row.parent_id.map(|parent| (row.tenant_id, parent));
    record.asked_to_stop.contains(&row.key())
        || parent.is_some_and(|parent| {
            rows.executions.iter().any(|row| row.key() == parent && stopped(record, rows, row))
        })
}

fn check_tasks(record: &Record, rows: &Snapshot, wrong: &mut Vec<(&'static str, String)>) {
    let tasks: BTreeMap<Id, &Task> = rows.tasks.iter().map(|row| (row.key(), row)).collect();
    for ((id, token), task) in record.completed.iter().map(|done| (done, tasks.get(&done.0))) {
        if task.is_none_or(|task| task.status != TaskStatus::Completed || task.accepted_epoch != *token) {
            let message = format!("claim {token} of task {} was acknowledged and did not count", id.1);
            wrong.push(("P1 completion", message));
        }
    }
    for task in rows.tasks.iter().filter(|task| task.status == TaskStatus::Completed) {
        let output = program::read(task.output.as_ref());
        let n = program::read(Some(&task.input))["n"].as_u64().unwrap_or_default();
        if output["doubled"].as_u64() != Some(program::doubled(n)) {
            wrong.push(("P5 result", format!("task {} came to {output}", task.id)));
        }
        if output["claim"].as_i64() != Some(task.accepted_epoch) {
            let message = format!(
                "task {} has the result {output}, accepted for claim {}",
                task.id, task.accepted_epoch
            );
            wrong.push(("P4 stale claim", message));
        }
        if !record.handed.contains(&(task.key(), task.accepted_epoch)) {
            wrong.push(("P4 stale claim", format!("task {} was completed by nobody", task.id)));
        }
    }
}

fn check_signals(record: &Record, rows: &Snapshot, wrong: &mut Vec<(&'static str, String)>) {
    let mut logged: BTreeMap<(Id, String), usize> = BTreeMap::new();
    for event in rows.events.iter().filter(|event| event.kind == EventKind::SignalReceived) {
        let name = event.name.as_deref().unwrap_or_default().to_owned();
        *logged.entry(((event.tenant_id, event.execution_id), name)).or_default() += 1;
    }
    for (signal, (acknowledged, sent)) in &record.signals {
        let count = logged.get(signal).copied().unwrap_or(0);
        if count < *acknowledged {
            wrong.push(("P1 signal", format!("{signal:?}: {acknowledged} acknowledged, {count} in the log")));
        }
        if count > *sent {
            wrong.push(("P5 signal", format!("{signal:?}: {sent} sent, {count} in the log")));
        }
    }
}

/// An acknowledged request is in the log of the entity for which it was acknowledged.
fn check_requests(record: &Record, rows: &Snapshot, wrong: &mut Vec<(&'static str, String)>) {
    let logged: BTreeSet<(Id, String)> = rows
        .events
        .iter()
        .filter(|event| event.name.as_deref() == Some(program::REQUEST))
        .filter_map(|event| {
            let text = program::read(event.payload.as_ref()).as_str()?.to_owned();
            Some(((event.tenant_id, event.execution_id), text))
        })
        .collect();
    for (id, text) in record.requests.difference(&logged) {
        wrong.push(("P1 request", format!("{text} was acknowledged for {} and is not there", id.1)));
    }
}

/// Executions and tasks that have not ended.
pub(super) fn open(rows: &Snapshot) -> Vec<String> {
    let executions = rows.executions.iter().filter(|row| !row.status.is_terminal());
    let tasks = rows.tasks.iter().filter(|row| !row.status.is_terminal());
    let execution = |row: &Execution| -> (ExecutionId, String) { (row.id, row.status.to_string()) };
    let task = |row: &Task| -> (TaskId, String) { (row.id, row.status.to_string()) };
    executions.map(execution).chain(tasks.map(task)).map(|(id, status)| format!("{id} {status}")).collect()
}
