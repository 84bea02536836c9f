//! The life of an execution: its log, how it becomes claimable, how it ends.

use crate::code::{Code, Refusal};
use crate::event::{Event, EventData, EventKind, Origin};
use crate::failure::{Failure, StoredFailure};
use crate::ids::{ExecutionId, Payload, TenantId, Text};
use crate::lifecycle::{alarm, clean_up, key, quota};
use crate::note::Noted;
use crate::planted::{Bug, planted};
use crate::rules::Work;
use crate::state::{Due, DueClass, Execution, ExecutionStatus, KeySpace, SmallEnum, WorkClass};
use crate::working_set::Needs;

/// Loads an execution and everything that its end would touch: parent, key and quota.
pub(crate) fn needs_with_end<'a>(
    needs: &mut Needs<'a>,
    tenant_id: TenantId,
    id: ExecutionId,
) -> Option<&'a Execution> {
    let execution = needs.execution((tenant_id, id))?;
    needs_end(needs, execution);
    Some(execution)
}

pub(crate) fn needs_end(needs: &mut Needs<'_>, execution: &Execution) {
    if let Some(parent_id) = execution.parent_id {
        needs.execution((execution.tenant_id, parent_id));
    }
    key::needs_release(needs, execution.tenant_id, KeySpace::Work, execution.idempotency_key.as_ref());
    quota::needs_end(needs, execution);
}

/// The execution, unless it is absent or deleted.
pub(crate) fn find(work: &Work<'_>, id: ExecutionId) -> Result<Execution, Refusal> {
    match work.set.executions.get(&(work.tenant_id, id)) {
        Some(execution) if !execution.purging => Ok(execution.clone()),
        _ => Err(Refusal::new(Code::ExecutionNotFound, format!("execution {id} not found"))),
    }
}

/// The execution, if it has not finished.
pub(crate) fn find_open(work: &Work<'_>, id: ExecutionId) -> Result<Execution, Refusal> {
    let execution = find(work, id)?;
    if execution.status.is_terminal() {
        let message = format!("execution {id} has already finished as {}", execution.status);
        return Err(Refusal::new(Code::ExecutionFinished, message));
    }
    Ok(execution)
}

/// Writes the next row of the log and returns its sequence.
pub(crate) fn append(work: &mut Work<'_>, execution: &mut Execution, origin: Origin, data: EventData) -> i64 {
    execution.last_sequence += 1;
    // An event is never earlier than the event before it, even if the clock steps back.
    execution.last_event_ms = execution.last_event_ms.max(work.now.ms);
    let event = Event {
        tenant_id: execution.tenant_id,
        execution_id: execution.id,
        sequence: execution.last_sequence,
        kind: data.kind,
        origin,
        time_ms: execution.last_event_ms,
        subject: data.subject,
        name: data.name,
        number: data.number,
        text: data.text,
        payload: data.payload,
    };
    grow_history(work, execution, event.weight());
    work.set.events.put(event);
    execution.last_sequence
}

/// Adds to the size of the history as it is shown. If it has become too large for plain clients, the execution moves to
/// the lane of large workflows.
pub(crate) fn grow_history(work: &mut Work<'_>, execution: &mut Execution, bytes: i64) {
    execution.history_bytes = execution.history_bytes.saturating_add(bytes);
    if execution.large || execution.history_bytes <= work.limits.unary_history_bytes {
        return;
    }
    leave_line(work, execution);
    execution.large = true;
    if execution.is_in_ready() {
        work.set.add_ready(execution.ready());
    }
}

/// Writes an external event and makes the execution claimable. All external events go through this function, so no
/// wake-up is lost.
pub(crate) fn append_external(work: &mut Work<'_>, execution: &mut Execution, data: EventData) -> i64 {
    let sequence = append(work, execution, Origin::External, data);
    execution.last_external_sequence = sequence;
    execution.marked |= execution.status == ExecutionStatus::Running;
    if execution.status == ExecutionStatus::Waiting {
        make_pending(work, execution);
    }
    sequence
}

