//! Repairs an orphan. Every step checks the rows under lock, so a subject that is sound, or was repaired meanwhile,
//! stays unchanged.
//!
//! Logs, states, counts and keys are not touched: a repair that guesses what happened would hide the damage.

use crate::code::Refusal;
use crate::ids::{ExecutionId, PromiseId, TaskId, TenantId, Text};
use crate::invariants::{Subject, standing};
use crate::lifecycle::{alarm, execution, task};
use crate::reply::{Mended, Reply};
use crate::request::Mend;
use crate::rules::{Rule, Work};
use crate::state::*;
use crate::table::{Known, Row};
use crate::working_set::{Needs, Scan};

impl Rule for Mend {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        match &self.subject {
            Subject::Execution(id) => needs_execution(needs, (tenant_id, *id)),
            Subject::Task(id) => {
                if let Some(row) = needs.row::<Task>((tenant_id, *id)) {
                    needs.row::<Ready>(row.ready().key());
                    needs_alarm(needs, DueClass::TaskAlarm, row.key(), row.alarm_ms);
                    needs_alarm(needs, DueClass::TaskLease, row.key(), row.lease_alarm_ms);
                }
            }
            Subject::Timer { execution_id, name } => {
                needs.execution((tenant_id, *execution_id));
                if let Some(row) = needs.row::<Timer>((tenant_id, *execution_id, name.clone())) {
                    needs.row::<Due>(row.due_row().key());
                }
            }
            Subject::Promise(id) => {
                if let Some(due) = needs.row::<Promise>((tenant_id, *id)).and_then(Promise::due_row) {
                    needs.row::<Due>(due.key());
                }
            }
            Subject::Ready(ready) if ready.lane.tenant_id == tenant_id => {
                needs.row::<Ready>(ready.key());
                match ready.lane.class {
                    WorkClass::Task => drop(needs.row::<Task>((tenant_id, ready.id))),
                    _ => drop(needs.execution((tenant_id, ready.id))),
                }
            }
            Subject::Due(due) if due.tenant_id == tenant_id => needs_due(needs, due),
            Subject::Ready(_) | Subject::Due(_) | Subject::Key(_) | Subject::Quota => {}
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut done = Vec::new();
        match &self.subject {
            Subject::Execution(id) => mend_execution(work, *id, &mut done),
            Subject::Task(id) => mend_task(work, *id, &mut done),
            Subject::Timer { execution_id, name } => mend_timer(work, *execution_id, name, &mut done),
            Subject::Promise(id) => mend_promise(work, *id, &mut done),
            Subject::Ready(ready) if ready.lane.tenant_id == work.tenant_id => {
                mend_ready(work, ready, &mut done);
            }
            Subject::Due(due) if due.tenant_id == work.tenant_id => mend_due(work, due, &mut done),
            Subject::Ready(_) | Subject::Due(_) | Subject::Key(_) | Subject::Quota => {}
        }
        done.sort_unstable();
        done.dedup();
        Ok(Reply::Mended(done))
    }
}

fn needs_alarm(
    needs: &mut Needs<'_>,
    class: DueClass,
    (tenant_id, id): (TenantId, uuid::Uuid),
    at: Option<i64>,
) {
    if let Some(at) = at {
        needs.row::<Due>(Due::new(class, at, tenant_id, id).key());
    }
}

fn needs_execution(needs: &mut Needs<'_>, key: (TenantId, ExecutionId)) {
    let Some(row) = needs.execution(key) else { return };
    needs.row::<Ready>(row.ready().key());
    needs_alarm(needs, DueClass::ExecutionAlarm, key, row.alarm_ms);
    needs_alarm(needs, DueClass::ExecutionLease, key, row.lease_alarm_ms);
    if row.status.is_terminal() {
        for scan in open_items(key) {
            needs.scan(scan);
        }
    }
}

/// One row of each table is enough to know that open items exist.
fn open_items((tenant_id, execution_id): (TenantId, ExecutionId)) -> [Scan; 3] {
    let limit = 1;
    [
        Scan::OpenTasks { tenant_id, execution_id, limit },
        Scan::OpenTimers { tenant_id, execution_id, limit },
        Scan::OpenPromises { tenant_id, execution_id, limit },
    ]
}

