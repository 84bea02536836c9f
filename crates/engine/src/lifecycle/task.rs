//! The life of a task: attempts, delays between them, and its end, with its workflow's event in the same transaction.

use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::failure::{Failure, StoredFailure};
use crate::ids::{Payload, TaskId, TenantId, Text};
use crate::lifecycle::reporter::{self, Content, Verdict, Why};
use crate::lifecycle::{alarm, execution, key};
use crate::note::Noted;
use crate::planted::{Bug, planted};
use crate::request::Peer;
use crate::rules::Work;
use crate::state::{
    Attempt, AttemptStatus, DueClass, KeySpace, RetryPolicy, SmallEnum, Task, TaskStatus, WorkClass,
};
use crate::working_set::Needs;

/// Loads a task and everything that its end would touch: its execution and its key.
pub(crate) fn needs_with_end<'a>(needs: &mut Needs<'a>, tenant_id: TenantId, id: TaskId) -> Option<&'a Task> {
    let task = needs.row::<Task>((tenant_id, id))?;
    if let Some(execution_id) = task.execution_id {
        needs.execution((tenant_id, execution_id));
    }
    key::needs_release(needs, tenant_id, KeySpace::Work, task.idempotency_key.as_ref());
    Some(task)
}

pub(crate) fn find<'a>(work: &'a Work<'_>, id: TaskId) -> Result<&'a Task, Refusal> {
    match work.set.tasks.get(&(work.tenant_id, id)) {
        Some(task) if !task.purging => Ok(task),
        _ => Err(Refusal::new(Code::TaskNotFound, format!("task {id} not found"))),
    }
}

/// The task, if the report comes from the holder of its claim.
pub(crate) fn find_claimed(work: &Work<'_>, id: TaskId, token: Option<i64>) -> Result<Task, Refusal> {
    let task = find(work, id)?;
    holds(task, token, work.peer, work.now.lease_ms)?;
    Ok(task.clone())
}

/// The kind of result that a report carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
}

/// The task of a reported result, and whether this result was accepted before. A new result is marked as accepted.
/// `digest`: fingerprint of the result's content.
pub(crate) fn find_reported(
    work: &mut Work<'_>,
    id: TaskId,
    token: Option<i64>,
    outcome: Outcome,
    digest: impl FnOnce() -> i64,
) -> Result<(Task, bool), Refusal> {
    let task = find(work, id)?;
    // Workers with tokens repeat a report by its token alone.
    let digest = (task.plain || token.is_none()).then(digest);
    let content = digest.map(|digest| Content { digest, unique: false });
    match reporter::judge(task.into(), token, work.peer, content, work.now.lease_ms) {
        Verdict::Stale(why) => Err(stale(task, token, why)),
        Verdict::Ambiguous => Err(stale(task, token, Why::Unidentified)),
        Verdict::Repeat => Ok((task.clone(), true)),
        Verdict::Late if outcome == Outcome::Failure => Err(stale(task, token, Why::NotCurrent)),
        verdict @ (Verdict::Holder | Verdict::Late) => {
            let mut task = task.clone();
            if verdict == Verdict::Late {
                take_back_loss(work, &task);
            }
            task.accepted_epoch = task.epoch;
            task.accepted_digest = digest;
            Ok((task, false))
        }
    }
}

/// Removes the row of the attempt that was counted as lost: it has succeeded, and a success has no row of its own.
fn take_back_loss(work: &mut Work<'_>, task: &Task) {
    work.set.attempts.delete_known(task.attempt(work.now.ms, AttemptStatus::Timeout, None));
    work.note(Noted::LateResult);
}

/// Checks that this reporter holds the task's claim. The token of the last claim is accepted after its end too: the
/// worker sent the message before its result, and the result arrived first.
///
/// # Errors
/// With the reason why the report would have no effect.
pub fn may_report(task: &Task, token: Option<i64>, peer: &Peer, now_ms: i64) -> Result<(), Refusal> {
    if task.status != TaskStatus::Running && task.epoch > 0 && token == Some(task.epoch) {
        return Ok(());
    }
    holds(task, token, Some(peer), now_ms)
}

/// The task of a log line. A line is written some time after it was accepted, so its claim may have ended meanwhile.
pub(crate) fn find_logged(work: &Work<'_>, id: TaskId, token: Option<i64>) -> Result<Task, Refusal> {
    let task = find(work, id)?;
    if task.status == TaskStatus::Running || !reporter::may_have_held(task.into(), token, work.peer) {
        return find_claimed(work, id, token);
    }
    Ok(task.clone())
}