/// Enqueues or requeues an execution. An execution that is held back stays held back: its alarm will release it.
pub(crate) fn make_pending(work: &mut Work<'_>, execution: &mut Execution) {
    execution.status = ExecutionStatus::Pending;
    execution.lease_until_ms = None;
    execution.marked = false;
    clean_up::stop(execution, work.now.ms);
    if execution.is_in_ready() {
        work.set.add_ready(execution.ready());
    }
    arm(work, execution);
}

/// Removes the execution's row from the ready table, before its place in the lane changes.
pub(crate) fn leave_line(work: &mut Work<'_>, execution: &Execution) {
    if execution.is_in_ready() {
        work.set.remove_ready(execution.ready());
    }
}

/// Releases a held-back execution, at its time or earlier.
pub(crate) fn release(work: &mut Work<'_>, execution: &mut Execution) {
    leave_line(work, execution);
    execution.not_before_ms = None;
    make_pending(work, execution);
}

/// Sets the alarm to the next time that matters.
pub(crate) fn arm(work: &mut Work<'_>, execution: &mut Execution) {
    let wanted = alarm::earliest([
        (execution.status == ExecutionStatus::Pending).then_some(execution.not_before_ms).flatten(),
        execution.deadline_ms,
        execution.clean_up_until_ms,
    ]);
    execution.alarm_ms =
        alarm::no_later_than(work, DueClass::ExecutionAlarm, execution.key(), execution.alarm_ms, wanted);
}

/// How an execution ends.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Completed { output: Payload, unread_signals: i64 },
    Failed { error: Text, failure: Failure, stack_trace: Option<Text>, unread_signals: i64 },
    Cancelled { reason: Text, unread_signals: i64 },
}

impl End {
    /// An end from outside.
    pub(crate) fn cancelled(reason: Text) -> Self {
        Self::Cancelled { reason, unread_signals: 0 }
    }

    /// An end from outside leaves the signals unread that no accepted activation has seen. It is not known which of the
    /// others the workflow has read.
    fn unread_signals(&self, origin: Origin, execution: &Execution) -> i64 {
        match self {
            _ if origin == Origin::External => execution.buffered_signals,
            Self::Completed { unread_signals, .. }
            | Self::Failed { unread_signals, .. }
            | Self::Cancelled { unread_signals, .. } => *unread_signals,
        }
    }
}

/// Writes the terminal event, closes the row and notifies the direct parent, all in this transaction. A follow-up
/// closes everything else that is still open.
pub(crate) fn finish(work: &mut Work<'_>, execution: &mut Execution, origin: Origin, end: End) {
    leave_line(work, execution);
    execution.status = match end {
        End::Completed { .. } => ExecutionStatus::Completed,
        End::Failed { .. } => ExecutionStatus::Failed,
        End::Cancelled { .. } => ExecutionStatus::Cancelled,
    };
    let unread_signals = end.unread_signals(origin, execution);
    if unread_signals > 0 {
        work.note(Noted::SignalsUnread { count: unread_signals });
    }
    append(work, execution, origin, terminal_event(&end, unread_signals));
    if planted(Bug::TerminalEventTwice) {
        append(work, execution, origin, terminal_event(&end, unread_signals));
    }
    if origin == Origin::External {
        execution.last_external_sequence = execution.last_sequence;
    }
    execution.finished_ms = Some(execution.last_event_ms);
    execution.lease_until_ms = None;
    execution.marked = false;
    execution.not_before_ms = None;
    alarm::clear(work, DueClass::ExecutionAlarm, execution.key(), execution.alarm_ms.take());
    alarm::clear(work, DueClass::ExecutionLease, execution.key(), execution.lease_alarm_ms.take());
    if execution.status != ExecutionStatus::Completed {
        key::clear(work, execution.idempotency_key.as_ref(), execution.id);
    }
    if execution.open_tasks + execution.open_timers + execution.open_promises > 0 {
        follow_up(work, DueClass::CloseItems, execution.id, None);
    }
    quota::count_end(work, execution);
    let took_ms =
        execution.last_event_ms.saturating_sub(execution.scheduled_ms.unwrap_or(execution.created_ms)).max(0);
    work.note(Noted::Finished { class: WorkClass::Workflow, status: execution.status.name(), took_ms });
    tell_parent(work, execution, &end);
}

