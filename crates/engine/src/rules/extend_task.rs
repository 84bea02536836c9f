//! Extends a task's claim when a client shows life that cannot renew claims itself.

use crate::code::Refusal;
use crate::ids::TenantId;
use crate::lifecycle::task;
use crate::reply::Reply;
use crate::request::ExtendTask;
use crate::rules::{Rule, Work};
use crate::state::Task;
use crate::working_set::Needs;

impl Rule for ExtendTask {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.row::<Task>((tenant_id, self.task_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        // The task may have been reported just before. That is no fault of its worker.
        let Ok(mut row) = task::find_claimed(work, self.task_id, Some(self.token)) else {
            return Ok(Reply::Extended { held: false });
        };
        let extended_ms = work.now.lease_ms.saturating_add(work.limits.task_extension_ms());
        // The lease's alarm stays: it may fire early and then checks again.
        row.lease_until_ms = row.lease_until_ms.max(Some(extended_ms));
        work.set.tasks.put(row);
        Ok(Reply::Extended { held: true })
    }
}
