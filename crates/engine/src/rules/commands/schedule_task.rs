//! `ScheduleTask`: creates a task of the workflow, or announces one that was created ahead of the command.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{Payload, TaskId, TenantId};
use crate::lifecycle::{execution, key, task};
use crate::limits::Limits;
use crate::request::TaskSpec;
use crate::rules::commands::log;
use crate::rules::{Work, create_task};
use crate::state::{Execution, Task};
use crate::working_set::Needs;

pub(super) fn check(task_id: TaskId, spec: &TaskSpec, limits: &Limits) -> Result<(), Refusal> {
    check::id("task id", task_id)?;
    create_task::check_spec(spec, limits)
}

pub(super) fn needs(tenant_id: TenantId, task_id: TaskId, spec: &TaskSpec, needs: &mut Needs<'_>) {
    needs.row::<Task>((tenant_id, task_id));
    if let Some(key) = &spec.key {
        key::needs_work_key(needs, tenant_id, key);
    }
}

/// If the id belongs to another task, it is no repeat: applying the command refuses it.
pub(super) fn is_in_log(work: &Work<'_>, execution: &Execution, task_id: TaskId, spec: &TaskSpec) -> bool {
    work.set.tasks.get(&(execution.tenant_id, task_id)).is_some_and(|task| {
        let own = task.execution_id == Some(execution.id) && task.announced;
        own && task.task_type == spec.task_type
    })
}

pub(super) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    task_id: TaskId,
    spec: &TaskSpec,
) -> Result<(), Refusal> {
    let existing = work.set.tasks.get(&(execution.tenant_id, task_id)).cloned();
    let mut task = match existing {
        Some(task) => {
            check_same_task(&task, execution, spec)?;
            if task.announced {
                return Ok(());
            }
            task
        }
        None => create_task::new_row(work, task_id, spec, Some(execution))?,
    };
    if task.status.is_terminal() {
        return announce_ended(work, execution, task);
    }
    if execution.open_tasks >= work.limits.pending_tasks {
        let message = format!("execution {} has {} unfinished tasks", execution.id, execution.open_tasks);
        return Err(Refusal::new(Code::TooManyPendingTasks, message));
    }
    execution.open_tasks += 1;
    let data = EventData::new(EventKind::TaskScheduled).subject(task_id).name(task.task_type.clone());
    log(work, execution, data);
    // The input is shown as part of the history, so it adds to the history's size.
    execution::grow_history(work, execution, bytes(&task.input));
    task.announced = true;
    let not_before_ms = task.not_before_ms;
    task::make_pending(work, &mut task, not_before_ms);
    work.set.tasks.put(task);
    Ok(())
}

/// Announces a task that was created ahead of this command and cancelled meanwhile: both events are written at once.
fn announce_ended(work: &mut Work<'_>, execution: &mut Execution, mut task: Task) -> Result<(), Refusal> {
    let scheduled = EventData::new(EventKind::TaskScheduled).subject(task.id).name(task.task_type.clone());
    log(work, execution, scheduled);
    let ended = EventData::new(EventKind::TaskFailed).subject(task.id).flag(true);
    execution::append_external(work, execution, ended);
    task.announced = true;
    work.set.tasks.put(task);
    Ok(())
}

fn check_same_task(task: &Task, execution: &Execution, spec: &TaskSpec) -> Result<(), Refusal> {
    if task.execution_id != Some(execution.id) {
        let message = format!("task id {} belongs to another workflow", task.id);
        return Err(Refusal::new(Code::IdCollision, message));
    }
    if task.task_type != spec.task_type {
        let message = format!(
            "task id {} already exists with task type '{}', got '{}'",
            task.id, task.task_type, spec.task_type
        );
        return Err(Refusal::new(Code::IdCollision, message));
    }
    Ok(())
}

fn bytes(payload: &Payload) -> i64 {
    i64::try_from(payload.len()).unwrap_or(i64::MAX)
}
