//! `ScheduleChild`: starts a child of the workflow.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind, Origin};
use crate::failure::{Failure, StoredFailure};
use crate::ids::{TenantId, Text};
use crate::lifecycle::execution::{self, End};
use crate::lifecycle::key;
use crate::limits::Limits;
use crate::request::{Parent, ScheduleChild, StartWorkflow};
use crate::rules::commands::log;
use crate::rules::{Work, start_workflow};
use crate::state::Execution;
use crate::working_set::Needs;

pub(super) fn check(child: &ScheduleChild, limits: &Limits) -> Result<(), Refusal> {
    check::id("child id", child.child_id)?;
    check::duration("cancel grace", child.cancel_grace_ms.unwrap_or(0), limits)?;
    check::name("child name", &child.name, limits)
}

pub(super) fn needs(tenant_id: TenantId, child: &ScheduleChild, needs: &mut Needs<'_>) {
    needs.row::<Execution>((tenant_id, child.child_id));
    if let Some(key) = &child.key {
        key::needs_work_key(needs, tenant_id, key);
    }
}

pub(super) fn is_in_log(work: &Work<'_>, execution: &Execution, child: &ScheduleChild) -> bool {
    work.set
        .executions
        .get(&(execution.tenant_id, child.child_id))
        .is_some_and(|row| row.parent_id == Some(execution.id) && row.kind == child.kind)
}

pub(super) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    child: &ScheduleChild,
) -> Result<(), Refusal> {
    if let Some(existing) = work.set.executions.get(&(execution.tenant_id, child.child_id)) {
        if existing.parent_id == Some(execution.id) && existing.kind == child.kind {
            return Ok(());
        }
        let message = format!("execution id {} belongs to another execution", child.child_id);
        return Err(Refusal::new(Code::IdCollision, message));
    }
    let mut start = StartWorkflow::new(
        child.kind.clone(),
        child.queue.clone().unwrap_or_else(|| execution.queue.clone()),
        child.input.clone(),
    );
    start.priority_seconds = child.priority_seconds;
    start.workflow_version = child.workflow_version.clone();
    start.execution_timeout_ms = child.execution_timeout_ms;
    start.cancel_grace_ms = child.cancel_grace_ms;
    start.traceparent = execution.traceparent.clone();
    start.labels = child.labels.clone();
    start.key = child.key.clone();
    start_workflow::check_start(&start, work.limits)?;
    // A start with a held key returns the holder. A child cannot be another execution, so it fails.
    let conflict = key_conflict(work, &start);
    start.key = start.key.filter(|_| conflict.is_none());
    // A child that was started during clean-up must be younger than the cancel request, even within one millisecond, so
    // that the request does not cancel it.
    let after_ms = execution.cancel_requested_ms.map_or(i64::MIN, |asked| asked.saturating_add(1));
    let created_ms = work.now.ms.max(after_ms);
    let mut row = start_workflow::create(work, child.child_id, &start, None, created_ms)?;
    let data = EventData::new(EventKind::ChildInitiated)
        .subject(child.child_id)
        .name(child.name.clone())
        .text(child.kind.clone());
    log(work, execution, data);
    match conflict {
        None => execution.open_children += 1,
        Some(refusal) => fail_child(work, execution, child, &mut row, &refusal),
    }
    // The parent's row is already loaded and the caller writes it, so the link is set here.
    let parent = Parent { id: execution.id, name: child.name.clone() };
    row.parent_id = Some(parent.id);
    row.parent_name = Some(parent.name);
    work.set.executions.put(row);
    Ok(())
}

/// Why the child cannot have its key. `None`: it has no key, or the key is free.
fn key_conflict(work: &Work<'_>, start: &StartWorkflow) -> Option<Refusal> {
    match start_workflow::existing(work, start) {
        Ok(holder) => holder.map(|holder| {
            let message = format!(
                "idempotency key '{}' belongs to execution {}",
                start.key.as_ref().map_or("", |key| &key.name),
                holder.id
            );
            Refusal::new(Code::KeyConflict, message)
        }),
        Err(refusal) => Some(refusal),
    }
}

/// Fails a child that was created in this transaction. Its parent is written by the caller, so the parent's event is
/// written here.
fn fail_child(
    work: &mut Work<'_>,
    execution: &mut Execution,
    child: &ScheduleChild,
    row: &mut Execution,
    refusal: &Refusal,
) {
    let error = Text::from(refusal.to_string());
    let failure = Failure::of_kind(&refusal.code.to_string());
    let end =
        End::Failed { error: error.clone(), failure: failure.clone(), stack_trace: None, unread_signals: 0 };
    execution::finish(work, row, Origin::External, end);
    let mut data =
        EventData::new(EventKind::ChildFailed).subject(child.child_id).name(child.name.clone()).text(error);
    data.payload = StoredFailure { failure, ..StoredFailure::default() }.write();
    execution::append_external(work, execution, data);
}
