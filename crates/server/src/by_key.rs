//! Finds the execution that a key names, for reads. An action by key acts on the same execution.

use flovyn_engine::ids::TenantId;
use flovyn_engine::state::{Execution, HolderClass, KeySpace};
use flovyn_store::{ExecutionFilter, Page, Store, StoreResult};

/// The execution that holds the key. If the key is no longer stored, this is the newest execution that was started
/// with it. `None` if no execution has or had the key.
pub(crate) async fn execution(
    store: &dyn Store,
    tenant: TenantId,
    key: &str,
) -> StoreResult<Option<Execution>> {
    let holder = store.idempotency_key_get(tenant, KeySpace::Work, key).await?;
    if let Some(holder) = holder.filter(|holder| holder.holder_class == HolderClass::Workflow) {
        return Ok(store.execution_get(tenant, holder.holder_id).await?.filter(|row| !row.purging));
    }
    let filter = ExecutionFilter { key: Some(key.into()), ..ExecutionFilter::default() };
    let newest = store.execution_list(tenant, &filter, Page { after: None, offset: 0, limit: 1 }).await?;
    Ok(newest.into_iter().next())
}
