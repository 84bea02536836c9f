//! `CancelTask`: cancels a task of the workflow, or asks its worker to stop.

use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{TaskId, TenantId};
use crate::lifecycle::{key, task};
use crate::rules::Work;
use crate::rules::commands::log;
use crate::state::{Execution, KeySpace, Task, TaskStatus};
use crate::working_set::Needs;

pub(super) fn needs(tenant_id: TenantId, task_id: TaskId, needs: &mut Needs<'_>) {
    let task = needs.row::<Task>((tenant_id, task_id));
    let key = task.and_then(|task| task.idempotency_key.as_ref());
    key::needs_release(needs, tenant_id, KeySpace::Work, key);
}

pub(super) fn apply(work: &mut Work<'_>, execution: &mut Execution, task_id: TaskId) -> Result<(), Refusal> {
    let own = work.set.tasks.get(&(execution.tenant_id, task_id)).cloned();
    let Some(mut task) = own.filter(|task| task.execution_id == Some(execution.id) && task.announced) else {
        return Err(Refusal::new(
            Code::TaskNotFound,
            format!("task {task_id} does not belong to this workflow"),
        ));
    };
    let at_once = task.status == TaskStatus::Pending;
    let data = EventData::new(EventKind::TaskCancelRequested).subject(task_id).flag(at_once);
    log(work, execution, data);
    match task.status {
        TaskStatus::Pending => {
            execution.open_tasks -= 1;
            let reason = "cancelled by its workflow".into();
            task::finish(work, &mut task, task::End::Cancelled { reason, told: true });
        }
        TaskStatus::Running => task.cancel_requested = true,
        _ => return Ok(()),
    }
    work.set.tasks.put(task);
    Ok(())
}
