//! `SetState`: writes a value under a key of the execution.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{ExecutionId, Payload, TenantId, Text};
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

pub(super) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    name: &Text,
    value: &Payload,
) -> Result<(), Refusal> {
    let value = check::payload("state value", value, work.limits)?;
    let key = (execution.tenant_id, execution.id, name.clone());
    if work.set.states.get(&key).is_none() {
        execution.state_keys += 1;
        if execution.state_keys > work.limits.state_keys {
            let message = format!("execution {} has {} state keys", execution.id, work.limits.state_keys);
            return Err(Refusal::new(Code::TooManyStateKeys, message));
        }
    }
    let sequence =
        log(work, execution, EventData::new(EventKind::StateSet).name(name.clone()).payload(value));
    work.set.states.put(StateEntry { tenant_id: key.0, execution_id: key.1, name: name.clone(), sequence });
    Ok(())
}
