//! Claims of a session that this process does not know of. Another process made them, or this one did before a restart,
//! and they were lost in transit. The worker does not name them, but its heartbeats would renew them as long as it
//! lives.

use flovyn_engine::state::{ClockKind, DueClass, ExecutionStatus, TaskStatus};
use rustc_hash::FxHashMap;
use tonic::Status;
use uuid::Uuid;

use super::super::call::Call;
use super::super::status::not_read;
use super::sessions::Held;

/// The most claims that are checked. Every claim has an alarm for its lease, and there are no more claims than workers
/// have slots.
const MAX_CLAIMS: usize = 10_000;

/// Whether the session has registered before. Only then can it have claims that this process did not make.
pub(super) async fn may_have(call: &Call, session: Uuid) -> Result<bool, Status> {
    let known = call.api().service().store().worker_get(call.tenant_id(), session).await;
    Ok(known.map_err(not_read)?.is_some())
}

pub(super) async fn of(
    call: &Call,
    session: Uuid,
    named: &FxHashMap<Uuid, i64>,
) -> Result<Vec<(Uuid, Held)>, Status> {
    let (store, tenant_id) = (call.api().service().store(), call.tenant_id());
    let leases = store.due_page(ClockKind::Lease, i64::MAX, MAX_CLAIMS).await.map_err(not_read)?;
    let mut strays = Vec::new();
    for due in leases.into_iter().filter(|due| due.tenant_id == tenant_id) {
        let claim = match due.class {
            DueClass::TaskLease => {
                let row = store.task_get(tenant_id, due.id).await.map_err(not_read)?;
                let row = row.filter(|row| row.status == TaskStatus::Running);
                row.map(|row| (row.session, Held { token: row.epoch, is_task: true }))
            }
            DueClass::ExecutionLease => {
                let row = store.execution_get(tenant_id, due.id).await.map_err(not_read)?;
                let row = row.filter(|row| row.status == ExecutionStatus::Running);
                row.map(|row| (row.session, Held { token: row.epoch, is_task: false }))
            }
            _ => None,
        };
        if let Some((holder, held)) = claim
            && holder == Some(session)
            && named.get(&due.id) != Some(&held.token)
        {
            strays.push((due.id, held));
        }
    }
    Ok(strays)
}
