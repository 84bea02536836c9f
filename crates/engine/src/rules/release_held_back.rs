//! An operator releases an execution that is held back after a failed activation: any build may take it.

use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::lifecycle::execution;
use crate::reply::Reply;
use crate::request::ReleaseHeldBack;
use crate::rules::{Rule, Work};
use crate::state::{Execution, WorkClass};
use crate::working_set::Needs;

fn is_held_back(row: &Execution) -> bool {
    row.is_in_ready() && row.ready().lane.class == WorkClass::HeldBack
}

impl Rule for ReleaseHeldBack {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.execution((tenant_id, self.execution_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut row = execution::find(work, self.execution_id)?;
        if !is_held_back(&row) {
            let message = format!("execution {} is {} and not held back", row.id, row.status);
            return Err(Refusal::new(Code::NotBackedOff, message));
        }
        execution::release(work, &mut row);
        // The operator expects that the cause is gone, so the next refusal is the first.
        row.equal_refusals = 0;
        let status = row.status;
        work.set.executions.put(row);
        Ok(Reply::Released { status })
    }
}
