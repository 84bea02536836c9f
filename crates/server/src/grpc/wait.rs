//! Waits for an execution or a task to finish.

use std::time::Duration;

use flovyn_engine::Code;
use flovyn_engine::ids::{ExecutionId, TaskId};
use flovyn_engine::state::{Execution, Task};
use tonic::Status;

use super::call::Call;
use super::status::{not_read, refuse};

/// The execution when it finishes, or its current state when the time is up.
pub(super) async fn finished(call: &Call, id: ExecutionId, wait: Duration) -> Result<Execution, Status> {
    let row = crate::finish::finished(call.api(), call.tenant_id(), id, wait).await.map_err(not_read)?;
    let row = row.filter(|row| !row.purging);
    let row = row.ok_or_else(|| refuse(Code::ExecutionNotFound, format!("no execution {id}")))?;
    if call.api().is_draining() && !row.status.is_terminal() {
        return Err(refuse(Code::ShuttingDown, "the server is stopping"));
    }
    Ok(row)
}

/// The task when it finishes, or its current state when the time is up.
pub(super) async fn task_finished(call: &Call, id: TaskId, wait: Duration) -> Result<Task, Status> {
    let row = crate::finish::task_finished(call.api(), call.tenant_id(), id, wait).await.map_err(not_read)?;
    let row = row.ok_or_else(|| refuse(Code::TaskNotFound, format!("no task {id}")))?;
    if call.api().is_draining() && !row.status.is_terminal() {
        return Err(refuse(Code::ShuttingDown, "the server is stopping"));
    }
    Ok(row)
}
