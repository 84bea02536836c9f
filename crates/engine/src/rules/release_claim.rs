//! Releasing claims that never reached a worker: the claim leaves no trace and no attempt is consumed.

use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::lifecycle::{execution, task};
use crate::reply::Reply;
use crate::request::{ReleaseTaskClaim, ReleaseWorkflowClaim};
use crate::rules::{Rule, Work};
use crate::state::ExecutionStatus;
use crate::working_set::Needs;

impl Rule for ReleaseWorkflowClaim {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.execution((tenant_id, self.execution_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut row = execution::find(work, self.execution_id)?;
        if row.status != ExecutionStatus::Running || row.epoch != self.token {
            let message = format!("claim {} of execution {} is not current", self.token, self.execution_id);
            return Err(Refusal::new(Code::StaleClaim, message));
        }
        if row.accepted_epoch == 0 {
            row.started_ms = None;
        }
        execution::make_pending(work, &mut row);
        work.set.executions.put(row);
        Ok(Reply::Done)
    }
}

impl Rule for ReleaseTaskClaim {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        task::needs_with_end(needs, tenant_id, self.task_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut row = task::find_claimed(work, self.task_id, Some(self.token))?;
        row.execution_count -= 1;
        row.started_ms = None;
        row.worker = None;
        row.session = None;
        task::make_pending(work, &mut row, None);
        work.set.tasks.put(row);
        Ok(Reply::Done)
    }
}
