//! Cancelling a task from outside: at once while it is pending, by request while it runs.

use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::lifecycle::task::{self, End};
use crate::reply::Reply;
use crate::request::CancelTask;
use crate::rules::{Rule, Work};
use crate::state::TaskStatus;
use crate::working_set::Needs;

impl Rule for CancelTask {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        task::needs_with_end(needs, tenant_id, self.task_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut row = task::find(work, self.task_id)?.clone();
        match row.status {
            TaskStatus::Pending => {
                let reason = "cancelled".into();
                task::finish(work, &mut row, End::Cancelled { reason, told: false });
            }
            TaskStatus::Running if self.cooperative => row.cancel_requested = true,
            status => {
                let message = format!("task {} is {status}", self.task_id);
                return Err(Refusal::new(Code::TaskNotPending, message));
            }
        }
        let status = row.status;
        work.set.tasks.put(row);
        Ok(Reply::TaskReported { status, repeated: false })
    }
}
