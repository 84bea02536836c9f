//! A continuation: the step of a workflow that is sent together with the success of its task. It counts only if it is
//! exactly the step that the next activation would take. Otherwise the workflow is enqueued, as after any success.

use crate::code::{Code, Refusal};
use crate::ids::{ExecutionId, TenantId};
use crate::lifecycle::execution;
use crate::reply::Reply;
use crate::request::Continuation;
use crate::rules::{Rule, Work, claim};
use crate::state::Execution;
use crate::working_set::{Needs, Scan};

pub(crate) fn needs(next: &Continuation, tenant_id: TenantId, needs: &mut Needs<'_>) {
    needs.scan(Scan::PausedQueues);
    next.step.needs(tenant_id, needs);
}

/// Carries out the step after the success of a task of `owner`. `None`: the step does not count, and the next
/// activation decides.
pub(crate) fn carry_out(
    next: &Continuation,
    work: &mut Work<'_>,
    owner: Option<ExecutionId>,
) -> Option<Reply> {
    let attempt = |work: &mut Work<'_>| {
        let mut execution = execution::find_open(work, next.step.execution_id)?;
        if owner != Some(execution.id)
            || !follows(next, &execution)
            || claim::is_paused(work, &execution.queue)
        {
            return Err(Refusal::new(Code::StaleClaim, "the workflow has more new events than this success"));
        }
        // Without a lease: the claim ends in this transaction.
        claim::begin(work, &mut execution, &next.claimer);
        work.set.executions.put(execution);
        next.step.decide(work)
    };
    match work.attempt(attempt) {
        Ok(Reply::Submitted { status, .. }) => Some(Reply::Continued { execution: status }),
        _ => None,
    }
}

/// Whether the worker has the state of the last accepted activation, and the success is the only new event.
fn follows(next: &Continuation, execution: &Execution) -> bool {
    execution.is_in_ready()
        && execution.activation_failures == 0
        && execution.accepted_epoch == execution.epoch
        && next.step.token == Some(execution.epoch + 1)
        && next.step.base_sequence == Some(execution.last_sequence)
        && next.claimer.session == execution.session
}
