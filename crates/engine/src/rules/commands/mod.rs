//! The commands of an activation: one file per command, with the four functions that this file dispatches to.
//!
//! | function | what it does |
//! |---|---|
//! | `check` | refuses a malformed command, before any row is loaded |
//! | `needs` | requests the rows of the command |
//! | `is_in_log` | only if the command has an id: whether the log already has the command |
//! | `apply` | decides the command |
//!
//! Each accepted command writes exactly one event, even if it has no effect. Exception: a task or child that already
//! exists is not announced twice.

mod cancel_task;
mod cancel_timer;
mod clear_state;
mod create_promise;
mod record_operation;
mod request_cancel_child;
mod resolve_promise;
mod schedule_child;
mod schedule_task;
mod set_state;
mod start_timer;

pub(crate) use cancel_timer::drop_timer;

use crate::code::Refusal;
use crate::event::{EventData, Origin};
use crate::ids::{ExecutionId, TenantId};
use crate::lifecycle::execution;
use crate::limits::Limits;
use crate::request::Command;
use crate::rules::Work;
use crate::state::Execution;
use crate::working_set::Needs;

/// Checks the command itself. Payloads are checked when the command is applied.
pub(crate) fn check(command: &Command, limits: &Limits) -> Result<(), Refusal> {
    match command {
        Command::RecordOperation { name, .. } => record_operation::check(name, limits),
        Command::SetState { name, .. } => set_state::check(name, limits),
        Command::ClearState { name } => clear_state::check(name, limits),
        Command::ScheduleTask { task_id, spec } => schedule_task::check(*task_id, spec, limits),
        Command::StartTimer { timer_id, duration_ms } => start_timer::check(timer_id, *duration_ms, limits),
        Command::CancelTimer { timer_id } => cancel_timer::check(timer_id, limits),
        Command::CreatePromise { name, timeout_ms, key } => {
            create_promise::check(name, *timeout_ms, key.as_ref(), limits)
        }
        Command::ScheduleChild(child) => schedule_child::check(child, limits),
        Command::RequestCancelChild { reason, .. } => request_cancel_child::check(reason, limits),
        Command::CancelTask { .. } | Command::ResolvePromise { .. } => Ok(()),
    }
}

pub(crate) fn needs(
    tenant_id: TenantId,
    execution_id: ExecutionId,
    command: &Command,
    needs: &mut Needs<'_>,
) {
    match command {
        Command::RecordOperation { .. } => {}
        Command::SetState { name, .. } => set_state::needs(tenant_id, execution_id, name, needs),
        Command::ClearState { name } => clear_state::needs(tenant_id, execution_id, name, needs),
        Command::ScheduleTask { task_id, spec } => schedule_task::needs(tenant_id, *task_id, spec, needs),
        Command::CancelTask { task_id } => cancel_task::needs(tenant_id, *task_id, needs),
        Command::StartTimer { timer_id, .. } => start_timer::needs(tenant_id, execution_id, timer_id, needs),
        Command::CancelTimer { timer_id } => cancel_timer::needs(tenant_id, execution_id, timer_id, needs),
        Command::CreatePromise { key, .. } => create_promise::needs(tenant_id, key.as_ref(), needs),
        Command::ResolvePromise { promise_id, .. } => resolve_promise::needs(tenant_id, *promise_id, needs),
        Command::ScheduleChild(child) => schedule_child::needs(tenant_id, child, needs),
        Command::RequestCancelChild { child_id, .. } => {
            request_cancel_child::needs(tenant_id, *child_id, needs);
        }
    }
}

/// Whether the command has an id that exists once in an execution, so that the log shows a copy of it.
pub(crate) fn has_id(command: &Command) -> bool {
    matches!(command, Command::ScheduleTask { .. } | Command::ScheduleChild(_) | Command::StartTimer { .. })
}

/// For a command that names an id: whether the log already has it. `None`: the command names no id.
pub(crate) fn is_in_log(work: &Work<'_>, execution: &Execution, command: &Command) -> Option<bool> {
    match command {
        Command::ScheduleTask { task_id, spec } => {
            Some(schedule_task::is_in_log(work, execution, *task_id, spec))
        }
        Command::ScheduleChild(child) => Some(schedule_child::is_in_log(work, execution, child)),
        Command::StartTimer { timer_id, .. } => Some(start_timer::is_in_log(work, execution, timer_id)),
        _ => None,
    }
}

pub(crate) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    command: &Command,
) -> Result<(), Refusal> {
    match command {
        Command::RecordOperation { name, result } => record_operation::apply(work, execution, name, result),
        Command::SetState { name, value } => set_state::apply(work, execution, name, value),
        Command::ClearState { name } => clear_state::apply(work, execution, name),
        Command::ScheduleTask { task_id, spec } => schedule_task::apply(work, execution, *task_id, spec),
        Command::CancelTask { task_id } => cancel_task::apply(work, execution, *task_id),
        Command::StartTimer { timer_id, duration_ms } => {
            start_timer::apply(work, execution, timer_id, *duration_ms)
        }
        Command::CancelTimer { timer_id } => cancel_timer::apply(work, execution, timer_id),
        Command::CreatePromise { name, timeout_ms, key } => {
            create_promise::apply(work, execution, name, *timeout_ms, key.as_ref())
        }
        Command::ResolvePromise { promise_id, value } => {
            resolve_promise::apply(work, execution, *promise_id, value)
        }
        Command::ScheduleChild(child) => schedule_child::apply(work, execution, child),
        Command::RequestCancelChild { child_id, reason } => {
            request_cancel_child::apply(work, execution, *child_id, reason)
        }
    }
}

/// Appends the event of a command.
fn log(work: &mut Work<'_>, execution: &mut Execution, data: EventData) -> i64 {
    execution::append(work, execution, Origin::Command, data)
}
