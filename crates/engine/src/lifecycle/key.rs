//! Idempotency keys: one holder per key, cleared when its work fails or is cancelled.

use uuid::Uuid;

use crate::check;
use crate::code::Refusal;
use crate::ids::{TenantId, Text};
use crate::note::Noted;
use crate::planted::{Bug, planted};
use crate::request::KeySpec;
use crate::rules::Work;
use crate::state::{Execution, HolderClass, IdempotencyKey, KeySpace, Task};
use crate::working_set::Needs;

/// Whose key it is.
fn owner(tenant_id: TenantId) -> TenantId {
    if planted(Bug::TenantLeftOutOfKey) { Uuid::nil() } else { tenant_id }
}

/// Asks for the key and for whoever holds it.
pub(crate) fn needs_work_key(needs: &mut Needs<'_>, tenant_id: TenantId, key: &KeySpec) {
    let Some(row) = needs.row::<IdempotencyKey>((owner(tenant_id), KeySpace::Work, key.name.clone())) else {
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

/// The live holder of a key. An expired key has none: whoever comes next overwrites it.
pub(crate) fn holder(work: &Work<'_>, space: KeySpace, name: &Text) -> Option<IdempotencyKey> {
    let row = work.set.keys.get(&(owner(work.tenant_id), space, name.clone()))?;
    (row.expires_ms > work.now.ms).then(|| row.clone())
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
        // A promise's key lives as long as the promise unless a time is given.
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
    });
    if space == KeySpace::Work {
        work.note(Noted::KeyTaken);
    }
    Ok(())
}

/// Frees the key of work that failed or was cancelled, so that it can be tried again under the same one.
pub(crate) fn clear(work: &mut Work<'_>, name: Option<&Text>, holder_id: Uuid) {
    if release(work, KeySpace::Work, name, holder_id) {
        work.note(Noted::KeyCleared);
    }
}

/// Frees the key if this holder still has it. Whether it had.
pub(crate) fn release(work: &mut Work<'_>, space: KeySpace, name: Option<&Text>, holder_id: Uuid) -> bool {
    let Some(name) = name else { return false };
    let key = (owner(work.tenant_id), space, name.clone());
    let held = work.set.keys.get(&key).is_some_and(|row| row.holder_id == holder_id);
    if held {
        work.set.keys.delete(&key);
    }
    held
}

/// Asks for the key that `release` may have to free.
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
