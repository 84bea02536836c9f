//! Signals: to a given execution, or to the open execution that holds a key. If none is open, one is started.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{Payload, TenantId, Text};
use crate::lifecycle::{execution, key, quota};
use crate::limits::Limits;
use crate::note::Noted;
use crate::reply::Reply;
use crate::request::{SignalWithStart, SignalWorkflow};
use crate::rules::start_workflow;
use crate::rules::{Rule, Work};
use crate::state::{Execution, ExecutionStatus, HolderClass, IdempotencyKey, KeySpace};
use crate::working_set::Needs;

impl Rule for SignalWorkflow {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::name("signal name", &self.name, limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.execution((tenant_id, self.execution_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut execution = execution::find_open(work, self.execution_id)?;
        let sequence = signal(work, &mut execution, &self.name, &self.value, false)?;
        work.set.executions.put(execution);
        Ok(Reply::Signalled { execution_id: self.execution_id, sequence, created: false })
    }
}

impl Rule for SignalWithStart {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        if self.start.key.is_none() {
            return Err(Refusal::new(Code::InvalidName, "signal-with-start needs an idempotency key"));
        }
        if self.start.parent.is_some() {
            return Err(Refusal::new(Code::InvalidBatch, "signal-with-start cannot name a parent"));
        }
        check::name("signal name", &self.name, limits)?;
        start_workflow::check_start(&self.start, limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        let Some(key) = &self.start.key else { return };
        key::needs_work_key(needs, tenant_id, key);
        let row = needs.row::<IdempotencyKey>((tenant_id, KeySpace::Work, key.name.clone()));
        if let Some(row) = row.filter(|row| row.holder_class == HolderClass::Workflow) {
            needs.execution((tenant_id, row.holder_id));
        }
        quota::needs_start(needs, tenant_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        // A finished execution keeps its key against repeated starts, but cannot receive a signal.
        let open = start_workflow::existing(work, &self.start)?
            .filter(|execution| !execution.status.is_terminal() && !execution.purging);
        let created = open.is_none();
        let mut execution = match open {
            Some(execution) => {
                work.note(Noted::KeyHit);
                execution
            }
            None => {
                let id = work.ids.uuid(work.now.ms);
                start_workflow::create_counted(work, id, &self.start, None)?
            }
        };
        let sequence = signal(work, &mut execution, &self.name, &self.value, true)?;
        if let Some(key) = &self.start.key {
            key::hold_while_open(work, &key.name);
        }
        let execution_id = execution.id;
        work.set.executions.put(execution);
        Ok(Reply::Signalled { execution_id, sequence, created })
    }
}

/// Appends the signal. The event records whether it came by signal-with-start: such an execution holds its key while it
/// is open.
fn signal(
    work: &mut Work<'_>,
    execution: &mut Execution,
    name: &Text,
    value: &Payload,
    with_start: bool,
) -> Result<i64, Refusal> {
    let value = check::payload("signal value", value, work.limits)?;
    if execution.buffered_signals >= work.limits.buffered_signals {
        let message = format!("execution {} has {} unread signals", execution.id, execution.buffered_signals);
        return Err(Refusal::new(Code::TooManySignals, message));
    }
    // A signal that arrives before the next claim is delivered with it, and cannot defer the end again.
    if execution.status == ExecutionStatus::Running && execution.runs_again >= work.limits.deferred_ends {
        let message = format!(
            "the end of execution {} was deferred {} times for new signals: signals are refused while an activation is running",
            execution.id, execution.runs_again
        );
        return Err(Refusal::new(Code::TooManySignals, message));
    }
    execution::check_history(work, execution, 1)?;
    execution.buffered_signals += 1;
    let data = EventData::new(EventKind::SignalReceived).name(name.clone()).payload(value).flag(with_start);
    execution.last_signal_sequence = execution::append_external(work, execution, data);
    Ok(execution.last_signal_sequence)
}
