//! `RequestCancelChild`: requests the cancellation of a child of the workflow.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{ExecutionId, TenantId, Text};
use crate::lifecycle::execution;
use crate::limits::Limits;
use crate::rules::Work;
use crate::rules::commands::log;
use crate::state::{DueClass, Execution};
use crate::working_set::Needs;

pub(super) fn check(reason: &Text, limits: &Limits) -> Result<(), Refusal> {
    check::text("reason", reason, limits)
}

pub(super) fn needs(tenant_id: TenantId, child_id: ExecutionId, needs: &mut Needs<'_>) {
    needs.peek::<Execution>((tenant_id, child_id));
}

pub(super) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    child_id: ExecutionId,
    reason: &Text,
) -> Result<(), Refusal> {
    let own = work.set.executions.get(&(execution.tenant_id, child_id));
    let Some(child) = own.filter(|child| child.parent_id == Some(execution.id)) else {
        let message = format!("execution {child_id} is not a child of this workflow");
        return Err(Refusal::new(Code::ExecutionNotFound, message));
    };
    let (name, open) = (child.parent_name.clone().unwrap_or_default(), !child.status.is_terminal());
    let data =
        EventData::new(EventKind::ChildCancelRequested).subject(child_id).name(name).text(reason.clone());
    log(work, execution, data);
    if open {
        // As a follow-up: here, parent and child would be locked in the opposite order to a child that finishes.
        execution::follow_up(work, DueClass::CancelExecution, child_id, Some(reason.clone()));
    }
    Ok(())
}
