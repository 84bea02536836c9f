//! P6: whatever is not terminal has a live cause, and the search tables say what the rows say.

use super::{Promised, View};
use crate::lifecycle::{alarm, task};
use crate::state::*;

pub(super) fn check(view: &mut View<'_>) {
    for row in view.executions.values().copied().collect::<Vec<_>>() {
        check_execution(view, row);
    }
    for row in view.tasks.values().copied().collect::<Vec<_>>() {
        check_task(view, row);
    }
    for timer in &view.snapshot.timers {
        check_timer(view, timer);
    }
    for promise in &view.snapshot.promises {
        check_promise(view, promise);
    }
    check_ready(view);
    check_due(view);
}

fn orphan(view: &mut View<'_>, message: String) {
    view.report(Promised::P6, message);
}

fn check_execution(view: &mut View<'_>, row: &Execution) {
    let id = row.key();
    let in_ready = view.ready.get(&id).is_some_and(|rows| rows.iter().any(|ready| **ready == row.ready()));
    if in_ready != row.is_in_ready() {
        orphan(view, format!("execution {}: {}, in the ready table: {in_ready}", row.id, row.status));
    }
    check_alarm(view, "execution", id, DueClass::ExecutionAlarm, row.alarm_ms);
    check_alarm(view, "execution", id, DueClass::ExecutionLease, row.lease_alarm_ms);
    match row.status {
        ExecutionStatus::Pending => {
            let late = row.not_before_ms.is_some_and(|at| row.alarm_ms.is_none_or(|alarm| alarm > at));
            if late {
                orphan(view, format!("execution {} is held back and nothing will release it", row.id));
            }
        }
        ExecutionStatus::Running => {
            if row.lease_until_ms.is_none() || row.lease_alarm_ms.is_none() {
                orphan(view, format!("execution {} is RUNNING without a lease", row.id));
            }
        }
        ExecutionStatus::Waiting => {
            if row.base_sequence < row.last_external_sequence {
                let (base, last) = (row.base_sequence, row.last_external_sequence);
                orphan(view, format!("execution {} waits with an unseen event: {base} < {last}", row.id));
            }
        }
        _ => {
            let open = row.open_tasks + row.open_timers + row.open_promises > 0;
            let items_open = open && has_open_items(view, row);
            if items_open && !view.has_follow_up(DueClass::CloseItems, id) && !row.purging {
                orphan(view, format!("execution {} has finished, its items have not", row.id));
            }
            if row.purging && !view.has_follow_up(DueClass::PurgeExecution, id) {
                orphan(view, format!("execution {} is deleted and nothing will purge it", row.id));
            }
        }
    }
    let ends_in_time = row.deadline_ms.is_none_or(|at| row.alarm_ms.is_some_and(|alarm| alarm <= at));
    if !row.status.is_terminal() && !ends_in_time {
        orphan(view, format!("execution {} has a timeout that will not fire", row.id));
    }
    if !row.status.is_terminal() && row.cancel_requested_ms.is_some() && row.alarm_ms.is_none() {
        orphan(view, format!("execution {} was asked to stop and nothing ends its grace time", row.id));
    }
}

fn has_open_items(view: &View<'_>, row: &Execution) -> bool {
    let own_task = |task: &&Task| task.execution_id == Some(row.id) && task.tenant_id == row.tenant_id;
    let timers = view.timers.get(&row.key());
    let promises = view.promises.get(&row.key());
    view.tasks.values().copied().filter(own_task).any(|task| !task.status.is_terminal())
        || timers.is_some_and(|rows| rows.iter().any(|timer| timer.status == TimerStatus::Open))
        || promises.is_some_and(|rows| rows.iter().any(|promise| promise.status == PromiseStatus::Open))
}

fn check_alarm(view: &mut View<'_>, what: &str, id: super::Id, class: DueClass, armed_ms: Option<i64>) {
    let rows = view.due.get(&(class, id.0, id.1)).map_or(0, Vec::len);
    let matches = armed_ms.is_none_or(|at| view.has_due(class, id, at));
    if rows != usize::from(armed_ms.is_some()) || !matches {
        orphan(view, format!("{what} {}: {class} armed at {armed_ms:?}, {rows} rows in due", id.1));
    }
}

