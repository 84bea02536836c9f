//! `ClearState`: removes a key of the execution. A key that does not exist is no error.

use crate::check;
use crate::code::Refusal;
use crate::event::{EventData, EventKind};
use crate::ids::{ExecutionId, TenantId, Text};
use crate::limits::Limits;
use crate::rules::Work;
use crate::rules::commands::log;
use crate::state::{Execution, StateEntry};
use crate::working_set::Needs;

pub(super) fn check(name: &Text, limits: &Limits) -> Result<(), Refusal> {
    check::name("state key", name, limits)
}

pub(super) fn needs(tenant_id: TenantId, execution_id: ExecutionId, name: &Text, needs: &mut Needs<'_>) {
    needs.row::<StateEntry>((tenant_id, execution_id, name.clone()));
}

pub(super) fn apply(work: &mut Work<'_>, execution: &mut Execution, name: &Text) -> Result<(), Refusal> {
    log(work, execution, EventData::new(EventKind::StateCleared).name(name.clone()));
    let key = (execution.tenant_id, execution.id, name.clone());
    if work.set.states.get(&key).is_some() {
        execution.state_keys -= 1;
        work.set.states.delete(&key);
    }
    Ok(())
}
