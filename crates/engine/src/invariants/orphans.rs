//! P6: everything that is open has a live cause, and the search tables agree with the rows.

use super::{Promised, Subject, View, standing};
use crate::ids::TenantId;
use crate::lifecycle::{alarm, task};
use crate::state::*;

pub(super) fn check(view: &mut View<'_>) {
    let subjects = view.subjects;
    subjects.executions.iter().for_each(|row| check_execution(view, row));
    subjects.tasks.iter().for_each(|row| check_task(view, row));
    subjects.timers.iter().for_each(|row| check_timer(view, row));
    subjects.promises.iter().for_each(|row| check_promise(view, row));
    subjects.ready.iter().for_each(|row| check_ready(view, row));
    subjects.due.iter().for_each(|row| check_due(view, row));
}

fn orphan(view: &mut View<'_>, tenant_id: TenantId, subject: Subject, message: String) {
    view.report(Promised::P6, tenant_id, subject, message);
}

fn check_execution(view: &mut View<'_>, row: &Execution) {
    let id = row.key();
    let in_ready = view.ready.get(&id).is_some_and(|rows| rows.iter().any(|ready| **ready == row.ready()));
    if in_ready != row.is_in_ready() {
        orphan(
            view,
            row.tenant_id,
            Subject::Execution(row.id),
            format!("execution {}: {}, in the ready table: {in_ready}", row.id, row.status),
        );
    }
    check_alarm(view, Subject::Execution(row.id), id, DueClass::ExecutionAlarm, row.alarm_ms);
    check_alarm(view, Subject::Execution(row.id), id, DueClass::ExecutionLease, row.lease_alarm_ms);
    match row.status {
        ExecutionStatus::Pending => {
            let late = row.not_before_ms.is_some_and(|at| row.alarm_ms.is_none_or(|alarm| alarm > at));
            if late {
                orphan(
                    view,
                    row.tenant_id,
                    Subject::Execution(row.id),
                    format!("execution {} is held back, but no alarm will release it", row.id),
                );
            }
        }
        ExecutionStatus::Running => {
            if row.lease_until_ms.is_none() || row.lease_alarm_ms.is_none() {
                orphan(
                    view,
                    row.tenant_id,
                    Subject::Execution(row.id),
                    format!("execution {} is RUNNING without a lease", row.id),
                );
            }
        }
        ExecutionStatus::Waiting => {
            if row.base_sequence < row.last_external_sequence {
                let (base, last) = (row.base_sequence, row.last_external_sequence);
                orphan(
                    view,
                    row.tenant_id,
                    Subject::Execution(row.id),
                    format!("execution {} waits with an unseen event: {base} < {last}", row.id),
                );
            }
        }
        _ => {
            let open = row.open_tasks + row.open_timers + row.open_promises > 0;
            let items_open = open && has_open_items(view, row);
            if items_open && !view.has_follow_up(DueClass::CloseItems, id) && !row.purging {
                orphan(
                    view,
                    row.tenant_id,
                    Subject::Execution(row.id),
                    format!(
                        "execution {} has finished, but has open tasks, timers or promises and no follow-up",
                        row.id
                    ),
                );
            }
            if row.purging && !view.has_follow_up(DueClass::PurgeExecution, id) {
                orphan(
                    view,
                    row.tenant_id,
                    Subject::Execution(row.id),
                    format!("execution {} is deleted, but no follow-up will purge it", row.id),
                );
            }
        }
    }
    let ends_in_time = row.deadline_ms.is_none_or(|at| row.alarm_ms.is_some_and(|alarm| alarm <= at));
    if !row.status.is_terminal() && !ends_in_time {
        orphan(
            view,
            row.tenant_id,
            Subject::Execution(row.id),
            format!("execution {} has a timeout, but no alarm for it", row.id),
        );
    }
    let force_stopped = row.clean_up_until_ms.is_none_or(|at| row.alarm_ms.is_some_and(|alarm| alarm <= at));
    if !row.status.is_terminal() && !force_stopped {
        orphan(
            view,
            row.tenant_id,
            Subject::Execution(row.id),
            format!("execution {} has a cancel request, but no alarm for the end of its grace", row.id),
        );
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

fn check_alarm(view: &mut View<'_>, subject: Subject, id: super::Id, class: DueClass, armed_ms: Option<i64>) {
    let rows = view.due.get(&(class, id.0, id.1)).map_or(0, Vec::len);
    let matches = armed_ms.is_none_or(|at| view.has_due(class, id, at));
    if rows != usize::from(armed_ms.is_some()) || !matches {
        let message = format!("{subject}: {class} armed at {armed_ms:?}, {rows} rows in due");
        orphan(view, id.0, subject, message);
    }
}

fn check_task(view: &mut View<'_>, row: &Task) {
    let id = row.key();
    let in_ready = view.ready.get(&id).is_some_and(|rows| rows.iter().any(|ready| **ready == row.ready()));
    if in_ready != row.is_in_ready() {
        orphan(
            view,
            row.tenant_id,
            Subject::Task(row.id),
            format!("task {}: {}, in the ready table: {in_ready}", row.id, row.status),
        );
    }
    check_alarm(view, Subject::Task(row.id), id, DueClass::TaskAlarm, row.alarm_ms);
    check_alarm(view, Subject::Task(row.id), id, DueClass::TaskLease, row.lease_alarm_ms);
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
                orphan(
                    view,
                    row.tenant_id,
                    Subject::Task(row.id),
                    format!("task {} is RUNNING without a lease", row.id),
                );
            }
            let deadlines =
                [task::close_deadline(row), task::heartbeat_deadline(row), task::total_deadline(row)];
            check_moments(view, row, deadlines);
        }
        _ => {
            if row.purging && !view.has_follow_up(DueClass::PurgeTask, id) {
                orphan(
                    view,
                    row.tenant_id,
                    Subject::Task(row.id),
                    format!("task {} is deleted, but no follow-up will purge it", row.id),
                );
            }
        }
    }
}

