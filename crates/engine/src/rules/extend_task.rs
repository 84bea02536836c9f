//! Extends a task's claim when a client shows life that cannot renew claims itself.

use crate::code::Refusal;
use crate::ids::TenantId;
use crate::lifecycle::{lease, task};
use crate::reply::Reply;
use crate::request::ExtendTask;
use crate::rules::{Rule, Work};
use crate::state::{Task, WorkClass, WorkerCapability};
use crate::working_set::{Needs, Scan};

impl Rule for ExtendTask {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        let row = needs.row::<Task>((tenant_id, self.task_id));
        if let Some(worker_id) = row.and_then(|row| row.session) {
            needs.scan(Scan::Capabilities { tenant_id, worker_id });
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        // The task may have been reported just before. That is no fault of its worker.
        let Ok(mut row) = task::find_claimed(work, self.task_id, Some(self.token)) else {
            return Ok(Reply::Extended { held: false });
        };
        let owned = |capability: &&WorkerCapability| {
            (capability.tenant_id, Some(capability.worker_id), capability.class)
                == (row.tenant_id, row.session, WorkClass::Task)
        };
        if lease::may_be_extended(&row, work.set.capabilities.current().filter(owned)) {
            let extended_ms = work.now.lease_ms.saturating_add(work.limits.task_extension_ms());
            // The lease's alarm stays: it may fire early and then checks again.
            row.lease_until_ms = row.lease_until_ms.max(Some(extended_ms));
            work.set.tasks.put(row);
        }
        Ok(Reply::Extended { held: true })
    }
}
