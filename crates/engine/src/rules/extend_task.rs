//! A client that can renew no claim shows life while it runs a task: the claim holds on.

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
        let mut row = task::find_claimed(work, self.task_id, Some(self.token))?;
        let owned = |capability: &&WorkerCapability| {
            (capability.tenant_id, Some(capability.worker_id), capability.class)
                == (row.tenant_id, row.session, WorkClass::Task)
        };
        if lease::may_be_extended(&row, work.set.capabilities.current().filter(owned)) {
            let extended_ms = work.now.lease_ms.saturating_add(work.limits.task_extension_ms());
            // Its alarm may be early: it looks again.
            row.lease_until_ms = row.lease_until_ms.max(Some(extended_ms));
            work.set.tasks.put(row);
        }
        Ok(Reply::Done)
    }
}