fn needs_due(needs: &mut Needs<'_>, due: &Due) {
    let id = (due.tenant_id, due.id);
    needs.row::<Due>(due.key());
    match due.class {
        DueClass::Timer => {
            needs.execution(id);
            needs.row::<Timer>((due.tenant_id, due.id, due.name.clone()));
        }
        DueClass::PromiseTimeout => drop(needs.row::<Promise>(id)),
        DueClass::ExecutionAlarm | DueClass::ExecutionLease => drop(needs.execution(id)),
        DueClass::TaskAlarm | DueClass::TaskLease => drop(needs.row::<Task>(id)),
        _ => {}
    }
}

fn mend_execution(work: &mut Work<'_>, id: ExecutionId, done: &mut Vec<Mended>) {
    let Some(mut row) = work.set.executions.get(&(work.tenant_id, id)).cloned() else { return };
    let key = row.key();
    enqueue(work, row.is_in_ready().then(|| row.ready()), done);
    put_alarm(work, DueClass::ExecutionAlarm, key, row.alarm_ms, done);
    put_alarm(work, DueClass::ExecutionLease, key, row.lease_alarm_ms, done);
    let before = row.clone();
    match row.status {
        ExecutionStatus::Waiting if row.base_sequence < row.last_external_sequence => {
            execution::make_pending(work, &mut row);
            done.push(Mended::Queued);
        }
        ExecutionStatus::Running if row.lease_until_ms.is_none() || row.lease_alarm_ms.is_none() => {
            let until_ms = row.lease_until_ms.get_or_insert(work.now.lease_ms);
            let until_ms = Some(*until_ms);
            row.lease_alarm_ms =
                alarm::no_later_than(work, DueClass::ExecutionLease, key, row.lease_alarm_ms, until_ms);
            done.push(Mended::LeaseEnded);
        }
        _ => {}
    }
    if !row.status.is_terminal() {
        execution::arm(work, &mut row);
    } else if row.purging {
        follow_up(work, DueClass::PurgeExecution, id, done);
    } else if has_open_items(work, key) {
        follow_up(work, DueClass::CloseItems, id, done);
    }
    if row.alarm_ms != before.alarm_ms {
        done.push(Mended::Armed);
    }
    if row != before {
        work.set.executions.put(row);
    }
}

fn mend_task(work: &mut Work<'_>, id: TaskId, done: &mut Vec<Mended>) {
    let Some(mut row) = work.set.tasks.get(&(work.tenant_id, id)).cloned() else { return };
    let key = row.key();
    enqueue(work, row.is_in_ready().then(|| row.ready()), done);
    put_alarm(work, DueClass::TaskAlarm, key, row.alarm_ms, done);
    put_alarm(work, DueClass::TaskLease, key, row.lease_alarm_ms, done);
    let before = row.clone();
    if row.status == TaskStatus::Running && (row.lease_until_ms.is_none() || row.lease_alarm_ms.is_none()) {
        let until_ms = row.lease_until_ms.get_or_insert(work.now.lease_ms);
        let until_ms = Some(*until_ms);
        row.lease_alarm_ms =
            alarm::no_later_than(work, DueClass::TaskLease, key, row.lease_alarm_ms, until_ms);
        done.push(Mended::LeaseEnded);
    }
    if row.purging {
        follow_up(work, DueClass::PurgeTask, id, done);
    }
    task::arm(work, &mut row);
    if row.alarm_ms != before.alarm_ms {
        done.push(Mended::Armed);
    }
    if row != before {
        work.set.tasks.put(row);
    }
}

fn enqueue(work: &mut Work<'_>, ready: Option<Ready>, done: &mut Vec<Mended>) {
    if let Some(ready) = ready.filter(|ready| work.set.ready.get(&ready.key()).is_none()) {
        work.set.add_ready(ready);
        done.push(Mended::Queued);
    }
}

