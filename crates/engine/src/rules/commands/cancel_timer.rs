//! `CancelTimer`: cancels a timer of the workflow.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{ExecutionId, TenantId, Text};
use crate::limits::Limits;
use crate::rules::Work;
use crate::rules::commands::log;
use crate::state::{Execution, Timer, TimerStatus};
use crate::working_set::Needs;

pub(super) fn check(timer_id: &Text, limits: &Limits) -> Result<(), Refusal> {
    check::name("timer id", timer_id, limits)
}

pub(super) fn needs(tenant_id: TenantId, execution_id: ExecutionId, timer_id: &Text, needs: &mut Needs<'_>) {
    needs.row::<Timer>((tenant_id, execution_id, timer_id.clone()));
}

pub(super) fn apply(work: &mut Work<'_>, execution: &mut Execution, timer_id: &Text) -> Result<(), Refusal> {
    let key = (execution.tenant_id, execution.id, timer_id.clone());
    let Some(mut timer) = work.set.timers.get(&key).cloned() else {
        return Err(Refusal::new(Code::InvalidCommand, format!("timer '{timer_id}' was never started")));
    };
    log(work, execution, EventData::new(EventKind::TimerCancelled).name(timer_id.clone()));
    if timer.status == TimerStatus::Open {
        execution.open_timers -= 1;
        work.set.due.delete_known(timer.due_row());
        timer.status = TimerStatus::Cancelled;
        work.set.timers.put(timer);
    }
    Ok(())
}

/// Closes a timer whose execution has ended.
pub(crate) fn drop_timer(work: &mut Work<'_>, mut timer: Timer) {
    work.set.due.delete_known(timer.due_row());
    timer.status = TimerStatus::Cancelled;
    work.set.timers.put(timer);
}
