//! P2, P4, P5 and P13: keys, attempts, and the events of tasks: each is in the workflow's log exactly once.

use std::collections::BTreeMap;

use super::{Promised, Subject, View};
use crate::state::*;

pub(super) fn check(view: &mut View<'_>) {
    check_keys(view);
    check_attempts(view);
    check_task_events(view);
}

fn check_keys(view: &mut View<'_>) {
    let now_ms = view.now.ms;
    for key in view.subjects.keys.iter().filter(|key| key.expires_ms > now_ms) {
        let holder = (key.tenant_id, key.holder_id);
        let problem = match key.holder_class {
            HolderClass::Workflow => view.executions.get(&holder).and_then(|row| {
                let failed = matches!(row.status, ExecutionStatus::Failed | ExecutionStatus::Cancelled);
                let other = row.idempotency_key.as_ref() != Some(&key.name);
                (failed || other).then(|| format!("held by execution {} ({})", row.id, row.status))
            }),
            HolderClass::Task => view.tasks.get(&holder).and_then(|row| {
                let failed = matches!(row.status, TaskStatus::Failed | TaskStatus::Cancelled);
                let other = row.idempotency_key.as_ref() != Some(&key.name);
                (failed || other).then(|| format!("held by task {} ({})", row.id, row.status))
            }),
            HolderClass::Promise => None,
        };
        if let Some(problem) = problem {
            let message = format!("key '{}' is {problem}", key.name);
            view.report(Promised::P2, key.tenant_id, Subject::Key(key.name.clone()), message);
        }
    }
    check_one_holder(view);
    check_workflow_keys(view);
}

/// Two open executions with one key are two executions for one request, unless the key expired in between.
fn check_one_holder(view: &mut View<'_>) {
    for row in view.subjects.executions.iter().filter(|row| !row.status.is_terminal()) {
        let Some(name) = &row.idempotency_key else { continue };
        let Some(key) = view.work_keys.get(&(row.tenant_id, name.clone())) else { continue };
        // The key was created when its last holder took it: a younger open execution is a duplicate.
        if row.created_ms > key.created_ms && row.id != key.holder_id {
            let message = format!("key '{name}' has a second execution {}", row.id);
            view.report(Promised::P2, row.tenant_id, Subject::Execution(row.id), message);
        }
    }
}

/// An execution that has accepted a signal-with-start holds its key while it is open. A key has one holder, so no
/// second execution with the key can be open.
fn check_workflow_keys(view: &mut View<'_>) {
    for row in view.subjects.executions.iter().filter(|row| !row.status.is_terminal()) {
        let Some(name) = &row.idempotency_key else { continue };
        let events = view.events.get(&row.key()).map(Vec::as_slice).unwrap_or_default();
        if !events.iter().any(|event| event.kind == EventKind::SignalReceived && event.number == Some(1)) {
            continue;
        }
        let key = view.work_keys.get(&(row.tenant_id, name.clone()));
        let problem = match key {
            Some(key) if key.holder_id != row.id => format!("is held by {}", key.holder_id),
            Some(key) if key.ttl_after_end_ms.is_none() => "can expire".to_owned(),
            Some(_) => continue,
            None => "is free".to_owned(),
        };
        let message = format!("execution {} is open and its workflow key '{name}' {problem}", row.id);
        view.report(Promised::P13, row.tenant_id, Subject::Execution(row.id), message);
    }
}

fn of_task(view: &mut View<'_>, promise: Promised, task: &Task, message: String) {
    view.report(promise, task.tenant_id, Subject::Task(task.id), message);
}

fn check_attempts(view: &mut View<'_>) {
    let mut attempts: BTreeMap<_, Vec<Attempt>> = BTreeMap::new();
    for row in &view.subjects.attempts {
        attempts.entry((row.tenant_id, row.task_id)).or_default().push(row.clone());
    }
    for task in &view.subjects.tasks {
        // An execution or task that is being purged loses its rows page by page.
        let owner = task.execution_id.and_then(|id| view.executions.get(&(task.tenant_id, id)));
        if task.purging || owner.is_some_and(|owner| owner.purging) {
            continue;
        }
        let rows = task.ended_attempts(attempts.remove(&task.key()).unwrap_or_default());
        let completed = rows.iter().filter(|row| row.status == AttemptStatus::Completed).count();
        if completed != usize::from(task.status == TaskStatus::Completed) {
            let message = format!("task {} is {} with {completed} completed attempts", task.id, task.status);
            of_task(view, Promised::P4, task, message);
        }
        let finished = task.execution_count - i64::from(task.status == TaskStatus::Running);
        if rows.len() as i64 != finished {
            let message =
                format!("task {}: {finished} attempts have ended, {} are recorded", task.id, rows.len());
            of_task(view, Promised::P4, task, message);
        }
        if rows.iter().any(|row| row.finished_ms < row.started_ms) {
            of_task(view, Promised::P4, task, format!("task {}: an attempt ended before it began", task.id));
        }
    }
}

fn check_task_events(view: &mut View<'_>) {
    let mut scheduled: BTreeMap<_, usize> = BTreeMap::new();
    let mut ended: BTreeMap<_, usize> = BTreeMap::new();
    for event in &view.subjects.events {
        let Some(task_id) = event.subject else { continue };
        let id = (event.tenant_id, task_id);
        match event.kind {
            EventKind::TaskScheduled => *scheduled.entry(id).or_default() += 1,
            EventKind::TaskCompleted | EventKind::TaskFailed => *ended.entry(id).or_default() += 1,
            EventKind::TaskCancelRequested if event.number == Some(1) => *ended.entry(id).or_default() += 1,
            _ => {}
        }
    }
    for task in view.subjects.tasks.iter().filter(|row| row.execution_id.is_some()) {
        let owner = view.executions.get(&(task.tenant_id, task.execution_id.unwrap_or_default()));
        let Some(owner_open) = owner.filter(|row| !row.purging).map(|row| !row.status.is_terminal()) else {
            continue;
        };
        let was_scheduled = scheduled.get(&task.key()).copied().unwrap_or(0);
        let has_ended = ended.get(&task.key()).copied().unwrap_or(0);
        if was_scheduled != usize::from(task.announced) {
            of_task(
                view,
                Promised::P5,
                task,
                format!("task {} was scheduled {was_scheduled} times", task.id),
            );
        }
        // A task that ends after its workflow has no event.
        let expected = usize::from(task.announced && task.status.is_terminal());
        if has_ended > 1 || (owner_open && has_ended != expected) {
            let message = format!("task {} is {}, the log has {has_ended} end events", task.id, task.status);
            of_task(view, Promised::P5, task, message);
        }
    }
}