/// Restores the alarm row that the subject's row requires.
fn put_alarm(
    work: &mut Work<'_>,
    class: DueClass,
    (tenant_id, id): (TenantId, uuid::Uuid),
    at: Option<i64>,
    done: &mut Vec<Mended>,
) {
    if let Some(at) = at {
        put_due(work, Due::new(class, at, tenant_id, id), done);
    }
}

fn put_due(work: &mut Work<'_>, due: Due, done: &mut Vec<Mended>) {
    if work.set.due.get(&due.key()).is_none() {
        work.set.due.put(due);
        done.push(Mended::Armed);
    }
}

fn follow_up(work: &mut Work<'_>, class: DueClass, id: uuid::Uuid, done: &mut Vec<Mended>) {
    // A second follow-up does nothing, and only a search of the whole table could find the first one.
    execution::follow_up(work, class, id, None);
    done.push(Mended::FollowedUp);
}

fn has_open_items(work: &Work<'_>, (tenant_id, id): (TenantId, ExecutionId)) -> bool {
    let set = &work.set;
    let task =
        |row: &Task| row.tenant_id == tenant_id && row.execution_id == Some(id) && !row.status.is_terminal();
    let timer =
        |row: &Timer| (row.tenant_id, row.execution_id) == (tenant_id, id) && row.status == TimerStatus::Open;
    let promise = |row: &Promise| {
        (row.tenant_id, row.execution_id) == (tenant_id, id) && row.status == PromiseStatus::Open
    };
    set.tasks.current().any(task) || set.timers.current().any(timer) || set.promises.current().any(promise)
}

fn mend_timer(work: &mut Work<'_>, execution_id: ExecutionId, name: &Text, done: &mut Vec<Mended>) {
    let timer = work.set.timers.get(&(work.tenant_id, execution_id, name.clone())).cloned();
    let Some(timer) = timer else { return };
    mend_item(work, timer.due_row(), timer.status == TimerStatus::Open, done);
}

fn mend_promise(work: &mut Work<'_>, id: PromiseId, done: &mut Vec<Mended>) {
    let Some(promise) = work.set.promises.get(&(work.tenant_id, id)).cloned() else { return };
    let Some(due) = promise.due_row() else { return };
    mend_item(work, due, promise.status == PromiseStatus::Open, done);
}

fn mend_item(work: &mut Work<'_>, due: Due, open: bool, done: &mut Vec<Mended>) {
    if open {
        put_due(work, due, done);
    } else if work.set.due.get(&due.key()).is_some() {
        work.set.due.delete(&due.key());
        done.push(Mended::Removed);
    }
}

fn mend_ready(work: &mut Work<'_>, ready: &Ready, done: &mut Vec<Mended>) {
    if work.set.ready.get(&ready.key()).is_none() {
        return;
    }
    let id = (ready.lane.tenant_id, ready.id);
    let stands = match ready.lane.class {
        WorkClass::Task => standing::ready(ready, None, work.set.tasks.get(&id)),
        _ => standing::ready(ready, work.set.executions.get(&id), None),
    };
    if !stands {
        work.set.remove_ready(ready.clone());
        done.push(Mended::Removed);
    }
}

fn mend_due(work: &mut Work<'_>, due: &Due, done: &mut Vec<Mended>) {
    if work.set.due.get(&due.key()).is_none() {
        return;
    }
    let id = (due.tenant_id, due.id);
    let set = &work.set;
    let about = standing::About {
        execution: found(set.executions.known(&id, false)),
        task: found(set.tasks.known(&id, false)),
        timer: found(set.timers.known(&(due.tenant_id, due.id, due.name.clone()), false)),
        promise: found(set.promises.known(&id, false)),
    };
    if !standing::due(due, &about) {
        work.set.due.delete(&due.key());
        done.push(Mended::Removed);
    }
}

/// The row, if it was loaded. Rows that the class of the due row does not need are not loaded.
fn found<R>(known: Known<'_, R>) -> Option<&R> {
    match known {
        Known::Row(row) => Some(row),
        _ => None,
    }
}