fn holds(task: &Task, token: Option<i64>, peer: Option<&Peer>, now_ms: i64) -> Result<(), Refusal> {
    match reporter::judge(task.into(), token, peer, None, now_ms) {
        Verdict::Holder => Ok(()),
        Verdict::Stale(why) => Err(stale(task, token, why)),
        Verdict::Late | Verdict::Repeat | Verdict::Ambiguous => Err(stale(task, token, Why::NotCurrent)),
    }
}

fn stale(task: &Task, token: Option<i64>, why: Why) -> Refusal {
    reporter::refuse(&format!("task {}", task.id), task.status.name(), task.into(), token, why)
}

/// Enqueues a task. If `not_before_ms` is in the future, the task waits for that time first.
pub(crate) fn make_pending(work: &mut Work<'_>, task: &mut Task, not_before_ms: Option<i64>) {
    task.status = TaskStatus::Pending;
    task.lease_until_ms = None;
    task.not_before_ms = not_before_ms.filter(|at| *at > work.now.ms);
    if task.is_in_ready() {
        work.set.add_ready(task.ready());
    }
    arm(work, task);
}

pub(crate) fn leave_line(work: &mut Work<'_>, task: &Task) {
    if task.is_in_ready() {
        work.set.remove_ready(task.ready());
    }
}

/// Sets the alarm to the next time that matters.
pub(crate) fn arm(work: &mut Work<'_>, task: &mut Task) {
    let wanted = match task.status {
        TaskStatus::Pending => {
            let announce_ms = announce_deadline(work, task);
            alarm::earliest([task.not_before_ms, start_deadline(task), total_deadline(task), announce_ms])
        }
        TaskStatus::Running => {
            alarm::earliest([close_deadline(task), heartbeat_deadline(task), total_deadline(task)])
        }
        _ => None,
    };
    task.alarm_ms = alarm::no_later_than(work, DueClass::TaskAlarm, task.key(), task.alarm_ms, wanted);
}

/// Until when a task that was created ahead waits for its ScheduleTask command.
pub(crate) fn announce_deadline(work: &Work<'_>, task: &Task) -> Option<i64> {
    (!task.announced).then(|| task.created_ms.saturating_add(work.limits.announce_within_ms))
}

/// The deadline of the schedule-to-start timeout, which counts until the first attempt begins.
pub(crate) fn start_deadline(task: &Task) -> Option<i64> {
    let never_started = task.execution_count == task.retry_base;
    let limit = task.schedule_to_start_ms.filter(|_| never_started)?;
    Some(task.scheduled_or_created_ms().saturating_add(limit))
}

pub(crate) fn total_deadline(task: &Task) -> Option<i64> {
    Some(task.scheduled_or_created_ms().saturating_add(task.total_ms?))
}

pub(crate) fn close_deadline(task: &Task) -> Option<i64> {
    Some(task.started_ms?.saturating_add(task.start_to_close_ms?))
}

pub(crate) fn heartbeat_deadline(task: &Task) -> Option<i64> {
    let since = task.last_heartbeat_ms.max(task.started_ms)?;
    Some(since.saturating_add(task.heartbeat_ms?))
}

/// What follows an attempt that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Next {
    /// Another attempt, after the delay of the policy or the delay that the worker asked for.
    Retry {
        own_delay_ms: Option<i64>,
    },
    /// Another attempt at once: the worker was lost, and the lease was enough delay.
    RetryAtOnce,
    Never,
}

/// Ends a running attempt without success: either another attempt follows, or the task has failed.
pub(crate) fn end_attempt(
    work: &mut Work<'_>,
    task: &mut Task,
    status: AttemptStatus,
    error: Text,
    failure: Failure,
    next: Next,
) {
    // No worker has reported the attempt, so its worker may still do so.
    if task.plain && status == AttemptStatus::Timeout {
        task.claim_lost_ms = Some(work.now.lease_ms);
    }
    let retryable = status != AttemptStatus::Failed || next != Next::Never;
    let said = StoredFailure {
        failure: failure.clone(),
        retryable: (!retryable).then_some(false),
        ..StoredFailure::default()
    };
    task.failure = said.write();
    record_attempt(work, task, status, error.clone(), task.failure.clone());
    if task.cancel_requested {
        // The task received a cancel request, so no other attempt follows.
        finish(work, task, End::Cancelled { reason: error, told: false });
        return;
    }
    task.error = Some(error.clone());
    let attempts = task.execution_count - task.retry_base;
    let delay_ms = match next {
        Next::Never => None,
        _ if attempts >= task.max_retries => None,
        Next::RetryAtOnce => Some(0),
        Next::Retry { own_delay_ms: Some(delay) } => Some(delay),
        Next::Retry { own_delay_ms: None } => {
            Some(backoff_ms(task.retry_policy(), attempts, work.ids.fraction()))
        }
    };
    let start_ms = delay_ms.map(|delay| work.now.ms.saturating_add(delay));
    match start_ms {
        // If the next attempt could only begin after the total timeout, the task fails now.
        Some(_) if planted(Bug::RetryLost) => task.status = TaskStatus::Pending,
        Some(start) if total_deadline(task).is_none_or(|deadline| start < deadline) => {
            make_pending(work, task, Some(start));
        }
        _ => finish(work, task, End::Failed { error, failure, retryable }),
    }
}