/// The alarm must not be later than any of the deadlines.
fn check_moments(view: &mut View<'_>, row: &Task, moments: [Option<i64>; 3]) {
    let first = alarm::earliest(moments);
    if first.is_some_and(|at| row.alarm_ms.is_none_or(|alarm| alarm > at)) {
        orphan(
            view,
            row.tenant_id,
            Subject::Task(row.id),
            format!("task {} has a deadline, but no alarm for it", row.id),
        );
    }
}

fn check_timer(view: &mut View<'_>, timer: &Timer) {
    let rows = view.due.get(&(DueClass::Timer, timer.tenant_id, timer.execution_id));
    let armed =
        rows.is_some_and(|rows| rows.iter().any(|row| row.name == timer.name && row.due_ms == timer.fire_ms));
    if armed != (timer.status == TimerStatus::Open) {
        let subject = Subject::Timer { execution_id: timer.execution_id, name: timer.name.clone() };
        let message = format!("{subject} is {}, armed: {armed}", timer.status);
        orphan(view, timer.tenant_id, subject, message);
    }
}

fn check_promise(view: &mut View<'_>, promise: &Promise) {
    let Some(deadline_ms) = promise.deadline_ms else { return };
    let armed = view.has_due(DueClass::PromiseTimeout, (promise.tenant_id, promise.id), deadline_ms);
    if armed != (promise.status == PromiseStatus::Open) {
        let subject = Subject::Promise(promise.id);
        let message = format!("{subject} is {}, armed: {armed}", promise.status);
        orphan(view, promise.tenant_id, subject, message);
    }
}

/// Ready rows whose subject is not ready in that place.
fn check_ready(view: &mut View<'_>, ready: &Ready) {
    let id = (ready.lane.tenant_id, ready.id);
    let stands = standing::ready(ready, view.executions.get(&id).copied(), view.tasks.get(&id).copied());
    if !stands {
        let message = format!("ready row of {} whose subject is not ready", ready.id);
        orphan(view, id.0, Subject::Ready(ready.clone()), message);
    }
}

/// Due rows whose subject does not exist, or waits for another time.
fn check_due(view: &mut View<'_>, due: &Due) {
    let id = (due.tenant_id, due.id);
    let timers = view.timers.get(&id).map_or(&[][..], Vec::as_slice);
    let about = standing::About {
        execution: view.executions.get(&id).copied(),
        task: view.tasks.get(&id).copied(),
        timer: timers.iter().find(|timer| timer.name == due.name).copied(),
        promise: view.promise_ids.get(&id).copied(),
    };
    if !standing::due(due, &about) {
        let message = format!("due row {} of {}, which does not wait for it", due.class, due.id);
        orphan(view, id.0, Subject::Due(due.clone()), message);
    }
}
