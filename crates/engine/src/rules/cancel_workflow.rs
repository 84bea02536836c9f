//! Cancel (cooperative, if the worker supports it) and terminate (always at once).

use crate::check;
use crate::code::Refusal;
use crate::event::{EventData, EventKind, Origin};
use crate::ids::{TenantId, Text};
use crate::lifecycle::clean_up;
use crate::lifecycle::execution::{self, End};
use crate::reply::Reply;
use crate::request::{CancelWorkflow, TerminateWorkflow};
use crate::rules::{Rule, Work};
use crate::state::{DueClass, Execution, ExecutionStatus};
use crate::working_set::Needs;

impl Rule for CancelWorkflow {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        execution::needs_with_end(needs, tenant_id, self.execution_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        check::text("reason", &self.reason, work.limits)?;
        let execution = execution::find_open(work, self.execution_id)?;
        let status = cancel(work, execution, &self.reason, self.cascade);
        Ok(Reply::Cancelled { status })
    }
}

impl Rule for TerminateWorkflow {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        execution::needs_with_end(needs, tenant_id, self.execution_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        check::text("reason", &self.reason, work.limits)?;
        let mut execution = execution::find_open(work, self.execution_id)?;
        execution::finish(work, &mut execution, Origin::External, End::cancelled(self.reason.clone()));
        let status = execution.status;
        work.set.executions.put(execution);
        Ok(Reply::Cancelled { status })
    }
}

/// Asks the workflow to stop. If its worker does not support cancel requests, or there is nothing to clean up, the
/// execution ends at once.
pub(crate) fn cancel(
    work: &mut Work<'_>,
    mut execution: Execution,
    reason: &Text,
    cascade: bool,
) -> ExecutionStatus {
    if cascade && execution.open_children > 0 {
        execution::follow_up(work, DueClass::CancelChildren, execution.id, Some(reason.clone()));
    }
    // If no activation was accepted and none is running, there is nothing to clean up.
    let has_run = execution.accepted_epoch > 0 || execution.status == ExecutionStatus::Running;
    let hears = execution.cooperative && has_run && execution.cancel_grace_ms != Some(0);
    if !hears {
        execution::finish(work, &mut execution, Origin::External, End::cancelled(reason.clone()));
    } else if execution.cancel_requested_ms.is_none() {
        clean_up::ask(&mut execution, work.limits.cancel_grace_ms, work.now.ms);
        let data = EventData::new(EventKind::CancellationRequested).text(reason.clone());
        execution::append_external(work, &mut execution, data);
    }
    let status = execution.status;
    work.set.executions.put(execution);
    status
}
