//! A failed attempt: another one follows while the policy allows, otherwise the task has failed.

use crate::check;
use crate::code::Refusal;
use crate::ids::TenantId;
use crate::lifecycle::task::{self, Next};
use crate::reply::Reply;
use crate::request::FailTask;
use crate::rules::complete_task::check_owner;
use crate::rules::{Rule, Work};
use crate::state::AttemptStatus;
use crate::working_set::Needs;

impl Rule for FailTask {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        task::needs_with_end(needs, tenant_id, self.task_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        check::text("error", &self.error, work.limits)?;
        if let Some(delay) = self.next_delay_ms {
            check::duration("next delay", delay, work.limits)?;
        }
        let row = task::find(work, self.task_id)?;
        if task::is_repeated(row, self.token) {
            return Ok(Reply::TaskReported { status: row.status, repeated: true });
        }
        let mut row = task::find_claimed(work, self.task_id, self.token)?;
        check_owner(work, &row)?;
        row.accepted_epoch = row.epoch;
        let status = if row.cancel_requested { AttemptStatus::Cancelled } else { AttemptStatus::Failed };
        let next =
            if self.non_retryable { Next::Never } else { Next::Retry { own_delay_ms: self.next_delay_ms } };
        task::end_attempt(work, &mut row, status, self.error.clone(), next);
        let status = row.status;
        work.set.tasks.put(row);
        Ok(Reply::TaskReported { status, repeated: false })
    }
}
