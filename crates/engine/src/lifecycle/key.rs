//! Keys of work and of promises: one holder per key, freed when its work fails or is cancelled.
//!
//! An idempotency key is free again when its lifetime is over, whether or not its work has ended. A workflow key was
//! taken by signal-with-start: its execution holds it while it is open, and the lifetime counts from the end.

use uuid::Uuid;

use crate::check;
use crate::code::Refusal;
use crate::ids::{ExecutionId, TenantId, Text};
use crate::note::Noted;
use crate::planted::{Bug, planted};
use crate::request::KeySpec;
use crate::rules::Work;
use crate::state::{Execution, HolderClass, IdempotencyKey, KeySpace, Task};
use crate::working_set::{Needs, Scan, WorkingSet};

/// The tenant part of a key.
fn owner(tenant_id: TenantId) -> TenantId {
    if planted(Bug::TenantLeftOutOfKey) { Uuid::nil() } else { tenant_id }
}

/// Loads the key and its holder.
pub(crate) fn needs_work_key(needs: &mut Needs<'_>, tenant_id: TenantId, key: &KeySpec) {
    needs_holder(needs, tenant_id, &key.name);
}

/// Loads the key of this name and its holder.
pub(crate) fn needs_holder(needs: &mut Needs<'_>, tenant_id: TenantId, name: &Text) {
    let Some(row) = needs.row::<IdempotencyKey>((owner(tenant_id), KeySpace::Work, name.clone())) else {
        return;
    };
    match row.holder_class {
        HolderClass::Workflow => {
            needs.peek::<Execution>((tenant_id, row.holder_id));
        }
        HolderClass::Task => {
            needs.peek::<Task>((tenant_id, row.holder_id));
        }
        HolderClass::Promise => {}
    }
}

/// The live holder of a key. An expired key has no holder: the next start overwrites it.
pub(crate) fn holder(work: &Work<'_>, space: KeySpace, name: &Text) -> Option<IdempotencyKey> {
    let row = work.set.keys.get(&(owner(work.tenant_id), space, name.clone()))?;
    is_held(work, row).then(|| row.clone())
}

fn is_held(work: &Work<'_>, row: &IdempotencyKey) -> bool {
    let until_ms = match row.ttl_after_end_ms {
        None => row.expires_ms,
        Some(ttl_ms) if planted(Bug::KeyFreedWhileOpen) => row.created_ms.saturating_add(ttl_ms),
        Some(ttl_ms) => match work.set.executions.get(&(work.tenant_id, row.holder_id)) {
            Some(execution) => execution.finished_ms.map_or(i64::MAX, |end| end.saturating_add(ttl_ms)),
            None => i64::MIN,
        },
    };
    until_ms > work.now.ms
}

/// Turns the key of an open execution into a workflow key: it is held until the execution has ended, and then for the
/// lifetime that was given when it was taken. If it is a workflow key already, nothing is written.
pub(crate) fn hold_while_open(work: &mut Work<'_>, name: &Text) {
    let key = (owner(work.tenant_id), KeySpace::Work, name.clone());
    let Some(row) = work.set.keys.get(&key).filter(|row| row.ttl_after_end_ms.is_none()) else { return };
    let mut row = row.clone();
    row.ttl_after_end_ms = Some(row.expires_ms.saturating_sub(row.created_ms));
    row.expires_ms = IdempotencyKey::NEVER;
    work.set.keys.put(row);
}

/// The execution that a key names: the key's holder while the key exists, otherwise the newest execution that was
/// started with it. `None`: no execution has or had the key.
pub(crate) fn named(set: &WorkingSet, tenant_id: TenantId, name: &Text) -> Option<ExecutionId> {
    let row = set.keys.get(&(owner(tenant_id), KeySpace::Work, name.clone()));
    if let Some(row) = row.filter(|row| row.holder_class == HolderClass::Workflow) {
        return Some(row.holder_id);
    }
    let started = set.executions.current().filter(|row| {
        row.tenant_id == tenant_id && !row.purging && row.idempotency_key.as_ref() == Some(name)
    });
    started.max_by_key(|row| (row.created_ms, row.id)).map(|row| row.id)
}

/// Loads the rows that [`named`] reads. Returns the named execution once it is known.
pub(crate) fn needs_named(needs: &mut Needs<'_>, tenant_id: TenantId, name: &Text) -> Option<ExecutionId> {
    let row = needs.row::<IdempotencyKey>((owner(tenant_id), KeySpace::Work, name.clone()));
    match row.filter(|row| row.holder_class == HolderClass::Workflow) {
        Some(row) => Some(row.holder_id),
        None if needs.scan(Scan::NewestWithKey { tenant_id, name: name.clone() }) => {
            named(needs.set(), tenant_id, name)
        }
        None => None,
    }
}

/// Gives the key to a new holder.
pub(crate) fn take(
    work: &mut Work<'_>,
    space: KeySpace,
    key: &KeySpec,
    holder_class: HolderClass,
    holder_id: Uuid,
) -> Result<(), Refusal> {
    let ttl_ms = match (space, key.ttl_ms) {
        // A promise's key lives as long as the promise, unless a lifetime is given.
        (KeySpace::Promise, None) => work.limits.duration_max_ms,
        (_, ttl) => check::ttl(ttl, work.limits)?,
    };
    let tenant_id = owner(work.tenant_id);
    let version = work.set.keys.get(&(tenant_id, space, key.name.clone())).map_or(1, |row| row.version);
    work.set.keys.put(IdempotencyKey {
        tenant_id,
        space,
        name: key.name.clone(),
        version,
        holder_class,
        holder_id,
        created_ms: work.now.ms,
        expires_ms: work.now.ms.saturating_add(ttl_ms),
        ttl_after_end_ms: None,
    });
    if space == KeySpace::Work {
        work.note(Noted::KeyTaken);
    }
    Ok(())
}

/// Frees the key of work that failed or was cancelled, so that a retry can use the same key.
pub(crate) fn clear(work: &mut Work<'_>, name: Option<&Text>, holder_id: Uuid) {
    if release(work, KeySpace::Work, name, holder_id) {
        work.note(Noted::KeyCleared);
    }
}

/// Frees the key if this holder still has it. Returns whether it had the key.
pub(crate) fn release(work: &mut Work<'_>, space: KeySpace, name: Option<&Text>, holder_id: Uuid) -> bool {
    let Some(name) = name else { return false };
    let key = (owner(work.tenant_id), space, name.clone());
    let held = work.set.keys.get(&key).is_some_and(|row| row.holder_id == holder_id);
    if held {
        work.set.keys.delete(&key);
    }
    held
}

/// Loads the key that `release` may have to free.
pub(crate) fn needs_release(
    needs: &mut Needs<'_>,
    tenant_id: TenantId,
    space: KeySpace,
    name: Option<&Text>,
) {
    if let Some(name) = name {
        needs.row::<IdempotencyKey>((owner(tenant_id), space, name.clone()));
    }
}
