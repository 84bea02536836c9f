//! How a command ends that has waited for the end of something: a script wants to know what it has come to.

use crate::client::answers::{Execution, Task};
use crate::exit::{Exit, Failure};

/// Fails unless the execution has completed.
pub(super) fn of_execution(execution: &Execution) -> Result<(), Failure> {
    let Execution { id, kind, status, error, .. } = execution;
    ended(&format!("{kind} {id}"), status, error.as_deref()).map_err(|failure| {
        failure.advise(format!("Start it again, as a new one, with: flovyn workflow retry {id}"))
    })
}

/// The same for a task. One of a workflow is not tried again by hand.
pub(super) fn of_task(task: &Task) -> Result<(), Failure> {
    let Task { id, task_type, status, error, .. } = task;
    let ended = ended(&format!("{task_type} {id}"), status, error.as_deref());
    ended.map_err(|failure| match (&task.workflow_execution_id, status.as_str()) {
        (None, "FAILED") => failure.advise(format!("Send it on its way again with: flovyn task retry {id}")),
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
