//! `ResolvePromise`: the workflow resolves a promise of its own.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{Payload, PromiseId, TenantId};
use crate::rules::commands::log;
use crate::rules::{Work, answer_promise};
use crate::state::{Execution, Promise, PromiseStatus};
use crate::working_set::Needs;

pub(super) fn needs(tenant_id: TenantId, promise_id: PromiseId, needs: &mut Needs<'_>) {
    needs.row::<Promise>((tenant_id, promise_id));
}

pub(super) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    promise_id: PromiseId,
    value: &Payload,
) -> Result<(), Refusal> {
    let value = check::payload("value", value, work.limits)?;
    let own = work.set.promises.get(&(execution.tenant_id, promise_id)).cloned();
    let Some(promise) = own.filter(|promise| promise.execution_id == execution.id) else {
        let message = format!("promise {promise_id} does not belong to this workflow");
        return Err(Refusal::new(Code::PromiseNotFound, message));
    };
    let data = EventData::new(EventKind::PromiseResolved).subject(promise_id).name(promise.name.clone());
    log(work, execution, data.payload(value));
    if promise.status == PromiseStatus::Open {
        execution.open_promises -= 1;
        answer_promise::close(work, promise, PromiseStatus::Resolved);
    }
    Ok(())
}
