//! Firing a row of the due table. The row is read again under lock, so that of two loops only the first has an effect.

use crate::code::Refusal;
use crate::event::{EventData, EventKind, Origin};
use crate::failure::{Failure, TIMEOUT};
use crate::ids::{TenantId, Text};
use crate::lifecycle::execution::{self, End};
use crate::lifecycle::task::{self, Next};
use crate::lifecycle::{alarm, clean_up, lease};
use crate::planted::{Bug, planted};
use crate::reply::{Fired, Reply};
use crate::request::FireDue;
use crate::rules::{Rule, Work, answer_promise, follow_up};
use crate::state::{
    AttemptStatus, ClockKind, Due, DueClass, Execution, ExecutionStatus, Promise, PromiseStatus, Task,
    TaskStatus, Timer, TimerStatus, Worker,
};
use crate::table::{Known, Row};
use crate::working_set::Needs;

impl Rule for FireDue {
    fn needs(&self, _tenant_id: TenantId, needs: &mut Needs<'_>) {
        let due = &self.due;
        let tenant_id = due.tenant_id;
        needs.row::<Due>(due.key());
        match due.class {
            DueClass::Timer => {
                needs.row::<Timer>((tenant_id, due.id, due.name.clone()));
                needs.execution((tenant_id, due.id));
            }
            DueClass::PromiseTimeout => {
                if let Some(promise) = needs.row::<Promise>((tenant_id, due.id)) {
                    needs.execution((tenant_id, promise.execution_id));
                }
            }
            DueClass::ExecutionAlarm => {
                execution::needs_with_end(needs, tenant_id, due.id);
            }
            DueClass::TaskAlarm => {
                task::needs_with_end(needs, tenant_id, due.id);
            }
            DueClass::ExecutionLease => {
                let row = needs.execution((tenant_id, due.id));
                if let Some(session) = row.and_then(|row| row.session) {
                    needs.peek::<Worker>((tenant_id, session));
                }
            }
            DueClass::TaskLease => {
                let row = task::needs_with_end(needs, tenant_id, due.id);
                if let Some(session) = row.and_then(|row| row.session) {
                    needs.peek::<Worker>((tenant_id, session));
                }
            }
            DueClass::CancelChildren
            | DueClass::CancelExecution
            | DueClass::CloseItems
            | DueClass::PurgeExecution
            | DueClass::PurgeTask => follow_up::needs(due, needs),
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        // Loops serve all tenants, so the tenant is taken from the row.
        work.tenant_id = self.due.tenant_id;
        let Some(due) = work.set.due.get(&self.due.key()).cloned() else {
            return Ok(Reply::Fired(Fired::Stale));
        };
        let now_ms = match due.clock {
            ClockKind::Product => work.now.ms,
            ClockKind::Lease => work.now.lease_ms,
        };
        if due.due_ms > now_ms && !planted(Bug::TimerFiresEarly) {
            // The loop's clock is ahead. A row never fires early.
            return Ok(Reply::Fired(Fired::Stale));
        }
        work.set.due.delete(&due.key());
        let acted = match due.class {
            DueClass::Timer => fire_timer(work, &due),
            DueClass::PromiseTimeout => time_out_promise(work, &due),
            DueClass::ExecutionAlarm => execution_alarm(work, &due),
            DueClass::TaskAlarm => task_alarm(work, &due),
            DueClass::ExecutionLease => execution_lease(work, &due),
            DueClass::TaskLease => task_lease(work, &due),
            _ => follow_up::act(work, &due),
        };
        let late_ms = now_ms - due.due_ms;
        Ok(Reply::Fired(if acted { Fired::Acted { late_ms } } else { Fired::Rearmed }))
    }
}

fn open_execution(work: &Work<'_>, due: &Due, id: uuid::Uuid) -> Option<Execution> {
    let row = work.set.executions.get(&(due.tenant_id, id))?;
    (!row.status.is_terminal()).then(|| row.clone())
}

fn fire_timer(work: &mut Work<'_>, due: &Due) -> bool {
    let timer = work.set.timers.get(&(due.tenant_id, due.id, due.name.clone())).cloned();
    let Some(mut timer) = timer.filter(|timer| timer.status == TimerStatus::Open) else { return false };
    let Some(mut row) = open_execution(work, due, due.id) else {
        // Its execution has finished, and the follow-up that closes the timer has not run yet.
        timer.status = TimerStatus::Cancelled;
        work.set.timers.put(timer);
        return false;
    };
    timer.status = TimerStatus::Fired;
    work.set.timers.put(timer);
    row.open_timers -= 1;
    let data = EventData::new(EventKind::TimerFired).name(due.name.clone());
    execution::append_external(work, &mut row, data);
    work.set.executions.put(row);
    true
}

fn time_out_promise(work: &mut Work<'_>, due: &Due) -> bool {
    let promise = work.set.promises.get(&(due.tenant_id, due.id)).cloned();
    let Some(mut promise) = promise.filter(|promise| promise.status == PromiseStatus::Open) else {
        return false;
    };
    let Some(mut row) = open_execution(work, due, promise.execution_id) else {
        promise.status = PromiseStatus::Abandoned;
        work.set.promises.put(promise);
        return false;
    };
    let data = EventData::new(EventKind::PromiseTimeout).subject(promise.id).name(promise.name.clone());
    promise.status = PromiseStatus::TimedOut;
    work.set.promises.put(promise);
    row.open_promises -= 1;
    execution::append_external(work, &mut row, data);
    work.set.executions.put(row);
    true
}

fn has_come(moment: Option<i64>, now_ms: i64) -> bool {
    moment.is_some_and(|at| at <= now_ms)
}

fn execution_alarm(work: &mut Work<'_>, due: &Due) -> bool {
    let Some(mut row) = open_execution(work, due, due.id) else { return false };
    row.alarm_ms = None;
    let now_ms = work.now.ms;
    let acted = if has_come(row.deadline_ms, now_ms) {
        let error = Text::from("execution timeout");
        let failure = Failure::of_kind(TIMEOUT);
        let end = End::Failed { error, failure, stack_trace: None, unread_signals: 0 };
        execution::finish(work, &mut row, Origin::External, end);
        true
    } else if has_come(row.clean_up_until_ms, now_ms) {
        let reason = clean_up::force_stopped(&row, work.limits.cancel_grace_ms);
        execution::finish(work, &mut row, Origin::External, End::cancelled(reason));
        true
    } else if row.status == ExecutionStatus::Pending && has_come(row.not_before_ms, now_ms) {
        execution::release(work, &mut row);
        true
    } else {
        execution::arm(work, &mut row);
        false
    };
    work.set.executions.put(row);
    acted
}

fn task_alarm(work: &mut Work<'_>, due: &Due) -> bool {
    let Some(mut row) = work.set.tasks.get(&(due.tenant_id, due.id)).cloned() else { return false };
    row.alarm_ms = None;
    let now_ms = work.now.ms;
    let acted = match row.status {
        TaskStatus::Pending => pending_task_alarm(work, &mut row, now_ms),
        TaskStatus::Running => running_task_alarm(work, &mut row, now_ms),
        _ => false,
    };
    if !acted {
        task::arm(work, &mut row);
    }
    work.set.tasks.put(row);
    acted
}

fn pending_task_alarm(work: &mut Work<'_>, row: &mut Task, now_ms: i64) -> bool {
    if has_come(task::announce_deadline(work, row), now_ms) {
        let reason = "its workflow never scheduled it".into();
        task::finish(work, row, task::End::Cancelled { reason, told: true });
        return true;
    }
    let what = if has_come(task::total_deadline(row), now_ms) {
        "total timeout"
    } else if has_come(task::start_deadline(row), now_ms) {
        "schedule-to-start timeout"
    } else if has_come(row.not_before_ms, now_ms) {
        task::make_pending(work, row, None);
        return true;
    } else {
        return false;
    };
    let error = match &row.error {
        Some(last) => format!("{what}; last error: {last}"),
        None => what.to_owned(),
    };
    task::finish(
        work,
        row,
        task::End::Failed { error: error.into(), failure: Failure::of_kind(TIMEOUT), retryable: true },
    );
    true
}

fn running_task_alarm(work: &mut Work<'_>, row: &mut Task, now_ms: i64) -> bool {
    let (what, next) = if has_come(task::total_deadline(row), now_ms) {
        ("total timeout", Next::Never)
    } else if has_come(task::close_deadline(row), now_ms) {
        ("start-to-close timeout", Next::Retry { own_delay_ms: None })
    } else if has_come(task::heartbeat_deadline(row), now_ms) {
        ("heartbeat timeout", Next::Retry { own_delay_ms: None })
    } else {
        return false;
    };
    let failure = Failure::of_kind(TIMEOUT);
    task::end_attempt(work, row, AttemptStatus::Timeout, what.into(), failure, next);
    true
}

/// The claimer's session. `None`: the claim has no session, or the session's row is not available.
fn session_lease(work: &Work<'_>, tenant_id: TenantId, session: Option<uuid::Uuid>) -> Option<Worker> {
    match work.set.workers.known(&(tenant_id, session?), false) {
        Known::Row(worker) => Some(worker.clone()),
        _ => None,
    }
}

fn execution_lease(work: &mut Work<'_>, due: &Due) -> bool {
    let Some(mut row) = open_execution(work, due, due.id) else { return false };
    row.lease_alarm_ms = None;
    let acted = row.status == ExecutionStatus::Running && {
        let session = session_lease(work, due.tenant_id, row.session.filter(|_| !row.plain));
        let until_ms = row.lease_until_ms.max(session.and_then(|worker| worker.lease_until_ms));
        let expired = until_ms.is_none_or(|until| until <= work.now.lease_ms);
        if expired {
            if row.plain {
                row.claim_lost_ms = Some(work.now.lease_ms);
            }
            clean_up::failed(&mut row, work.limits.cancel_grace_ms, work.now.ms);
            execution::make_pending(work, &mut row);
        } else {
            let class = DueClass::ExecutionLease;
            row.lease_alarm_ms = alarm::no_later_than(work, class, row.key(), None, until_ms);
        }
        expired
    };
    work.set.executions.put(row);
    acted
}

fn task_lease(work: &mut Work<'_>, due: &Due) -> bool {
    let Some(mut row) = work.set.tasks.get(&(due.tenant_id, due.id)).cloned() else { return false };
    row.lease_alarm_ms = None;
    let now_ms = work.now.lease_ms;
    let mut acted = false;
    if row.status == TaskStatus::Running {
        let session = session_lease(work, due.tenant_id, row.session);
        let until_ms = match row.plain {
            true => lease::holds_until(&row, session.as_ref(), work.limits),
            false => row.lease_until_ms.max(session.as_ref().and_then(|worker| worker.lease_until_ms)),
        };
        if until_ms.is_none_or(|until| until <= now_ms) {
            let error = "lease expired: its worker was lost".into();
            let failure = Failure::of_kind(TIMEOUT);
            task::end_attempt(work, &mut row, AttemptStatus::Timeout, error, failure, Next::RetryAtOnce);
            acted = true;
        } else {
            let worker = session.as_ref().filter(|_| row.plain);
            let look_ms = until_ms.map(|until| lease::next_look(until, worker, work.limits, now_ms));
            row.lease_alarm_ms = alarm::no_later_than(work, DueClass::TaskLease, row.key(), None, look_ms);
        }
    }
    work.set.tasks.put(row);
    acted
}

/// Closes the promise of a finished execution. Used by follow-ups.
pub(crate) fn abandon_promise(work: &mut Work<'_>, promise: Promise) {
    answer_promise::close(work, promise, PromiseStatus::Abandoned);
}