/// Delay before the attempt that follows attempt `attempts` (1-based). Saturates: never overflows, never exceeds the
/// cap. `fraction` (0..1) spreads it over 80 % to 120 %, so that tasks that failed together do not retry together.
pub fn backoff_ms(policy: RetryPolicy, attempts: i64, fraction: f64) -> i64 {
    let exponent = i32::try_from(attempts.saturating_sub(1).max(0)).unwrap_or(i32::MAX);
    let plain = policy.initial_ms as f64 * policy.factor.powi(exponent);
    let spread = plain * (0.8 + 0.4 * fraction);
    // `as` saturates, finite positive factors never give NaN, and the cap bounds infinity.
    spread.min(policy.cap_ms as f64).max(1.0) as i64
}

/// Records an attempt that did not succeed.
pub(crate) fn record_attempt(
    work: &mut Work<'_>,
    task: &Task,
    status: AttemptStatus,
    error: Text,
    failure: Option<Payload>,
) {
    work.set.attempts.put(Attempt { failure, ..task.attempt(work.now.ms, status, Some(error)) });
}

/// How a task ends.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Completed {
        output: Payload,
    },
    Failed {
        error: Text,
        failure: Failure,
        /// `false`: the last attempt reported that a retry cannot help.
        retryable: bool,
    },
    /// `told`: the workflow cancelled the task by a command; that command's event has the answer and counts it.
    Cancelled {
        reason: Text,
        told: bool,
    },
}

/// Closes the row, frees what it holds, and writes the workflow's event in the same transaction.
pub(crate) fn finish(work: &mut Work<'_>, task: &mut Task, end: End) {
    leave_line(work, task);
    task.finished_ms = Some(work.now.ms);
    task.lease_until_ms = None;
    task.not_before_ms = None;
    alarm::clear(work, DueClass::TaskAlarm, task.key(), task.alarm_ms.take());
    alarm::clear(work, DueClass::TaskLease, task.key(), task.lease_alarm_ms.take());
    let event = match end {
        End::Completed { output } => {
            task.status = TaskStatus::Completed;
            task.output = Some(output);
            task.error = None;
            task.failure = None;
            task.progress = 1.0;
            Some(EventData::new(EventKind::TaskCompleted))
        }
        End::Failed { error, failure, retryable } => {
            task.status = TaskStatus::Failed;
            task.error = Some(error);
            let (retryable, attempts) = (Some(retryable), Some(task.execution_count));
            task.failure = StoredFailure { failure, retryable, attempts, stack_trace: None }.write();
            Some(EventData::new(EventKind::TaskFailed))
        }
        End::Cancelled { reason, told } => {
            task.status = TaskStatus::Cancelled;
            task.error = Some(reason);
            task.failure = None;
            // Every client knows TASK_FAILED, and no client waits for TASK_CANCELLED.
            (!told).then(|| EventData::new(EventKind::TaskFailed).flag(true))
        }
    };
    let took_ms = work.now.ms.saturating_sub(task.scheduled_or_created_ms()).max(0);
    work.note(Noted::Finished { class: WorkClass::Task, status: task.status.name(), took_ms });
    if task.status != TaskStatus::Completed {
        key::clear(work, task.idempotency_key.as_ref(), task.id);
    }
    if let Some(event) = event {
        tell_workflow(work, task, event);
    }
}

fn tell_workflow(work: &mut Work<'_>, task: &Task, event: EventData) {
    let Some(execution_id) = task.execution_id.filter(|_| task.announced) else { return };
    let Some(mut owner) = work.set.executions.get(&(task.tenant_id, execution_id)).cloned() else { return };
    if owner.status.is_terminal() {
        return;
    }
    owner.open_tasks -= 1;
    execution::append_external(work, &mut owner, event.subject(task.id));
    work.set.executions.put(owner);
}