fn check_task(view: &mut View<'_>, row: &Task) {
    let id = row.key();
    let in_ready = view.ready.get(&id).is_some_and(|rows| rows.iter().any(|ready| **ready == row.ready()));
    if in_ready != row.is_in_ready() {
        orphan(view, format!("task {}: {}, in the ready table: {in_ready}", row.id, row.status));
    }
    check_alarm(view, "task", id, DueClass::TaskAlarm, row.alarm_ms);
    check_alarm(view, "task", id, DueClass::TaskLease, row.lease_alarm_ms);
    match row.status {
        TaskStatus::Pending => {
            check_moments(
                view,
                row,
                [row.not_before_ms, task::start_deadline(row), task::total_deadline(row)],
            );
        }
        TaskStatus::Running => {
            if row.lease_until_ms.is_none() || row.lease_alarm_ms.is_none() {
                orphan(view, format!("task {} is RUNNING without a lease", row.id));
            }
            let deadlines =
                [task::close_deadline(row), task::heartbeat_deadline(row), task::total_deadline(row)];
            check_moments(view, row, deadlines);
        }
        _ => {
            if row.purging && !view.has_follow_up(DueClass::PurgeTask, id) {
                orphan(view, format!("task {} is deleted and nothing will purge it", row.id));
            }
        }
    }
}

/// The alarm comes no later than any moment that matters.
fn check_moments(view: &mut View<'_>, row: &Task, moments: [Option<i64>; 3]) {
    let first = alarm::earliest(moments);
    if first.is_some_and(|at| row.alarm_ms.is_none_or(|alarm| alarm > at)) {
        orphan(view, format!("task {} waits for a time that will not come", row.id));
    }
}

fn check_timer(view: &mut View<'_>, timer: &Timer) {
    let rows = view.due.get(&(DueClass::Timer, timer.tenant_id, timer.execution_id));
    let armed =
        rows.is_some_and(|rows| rows.iter().any(|row| row.name == timer.name && row.due_ms == timer.fire_ms));
    if armed != (timer.status == TimerStatus::Open) {
        let message =
            format!("timer {} of {} is {}, armed: {armed}", timer.name, timer.execution_id, timer.status);
        orphan(view, message);
    }
}

fn check_promise(view: &mut View<'_>, promise: &Promise) {
    let Some(deadline_ms) = promise.deadline_ms else { return };
    let armed = view.has_due(DueClass::PromiseTimeout, (promise.tenant_id, promise.id), deadline_ms);
    if armed != (promise.status == PromiseStatus::Open) {
        orphan(view, format!("promise {} is {}, armed: {armed}", promise.id, promise.status));
    }
}

/// Ready rows whose subject does not stand there.
fn check_ready(view: &mut View<'_>) {
    for ready in &view.snapshot.ready {
        let id = (ready.lane.tenant_id, ready.id);
        let stands = match ready.lane.class {
            WorkClass::Task => {
                view.tasks.get(&id).is_some_and(|row| row.is_in_ready() && row.ready() == *ready)
            }
            _ => view.executions.get(&id).is_some_and(|row| row.is_in_ready() && row.ready() == *ready),
        };
        if !stands {
            orphan(view, format!("ready row of {} whose subject is not ready", ready.id));
        }
    }
}

/// Due rows whose subject does not exist.
fn check_due(view: &mut View<'_>) {
    for due in &view.snapshot.due {
        let id = (due.tenant_id, due.id);
        let exists = match due.class {
            DueClass::TaskAlarm | DueClass::TaskLease | DueClass::PurgeTask => view.tasks.contains_key(&id),
            DueClass::PromiseTimeout => {
                view.snapshot.promises.iter().any(|row| (row.tenant_id, row.id) == id)
            }
            // A follow-up may outlive what it was for; it then does nothing.
            DueClass::CancelExecution | DueClass::CancelChildren | DueClass::CloseItems => true,
            _ => view.executions.contains_key(&id),
        };
        if !exists {
            orphan(view, format!("due row {} of {}, which does not exist", due.class, due.id));
        }
    }
}
