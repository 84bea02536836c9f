//! Manual retry of a failed standalone task: its attempts keep counting, its retry policy starts again.

use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::lifecycle::{key, task};
use crate::reply::Reply;
use crate::request::{KeySpec, RetryTask};
use crate::rules::{Rule, Work};
use crate::state::{HolderClass, KeySpace, Task, TaskStatus};
use crate::working_set::Needs;

impl Rule for RetryTask {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        let task = needs.row::<Task>((tenant_id, self.task_id));
        if let Some(name) = task.and_then(|task| task.idempotency_key.as_ref()) {
            key::needs_holder(needs, tenant_id, name);
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut row = task::find(work, self.task_id)?.clone();
        if row.execution_id.is_some() {
            let message = format!("task {} belongs to a workflow", self.task_id);
            return Err(Refusal::new(Code::TaskOfWorkflow, message));
        }
        if row.status != TaskStatus::Failed {
            let message = format!("task {} is {}", self.task_id, row.status);
            return Err(Refusal::new(Code::TaskNotFailed, message));
        }
        // Its failure freed its key. The task takes it again, unless other work has taken it.
        if let Some(name) = row.idempotency_key.clone()
            && key::holder(work, KeySpace::Work, &name).is_none()
        {
            key::take(work, KeySpace::Work, &KeySpec { name, ttl_ms: None }, HolderClass::Task, row.id)?;
        }
        row.retry_base = row.execution_count;
        row.finished_ms = None;
        row.progress = 0.0;
        row.progress_details = None;
        row.cancel_requested = false;
        // Its timeouts count from now.
        row.scheduled_ms = Some(work.now.ms);
        task::make_pending(work, &mut row, None);
        let status = row.status;
        work.set.tasks.put(row);
        Ok(Reply::TaskReported { status, repeated: false })
    }
}
