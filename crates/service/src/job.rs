//! A request on its way through the batch loop, with whoever waits for the answer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flovyn_engine::ids::TenantId;
use flovyn_engine::reply::Claimed;
use flovyn_engine::request::{Claim, GiveBackTask, GiveBackWorkflow, Op};
use flovyn_engine::{Refusal, Reply, Request};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::follow::EndSender;

pub(crate) type CallSender = oneshot::Sender<Result<Reply, Refusal>>;

/// A poll that waits for work, or for the answer that there is none.
#[derive(Debug)]
pub(crate) struct PollAsker {
    pub(crate) sender: oneshot::Sender<Result<Claimed, Refusal>>,
    /// Until when it waits for work. A claim that is under way then is still answered.
    pub(crate) until: Instant,
    /// Set while it waits in the dispatch: then nothing is under way for it.
    pub(crate) parked: Arc<AtomicBool>,
}

impl PollAsker {
    pub(crate) fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    pub(crate) fn may_wait(&self) -> bool {
        !self.is_gone() && Instant::now() < self.until
    }
}

/// Who gets the answer.
#[derive(Debug)]
pub(crate) enum Asker {
    Call(CallSender),
    /// Starts an execution and follows it to its end.
    Start(CallSender, EndSender),
    /// A poller: when nothing is found it waits in the dispatch.
    Poll(PollAsker),
    /// Nobody waits.
    None,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: Arc<Request>,
    pub(crate) asker: Asker,
    /// How often its rows could not be had.
    pub(crate) misses: u32,
}

impl Job {
    pub(crate) fn new(request: Request, asker: Asker) -> Self {
        Self { request: Arc::new(request), asker, misses: 0 }
    }

    /// Whether somebody still waits for the answer. A request of somebody who has gone is carried out all the
    /// same, except a claim: handing out work to nobody would only delay it.
    pub(crate) fn is_abandoned_claim(&self) -> bool {
        matches!(&self.asker, Asker::Poll(poll) if poll.is_gone())
    }

    /// Whether it undoes a claim of which nobody has been told.
    pub(crate) fn gives_back(&self) -> bool {
        matches!(self.request.op, Op::GiveBackWorkflow(_) | Op::GiveBackTask(_))
            && matches!(self.asker, Asker::None)
    }

    pub(crate) fn refuse(self, refusal: Refusal) {
        match self.asker {
            Asker::Call(sender) | Asker::Start(sender, _) => drop(sender.send(Err(refusal))),
            Asker::Poll(poll) => drop(poll.sender.send(Err(refusal))),
            Asker::None => {}
        }
    }
}

/// Requests that undo a claim which could not be delivered.
pub(crate) fn give_back(tenant_id: TenantId, claimed: &Claimed) -> Vec<Job> {
    let workflows = claimed
        .workflows
        .iter()
        .map(|item| Op::from(GiveBackWorkflow { execution_id: item.execution.id, token: item.token }));
    let tasks =
        claimed.tasks.iter().map(|item| Op::from(GiveBackTask { task_id: item.task.id, token: item.token }));
    workflows
        .chain(tasks)
        // Giving back makes no ids and needs no jitter.
        .map(|op| Job::new(Request::new(tenant_id, 0, op), Asker::None))
        .collect()
}

/// The claim of a poll request.
pub(crate) fn claim_of(request: &Request) -> Option<&Claim> {
    match &request.op {
        Op::Claim(claim) => Some(claim),
        _ => None,
    }
}
