//! P3, P7, P8 and P12: the log itself, and that an execution's row agrees with its log.

use std::collections::{BTreeMap, BTreeSet};

use super::{Promised, Subject, View};
use crate::code::Code;
use crate::ids::Text;
use crate::state::*;

pub(super) fn check(view: &mut View<'_>) {
    for row in view.subjects.executions.iter().filter(|row| !row.purging) {
        let events = view.events.get(&row.key()).cloned().unwrap_or_default();
        check_order(view, row, &events);
        check_fold(view, row, &events);
        check_timers(view, row, &events);
        check_last_signal(view, row, &events);
        check_refusals(view, row);
    }
    let strays: Vec<_> = view.events.keys().filter(|id| !view.executions.contains_key(id)).copied().collect();
    for id in strays {
        execution(view, Promised::P3, id, format!("events of {}, which does not exist", id.1));
    }
}

fn execution(view: &mut View<'_>, promise: Promised, (tenant_id, id): super::Id, message: String) {
    view.report(promise, tenant_id, Subject::Execution(id), message);
}

fn check_order(view: &mut View<'_>, row: &Execution, events: &[&Event]) {
    let gap_free = events.iter().zip(1..).all(|(event, expected)| event.sequence == expected);
    if !gap_free || events.len() as i64 != row.last_sequence {
        let message = format!("{}: {} events, last sequence {}", row.id, events.len(), row.last_sequence);
        execution(view, Promised::P3, row.key(), message);
    }
    if events.windows(2).any(|pair| pair[0].time_ms > pair[1].time_ms) {
        execution(view, Promised::P3, row.key(), format!("{}: event times go back", row.id));
    }
    let terminal: Vec<i64> =
        events.iter().filter(|event| event.kind.is_terminal()).map(|event| event.sequence).collect();
    let expected: &[i64] = if row.status.is_terminal() { &[row.last_sequence] } else { &[] };
    if terminal != expected {
        let message = format!("{}: {} with terminal events at {terminal:?}", row.id, row.status);
        execution(view, Promised::P3, row.key(), message);
    }
    if events.first().is_some_and(|event| event.kind != EventKind::WorkflowStarted) {
        execution(view, Promised::P3, row.key(), format!("{}: does not begin with its start", row.id));
    }
}

/// In rows from versions that did not defer ends, the last signal is 0.
fn check_last_signal(view: &mut View<'_>, row: &Execution, events: &[&Event]) {
    let by_its_own_word = |event: &&&Event| {
        event.origin == Origin::Command
            && matches!(event.kind, EventKind::WorkflowCompleted | EventKind::WorkflowFailed)
    };
    if events.last().filter(by_its_own_word).is_some() && row.base_sequence < row.last_signal_sequence {
        let (seen, signal) = (row.base_sequence, row.last_signal_sequence);
        let message = format!("{}: ended having seen {seen} events, a signal came at {signal}", row.id);
        execution(view, Promised::P11, row.key(), message);
    }
}

/// An execution that counts refusals has their code and message.
fn check_refusals(view: &mut View<'_>, row: &Execution) {
    let code = row.failure_code.as_deref().and_then(Code::parse);
    let told = code.is_some() && row.failure_message.is_some();
    // The last of the equal refusals ends the execution and is not counted as a failure.
    let counted = row.equal_refusals <= row.activation_failures + i64::from(row.status.is_terminal());
    if row.equal_refusals != 0 && !(told && counted) {
        let message = format!(
            "{}: {} equal refusals with {:?}, but {} failed activations",
            row.id, row.equal_refusals, row.failure_code, row.activation_failures
        );
        execution(view, Promised::P12, row.key(), message);
    }
}

/// The state of an execution according to its log.
#[derive(Debug, Default, PartialEq)]
struct Fold {
    open_tasks: BTreeSet<uuid::Uuid>,
    open_timers: BTreeSet<Text>,
    open_promises: BTreeSet<uuid::Uuid>,
    open_children: BTreeSet<uuid::Uuid>,
    state: BTreeMap<Text, i64>,
    last_external: i64,
    status: Option<ExecutionStatus>,
}

