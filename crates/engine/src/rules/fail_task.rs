//! A failed attempt: another attempt follows while the policy allows, otherwise the task fails.

use crate::check;
use crate::code::Refusal;
use crate::digest::digest;
use crate::failure::Failure;
use crate::ids::TenantId;
use crate::lifecycle::task::{self, Next, Outcome};
use crate::reply::Reply;
use crate::request::FailTask;
use crate::rules::complete_task::check_owner;
use crate::rules::{Rule, Work, refused};
use crate::state::AttemptStatus;
use crate::working_set::Needs;

impl Rule for FailTask {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        task::needs_with_end(needs, tenant_id, self.task_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        refused::carry_out_result(work, (self.task_id, self.token), |work| self.carry_out(work))
    }
}

impl FailTask {
    fn carry_out(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let error = check::cut("error", &self.error, work.limits)
            .map_err(|refusal| refused::quote(refusal, &self.error))?;
        check::failure(&self.failure, work.limits)?;
        if let Some(delay) = self.next_delay_ms {
            check::duration("next delay", delay, work.limits)?;
        }
        let content = || match self.failure == Failure::default() {
            true => digest(("fail", &self.error, self.non_retryable)),
            false => digest(("fail", &self.error, self.non_retryable, &self.failure)),
        };
        let (mut row, repeated) =
            task::find_reported(work, self.task_id, self.token, Outcome::Failure, content)?;
        if repeated {
            return Ok(Reply::TaskReported { status: row.status, repeated });
        }
        check_owner(work, &row)?;
        let status = if row.cancel_requested { AttemptStatus::Cancelled } else { AttemptStatus::Failed };
        let next =
            if self.non_retryable { Next::Never } else { Next::Retry { own_delay_ms: self.next_delay_ms } };
        task::end_attempt(work, &mut row, status, error, self.failure.clone(), next);
        let status = row.status;
        work.set.tasks.put(row);
        Ok(Reply::TaskReported { status, repeated: false })
    }
}
