//! A task's success. At most one outcome is accepted; a stale claim changes nothing.

use crate::check;
use crate::code::{Code, Refusal};
use crate::digest::digest;
use crate::ids::TenantId;
use crate::lifecycle::execution;
use crate::lifecycle::task::{self, End, Outcome};
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::CompleteTask;
use crate::rules::{Rule, Work, continuation, refused};
use crate::state::Task;
use crate::working_set::Needs;

impl Rule for CompleteTask {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        self.next.as_ref().map_or(Ok(()), |next| next.step.check(limits))
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        task::needs_with_end(needs, tenant_id, self.task_id);
        if let Some(next) = &self.next {
            continuation::needs(next, tenant_id, needs);
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        refused::carry_out_result(work, (self.task_id, self.token), |work| self.carry_out(work))
    }
}

impl CompleteTask {
    fn carry_out(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let output = check::payload("output", &self.output, work.limits)?;
        let content = || digest(("complete", &output));
        let (mut row, repeated) =
            task::find_reported(work, self.task_id, self.token, Outcome::Success, content)?;
        if repeated {
            return Ok(Reply::TaskReported { status: row.status, repeated });
        }
        check_owner(work, &row)?;
        add_to_history(work, &row, output.len());
        task::finish(work, &mut row, End::Completed { output });
        let (status, execution_id) = (row.status, row.execution_id);
        work.set.tasks.put(row);
        let continued = self.next.as_ref().and_then(|next| continuation::carry_out(next, work, execution_id));
        Ok(continued.unwrap_or(Reply::TaskReported { status, repeated: false }))
    }
}

/// Refuses a result for a workflow that has finished, because a follow-up is going to cancel the task.
pub(crate) fn check_owner(work: &Work<'_>, task: &Task) -> Result<(), Refusal> {
    let Some(execution_id) = task.execution_id else { return Ok(()) };
    match work.set.executions.get(&(task.tenant_id, execution_id)) {
        Some(owner) if !owner.status.is_terminal() => Ok(()),
        _ => {
            let message = format!("execution {execution_id} of task {} has finished", task.id);
            Err(Refusal::new(Code::ExecutionFinished, message))
        }
    }
}

/// Adds the output to the size of the workflow's history, where it is shown.
fn add_to_history(work: &mut Work<'_>, task: &Task, bytes: usize) {
    let Some(execution_id) = task.execution_id else { return };
    if let Some(mut owner) = work.set.executions.get(&(task.tenant_id, execution_id)).cloned() {
        execution::grow_history(work, &mut owner, i64::try_from(bytes).unwrap_or(i64::MAX));
        work.set.executions.put(owner);
    }
}
