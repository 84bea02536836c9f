//! Waiting for an execution to finish: held here, so that nobody has to ask again and again.

use std::time::Duration;

use flovyn_engine::ids::{ExecutionId, TenantId};
use flovyn_engine::state::Execution;
use flovyn_store::StoreResult;
use tokio::time::Instant;

use crate::api::Api;

/// On a database that other processes write to, the row is looked at this often: their commits tell us nothing.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The execution once it has finished, or as it is when the time is up or the server is about to stop.
pub(crate) async fn finished(
    api: &Api,
    tenant_id: TenantId,
    id: ExecutionId,
    wait: Duration,
) -> StoreResult<Option<Execution>> {
    let until = Instant::now() + wait;
    let service = api.service();
    let mut watch = service.watch(tenant_id, id);
    let shared = service.store().is_shared();
    loop {
        let row = service.store().execution_get(tenant_id, id).await?;
        let now = Instant::now();
        if row.as_ref().is_none_or(|row| row.status.is_terminal()) || now >= until || api.is_draining() {
            return Ok(row);
        }
        let look_at = if shared { until.min(now + LOOK_EVERY) } else { until };
        tokio::select! {
            () = watch.changed() => {}
            () = tokio::time::sleep_until(look_at) => {}
            () = api.drains() => {}
        }
    }
}
