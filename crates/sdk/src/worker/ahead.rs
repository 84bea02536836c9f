//! Going ahead of the log. A worker that has finished the one task that a workflow in its memory waits for knows what the log
//! is about to say. It lets the workflow go on and sends that step along with the task's result: one commit instead of two,
//! and no way there and back in between. The server takes the step only if the log came to be just that; otherwise it leaves the
//! step out, and the workflow is activated as usual.

use std::sync::atomic::Ordering;

use flovyn_proto::v1;
use prost::Message;
use uuid::Uuid;

use super::activation::{Unread, submission};
use super::cache::{Cache, Kept, Ticket};
use super::{Setup, unharmed};
use crate::replay::{Instance, Outcome, WentAhead};
use crate::wire::json;

/// A success and a step that are larger together go in frames of their own.
const MAX_BYTES: usize = 2 << 20;

/// A step that is on its way.
pub(super) struct Step {
    execution_id: Uuid,
    /// Where its workflow is kept, unless it has ended.
    kept: Option<Ticket>,
    unread: Option<Unread>,
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
    let needs_log = |kind: &str| setup.registry.workflows.get(kind).map(|registered| &registered.needs_log);
    let may = |kind: &str| needs_log(kind).is_some_and(|needs| !needs.load(Ordering::Relaxed));
    let wanted = |instance: &Instance| instance.waits_only_for(task_id) && may(&instance.kind());
    let (place, Kept { mut instance, token }) = cache.take_if(id, wanted)?;
    // As the log will have it, not as the task made it.
    let went = json(&task.output).map(|output| instance.go_ahead(task_id, output));
    let Ok(WentAhead::Came(commands, outcome)) = went else {
        if let (Ok(WentAhead::NeedsLog), Some(needs)) = (&went, needs_log(&instance.kind())) {
            // Others of its kind will most likely do so too, and each has to be replayed for it.
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
        // An activation that came meanwhile knows more than this one.
        _ if !cache.forget(id, place) => return None,
        _ => None,
    };
    setup.metrics.activations.fetch_add(1, Ordering::Relaxed);
    Some((Step { execution_id: id, kept, unread }, submit))
}

impl Step {
    /// The server has answered.
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
