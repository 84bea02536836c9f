//! Deleting finished executions and tasks. They are hidden at once; a follow-up removes their rows, page by page.

use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::lifecycle::{execution, key, task};
use crate::reply::Reply;
use crate::request::{DeleteTask, DeleteWorkflow};
use crate::rules::{Rule, Work};
use crate::state::{Due, DueClass, KeySpace, Task};
use crate::working_set::Needs;

impl Rule for DeleteWorkflow {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        if let Some(row) = needs.execution((tenant_id, self.execution_id)) {
            key::needs_release(needs, tenant_id, KeySpace::Work, row.idempotency_key.as_ref());
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut row = execution::find(work, self.execution_id)?;
        if !row.status.is_terminal() {
            let message = format!("execution {} is {}", row.id, row.status);
            return Err(Refusal::new(Code::ExecutionNotFinished, message));
        }
        row.purging = true;
        key::release(work, KeySpace::Work, row.idempotency_key.as_ref(), row.id);
        execution::follow_up(work, DueClass::PurgeExecution, row.id, None);
        work.set.executions.put(row);
        Ok(Reply::Done)
    }
}

impl Rule for DeleteTask {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        if let Some(row) = needs.row::<Task>((tenant_id, self.task_id)) {
            key::needs_release(needs, tenant_id, KeySpace::Work, row.idempotency_key.as_ref());
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut row = task::find(work, self.task_id)?.clone();
        if row.execution_id.is_some() {
            let message = format!("task {} belongs to a workflow", row.id);
            return Err(Refusal::new(Code::TaskOfWorkflow, message));
        }
        if !row.status.is_terminal() {
            let message = format!("task {} is {}", row.id, row.status);
            return Err(Refusal::new(Code::TaskNotFinished, message));
        }
        row.purging = true;
        key::release(work, KeySpace::Work, row.idempotency_key.as_ref(), row.id);
        work.set.due.put(Due::new(DueClass::PurgeTask, work.now.ms, row.tenant_id, row.id));
        work.set.tasks.put(row);
        Ok(Reply::Done)
    }
}