fn terminal_event(end: &End, unread_signals: i64) -> EventData {
    let mut data = match end {
        End::Completed { output, .. } => EventData::new(EventKind::WorkflowCompleted).payload(output.clone()),
        End::Failed { error, failure, stack_trace, .. } => {
            let mut data = EventData::new(EventKind::WorkflowFailed).text(error.clone());
            data.name = failure.kind.clone();
            data.payload = match &failure.details {
                None => stack_trace.as_ref().map(|trace| json_string(trace)),
                details => {
                    let failure = Failure { kind: None, details: details.clone() };
                    let stack_trace = stack_trace.clone();
                    StoredFailure { failure, stack_trace, ..StoredFailure::default() }.write()
                }
            };
            data
        }
        End::Cancelled { reason, .. } => EventData::new(EventKind::WorkflowCancelled).text(reason.clone()),
    };
    data.number = (unread_signals > 0).then_some(unread_signals);
    data
}

fn json_string(text: &str) -> Payload {
    serde_json::to_vec(text).expect("a string always serialises into memory").into()
}

fn tell_parent(work: &mut Work<'_>, execution: &Execution, end: &End) {
    let Some(parent_id) = execution.parent_id else { return };
    let parent = work.set.executions.get(&(execution.tenant_id, parent_id)).cloned();
    let Some(mut parent) = parent.filter(|parent| !parent.status.is_terminal() && !parent.purging) else {
        return;
    };
    let data = match end {
        End::Completed { output, .. } => EventData::new(EventKind::ChildCompleted).payload(output.clone()),
        End::Failed { error, failure, .. } => {
            let mut data = EventData::new(EventKind::ChildFailed).text(error.clone());
            data.payload = StoredFailure { failure: failure.clone(), ..StoredFailure::default() }.write();
            data
        }
        End::Cancelled { reason, .. } => {
            EventData::new(EventKind::ChildFailed).text(format!("cancelled: {reason}")).flag(true)
        }
    };
    let name = execution.parent_name.clone().unwrap_or_default();
    parent.open_children -= 1;
    append_external(work, &mut parent, data.subject(execution.id).name(name));
    work.set.executions.put(parent);
}

/// Adds a follow-up for the loops: an effect that must not be part of this transaction.
pub(crate) fn follow_up(work: &mut Work<'_>, class: DueClass, id: ExecutionId, note: Option<Text>) {
    let mut due = Due::new(class, work.now.ms, work.tenant_id, id);
    // The name is unique: two follow-ups of one class may be caused in the same millisecond.
    due.name = work.ids.uuid(work.now.ms).simple().to_string().into();
    due.note = note;
    work.set.due.put(due);
}

/// Whether an activation that has added events has left enough room in the history. The last activation needs room for
/// its end alone, because no event follows.
pub(crate) fn check_room(work: &Work<'_>, execution: &Execution, is_last: bool) -> Result<(), Refusal> {
    if is_last && execution.last_sequence < work.limits.history_events {
        return Ok(());
    }
    check_history(work, execution, 0)
}

/// Checks that the history has room for `added` more events. Room is reserved for the end of each open item, a cancel
/// request, a deferred end and the end.
pub(crate) fn check_history(work: &Work<'_>, execution: &Execution, added: i64) -> Result<(), Refusal> {
    let reserved =
        execution.open_tasks + execution.open_timers + execution.open_promises + execution.open_children;
    let after = execution.last_sequence.saturating_add(added).saturating_add(reserved).saturating_add(3);
    if after <= work.limits.history_events {
        return Ok(());
    }
    let message = format!(
        "execution {} has {} events, and {reserved} more are reserved; the limit is {}",
        execution.id, execution.last_sequence, work.limits.history_events
    );
    Err(Refusal::new(Code::HistoryFull, message))
}