fn fold(events: &[&Event]) -> Fold {
    let mut fold = Fold::default();
    for event in events {
        let subject = event.subject.unwrap_or_default();
        let name = event.name.clone().unwrap_or_default();
        if event.origin == Origin::External {
            fold.last_external = event.sequence;
        }
        match event.kind {
            EventKind::TaskScheduled => {
                fold.open_tasks.insert(subject);
            }
            EventKind::TaskCompleted | EventKind::TaskFailed => {
                fold.open_tasks.remove(&subject);
            }
            EventKind::TaskCancelRequested if event.number == Some(1) => {
                fold.open_tasks.remove(&subject);
            }
            EventKind::TimerStarted => {
                fold.open_timers.insert(name);
            }
            EventKind::TimerFired | EventKind::TimerCancelled => {
                fold.open_timers.remove(&name);
            }
            EventKind::PromiseCreated => {
                fold.open_promises.insert(subject);
            }
            EventKind::PromiseResolved | EventKind::PromiseRejected | EventKind::PromiseTimeout => {
                fold.open_promises.remove(&subject);
            }
            EventKind::ChildInitiated => {
                fold.open_children.insert(subject);
            }
            EventKind::ChildCompleted | EventKind::ChildFailed => {
                fold.open_children.remove(&subject);
            }
            EventKind::StateSet => {
                fold.state.insert(name, event.sequence);
            }
            EventKind::StateCleared => {
                fold.state.remove(&name);
            }
            EventKind::WorkflowCompleted => fold.status = Some(ExecutionStatus::Completed),
            EventKind::WorkflowFailed => fold.status = Some(ExecutionStatus::Failed),
            EventKind::WorkflowCancelled => fold.status = Some(ExecutionStatus::Cancelled),
            _ => {}
        }
    }
    fold
}

/// The number of children that are open according to the log.
pub(super) fn open_children(events: &[&Event]) -> usize {
    fold(events).open_children.len()
}

fn check_fold(view: &mut View<'_>, row: &Execution, events: &[&Event]) {
    let folded = fold(events);
    let stored_state: BTreeMap<Text, i64> = view
        .subjects
        .states
        .iter()
        .filter(|entry| (entry.tenant_id, entry.execution_id) == row.key())
        .map(|entry| (entry.name.clone(), entry.sequence))
        .collect();
    if stored_state != folded.state || row.state_keys != stored_state.len() as i64 {
        let message = format!("{}: state {stored_state:?}, log says {:?}", row.id, folded.state);
        execution(view, Promised::P7, row.key(), message);
    }
    if folded.last_external != row.last_external_sequence {
        let (stored, said) = (row.last_external_sequence, folded.last_external);
        execution(
            view,
            Promised::P7,
            row.key(),
            format!("{}: last external {stored}, log says {said}", row.id),
        );
    }
    if folded.status != row.status.is_terminal().then_some(row.status) {
        execution(
            view,
            Promised::P7,
            row.key(),
            format!("{}: {}, log says {:?}", row.id, row.status, folded.status),
        );
    }
    if row.status.is_terminal() {
        return;
    }
    // Children that were started by a client have no event in the parent's log.
    let outside = view
        .executions
        .values()
        .filter(|child| child.parent_id == Some(row.id) && child.tenant_id == row.tenant_id)
        .filter(|child| !child.status.is_terminal() && !folded.open_children.contains(&child.id))
        .count();
    let counts = [
        ("tasks", row.open_tasks, folded.open_tasks.len()),
        ("timers", row.open_timers, folded.open_timers.len()),
        ("promises", row.open_promises, folded.open_promises.len()),
        ("children", row.open_children, folded.open_children.len() + outside),
    ];
    for (what, stored, said) in counts {
        if stored != said as i64 {
            execution(
                view,
                Promised::P7,
                row.key(),
                format!("{}: {stored} open {what}, log says {said}", row.id),
            );
        }
    }
}

fn check_timers(view: &mut View<'_>, row: &Execution, events: &[&Event]) {
    let timers = view.timers.get(&row.key()).cloned().unwrap_or_default();
    for timer in timers {
        let fired =
            |event: &&&Event| event.kind == EventKind::TimerFired && event.name.as_ref() == Some(&timer.name);
        let fired: Vec<_> = events.iter().filter(fired).collect();
        if fired.len() > 1 {
            execution(view, Promised::P5, row.key(), format!("{}: timer {} fired twice", row.id, timer.name));
        }
        if let Some(event) = fired.iter().find(|event| event.time_ms < timer.fire_ms) {
            let early = timer.fire_ms - event.time_ms;
            execution(
                view,
                Promised::P8,
                row.key(),
                format!("{}: timer {} fired {early} ms early", row.id, timer.name),
            );
        }
    }
}
