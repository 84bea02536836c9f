//! `StartTimer`: starts a timer of the workflow.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{ExecutionId, TenantId, Text};
use crate::limits::Limits;
use crate::rules::Work;
use crate::rules::commands::log;
use crate::state::{Execution, Timer, TimerStatus};
use crate::working_set::Needs;

pub(super) fn check(timer_id: &Text, duration_ms: i64, limits: &Limits) -> Result<(), Refusal> {
    check::name("timer id", timer_id, limits)?;
    check::duration("timer", duration_ms, limits)
}

pub(super) fn needs(tenant_id: TenantId, execution_id: ExecutionId, timer_id: &Text, needs: &mut Needs<'_>) {
    needs.row::<Timer>((tenant_id, execution_id, timer_id.clone()));
}

pub(super) fn is_in_log(work: &Work<'_>, execution: &Execution, timer_id: &Text) -> bool {
    work.set.timers.get(&(execution.tenant_id, execution.id, timer_id.clone())).is_some()
}

pub(super) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    timer_id: &Text,
    duration_ms: i64,
) -> Result<(), Refusal> {
    let key = (execution.tenant_id, execution.id, timer_id.clone());
    if work.set.timers.get(&key).is_some() {
        return Err(Refusal::new(Code::IdCollision, format!("timer '{timer_id}' already exists")));
    }
    execution.open_timers += 1;
    let data = EventData::new(EventKind::TimerStarted).name(timer_id.clone()).number(duration_ms);
    log(work, execution, data);
    let timer = Timer {
        tenant_id: execution.tenant_id,
        execution_id: execution.id,
        name: timer_id.clone(),
        version: 1,
        fire_ms: work.now.ms.saturating_add(duration_ms),
        status: TimerStatus::Open,
    };
    work.set.due.put(timer.due_row());
    work.set.timers.put(timer);
    Ok(())
}
