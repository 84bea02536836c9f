//! Going ahead of the log. A worker that has finished the one task that a workflow in its memory waits for knows what the log
//! is about to say. It lets the workflow go on and sends that step along with the task's result: one commit instead of two,
//! and no way there and back in between. The server takes the step only if the log came to be just that; otherwise it leaves the
//! step out, and the workflow is activated as usual.

use std::sync::atomic::Ordering;

use flovyn_proto::v1;
use prost::Message;
use uuid::Uuid;

use super::activation::submission;
use super::cache::{Cache, Kept};
use super::{Setup, unharmed};
use crate::replay::{Ahead, Outcome};
use crate::wire::json;

/// Larger steps go by themselves, in frames of their own.
const MAX_BYTES: usize = 256 << 10;

/// A step that is on its way.
pub(super) struct Step {
    execution_id: Uuid,
    token: i64,
}

/// The next step of the workflow that waits for this task's success, if it can be known.
pub(super) fn step(
    setup: &Setup,
    cache: &Cache,
    task: &v1::CompleteTaskRequest,
    execution_id: &str,
) -> Option<(Step, v1::SubmitWorkflowCommandsRequest)> {
    let mut next = None;
    // It is users' code, and must not take the task's result along.
    unharmed("while a workflow went ahead", || next = go(setup, cache, task, execution_id));
    next
}

fn go(
    setup: &Setup,
    cache: &Cache,
    task: &v1::CompleteTaskRequest,
    execution_id: &str,
) -> Option<(Step, v1::SubmitWorkflowCommandsRequest)> {
    let id = Uuid::try_parse(execution_id).ok()?;
    let task_id = &task.task_execution_id;
    let needs_log = |kind: &str| setup.workflows.get(kind).map(|registered| &registered.needs_log);
    let may = |kind: &str| needs_log(kind).is_some_and(|needs| !needs.load(Ordering::Relaxed));
    let Kept { mut instance, token } =
        cache.take_if(id, |instance| instance.waits_only_for(task_id) && may(&instance.kind()))?;
    // As the log will have it, not as the task made it.
    let output = json(&task.output).ok()?;
    match instance.go_ahead(task_id, output) {
        Ahead::Came(commands, outcome) => {
            let token = token + 1;
            let submit = submission(execution_id, token, instance.seen, commands, &outcome);
            if submit.encoded_len() > MAX_BYTES {
                return None;
            }
            setup.metrics.activations.fetch_add(1, Ordering::Relaxed);
            if outcome == Outcome::Suspended {
                cache.put(id, Kept { instance, token });
            }
            Some((Step { execution_id: id, token }, submit))
        }
        Ahead::NeedsLog => {
            // Others of its kind will most likely do so too, and each has to be replayed for it.
            if let Some(needs) = needs_log(&instance.kind()) {
                needs.store(true, Ordering::Relaxed);
            }
            None
        }
        Ahead::Failed => None,
    }
}

impl Step {
    /// The server has answered.
    pub(super) fn settled(self, setup: &Setup, cache: &Cache, ack: &v1::ResultAck) {
        if ack.continued {
            setup.metrics.continued.fetch_add(1, Ordering::Relaxed);
        } else {
            // Memory has what the log has not.
            cache.forget(self.execution_id, self.token);
        }
    }
}
