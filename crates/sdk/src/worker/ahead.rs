//! Continuations: running a workflow ahead of its log.
//!
//! A worker may finish the only task that a cached workflow waits for. Then it knows the next event of the log: the
//! task's success. The worker runs the workflow with that event and sends the resulting step together with the task's
//! result. This makes one commit instead of two and saves a round trip.
//!
//! The server accepts the step only if the log matches. Otherwise it ignores the step and activates the workflow as
//! usual.

use std::sync::atomic::Ordering;

use flovyn_proto::v1;
use prost::Message;
use uuid::Uuid;

use super::activation::{Unread, submission};
use super::cache::{Cache, Kept, Ticket};
use super::{Setup, unharmed};
use crate::replay::{Instance, Outcome, WentAhead};
use crate::wire::json;

/// Maximum size of a success and its step in one frame. Larger ones are sent in separate frames.
const MAX_BYTES: usize = 2 << 20;

/// A step that has been sent and is not acknowledged yet.
pub(super) struct Step {
    execution_id: Uuid,
    /// The cache entry of the workflow. `None`: the workflow has ended.
    kept: Option<Ticket>,
    unread: Option<Unread>,
}

/// The next step of the workflow that waits for this task's success. `None`: the workflow is not cached, or it cannot
/// run ahead of its log.
pub(super) fn step(
    setup: &Setup,
    cache: &Cache,
    task: &v1::CompleteTaskRequest,
    execution_id: &str,
) -> Option<(Step, v1::SubmitWorkflowCommandsRequest)> {
    let mut next = None;
    // This runs user code. A panic there must not lose the task's result.
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
    let needs_log = |kind: &str| setup.registry.workflows.get(kind).map(|registered| &registered.needs_log);
    let may = |kind: &str| needs_log(kind).is_some_and(|needs| !needs.load(Ordering::Relaxed));
    let wanted = |instance: &Instance| instance.waits_only_for(task_id) && may(&instance.kind());
    let (place, Kept { mut instance, token }) = cache.take_if(id, wanted)?;
    // Use the output after serialization, as the log will have it.
    let went = json(&task.output).map(|output| instance.go_ahead(task_id, output));
    let Ok(WentAhead::Came(commands, outcome)) = went else {
        if let (Ok(WentAhead::NeedsLog), Some(needs)) = (&went, needs_log(&instance.kind())) {
            // Other workflows of this kind will most likely need the log too, and each would have to be replayed.
            needs.store(true, Ordering::Relaxed);
        }
        cache.forget(id, place);
        return None;
    };
    let token = token + 1;
    let submit = submission(execution_id, token, &instance, commands, &outcome);
    if submit.encoded_len() + task.output.len() > MAX_BYTES {
        needs_log(&instance.kind())?.store(true, Ordering::Relaxed);
        cache.forget(id, place);
        return None;
    }
    let unread = Unread::of(&instance, &outcome);
    let kept = match outcome {
        Outcome::Suspended => Some(cache.put_back(id, place, Kept { instance, token })?),
        // An activation that arrived in the meantime has newer events.
        _ if !cache.forget(id, place) => return None,
        _ => None,
    };
    setup.metrics.activations.fetch_add(1, Ordering::Relaxed);
    Some((Step { execution_id: id, kept, unread }, submit))
}

impl Step {
    /// Handles the server's answer to the step.
    pub(super) fn settled(self, setup: &Setup, cache: &Cache, ack: &v1::ResultAck) {
        if ack.continued {
            setup.metrics.continued.fetch_add(1, Ordering::Relaxed);
            self.unread.inspect(|unread| unread.tell(setup));
        }
        if let Some(ticket) = self.kept {
            cache.settle(self.execution_id, ticket, ack.continued);
        }
    }
}
