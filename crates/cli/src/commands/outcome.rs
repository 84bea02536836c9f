//! The exit code of a command that waited for an execution or a task, so that a script learns the outcome.

use crate::client::answers::{Execution, Task};
use crate::exit::{Exit, Failure};

/// Fails unless the execution has completed.
pub(super) fn of_execution(execution: &Execution) -> Result<(), Failure> {
    let Execution { id, kind, status, error, .. } = execution;
    ended(&format!("{kind} {id}"), status, error.as_deref()).map_err(|failure| {
        failure.advise(format!("Start it again as a new execution: flovyn workflow retry {id}"))
    })
}

/// Fails unless the task has completed. Only a standalone task can be retried manually.
pub(super) fn of_task(task: &Task) -> Result<(), Failure> {
    let Task { id, task_type, status, error, .. } = task;
    let ended = ended(&format!("{task_type} {id}"), status, error.as_deref());
    ended.map_err(|failure| match (&task.workflow_execution_id, status.as_str()) {
        (None, "FAILED") => failure.advise(format!("Retry it with: flovyn task retry {id}")),
        _ => failure,
    })
}

fn ended(what: &str, status: &str, error: Option<&str>) -> Result<(), Failure> {
    if status == "COMPLETED" {
        return Ok(());
    }
    let reason = error.filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Err(Failure::new(Exit::NotCompleted, format!("{what} is {status}{reason}")))
}
