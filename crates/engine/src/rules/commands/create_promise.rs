//! `CreatePromise`: creates a promise of the workflow, on request under a key that outsiders know.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{TenantId, Text};
use crate::lifecycle::key;
use crate::limits::Limits;
use crate::request::KeySpec;
use crate::rules::Work;
use crate::rules::commands::log;
use crate::state::{Execution, HolderClass, IdempotencyKey, KeySpace, Promise, PromiseStatus};
use crate::working_set::Needs;

pub(super) fn check(
    name: &Text,
    timeout_ms: Option<i64>,
    key: Option<&KeySpec>,
    limits: &Limits,
) -> Result<(), Refusal> {
    check::name("promise name", name, limits)?;
    check::duration("promise timeout", timeout_ms.unwrap_or(0), limits)?;
    key.map_or(Ok(()), |key| check::name("promise key", &key.name, limits))
}

pub(super) fn needs(tenant_id: TenantId, key: Option<&KeySpec>, needs: &mut Needs<'_>) {
    let Some(key) = key else { return };
    let holder = needs.row::<IdempotencyKey>((tenant_id, KeySpace::Promise, key.name.clone()));
    if let Some(holder) = holder
        && let Some(promise) = needs.peek::<Promise>((tenant_id, holder.holder_id))
    {
        needs.peek::<Execution>((tenant_id, promise.execution_id));
    }
}

pub(super) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    name: &Text,
    timeout_ms: Option<i64>,
    key: Option<&KeySpec>,
) -> Result<(), Refusal> {
    let id = work.ids.uuid(work.now.ms);
    if let Some(key) = key {
        check_promise_key_free(work, execution, &key.name)?;
        key::take(work, KeySpace::Promise, key, HolderClass::Promise, id)?;
    }
    let promise = Promise {
        tenant_id: execution.tenant_id,
        id,
        version: 1,
        execution_id: execution.id,
        name: name.clone(),
        external_key: key.map(|key| key.name.clone()),
        created_ms: work.now.ms,
        deadline_ms: timeout_ms.map(|timeout| work.now.ms.saturating_add(timeout)),
        status: PromiseStatus::Open,
    };
    execution.open_promises += 1;
    let mut data = EventData::new(EventKind::PromiseCreated).subject(id).name(name.clone());
    data.number = timeout_ms;
    log(work, execution, data);
    if let Some(due) = promise.due_row() {
        work.set.due.put(due);
    }
    work.set.promises.supply((promise.tenant_id, id), crate::table::Found::Absent, true);
    work.set.promises.put(promise);
    Ok(())
}

/// Whether a promise key can be taken: its promise is closed, or belongs to an execution that has finished.
fn check_promise_key_free(work: &Work<'_>, execution: &Execution, name: &Text) -> Result<(), Refusal> {
    let Some(holder) = key::holder(work, KeySpace::Promise, name) else { return Ok(()) };
    let tenant_id = work.tenant_id;
    let Some(promise) = work.set.promises.get(&(tenant_id, holder.holder_id)) else { return Ok(()) };
    let owner_open = promise.execution_id == execution.id
        || work
            .set
            .executions
            .get(&(tenant_id, promise.execution_id))
            .is_some_and(|owner| !owner.status.is_terminal());
    if promise.status == PromiseStatus::Open && owner_open {
        let message = format!("promise key '{name}' is held by the open promise {}", promise.id);
        return Err(Refusal::new(Code::PromiseKeyConflict, message));
    }
    Ok(())
}
