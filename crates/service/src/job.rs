//! A request in the batch loop, together with the channel for its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flovyn_engine::ids::{ExecutionId, TenantId};
use flovyn_engine::reply::Claimed;
use flovyn_engine::request::{Claim, Op, ReleaseTaskClaim, ReleaseWorkflowClaim};
use flovyn_engine::{Code, Refusal, Reply, Request};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::follow::EndSender;
use crate::provisional;
use crate::scheduler::{ClaimFacts, FirstStep, Kind, Queued};

pub(crate) type CallSender = oneshot::Sender<Result<Reply, Refusal>>;

/// A poll that waits for work, or for the empty answer.
#[derive(Debug)]
pub(crate) struct PollAsker {
    pub(crate) sender: oneshot::Sender<Result<Claimed, Refusal>>,
    /// The end of its wait for work. If a batch has the claim at that time, the claim is still answered.
    pub(crate) until: Instant,
    pub(crate) wait: Arc<PollWait>,
}

/// The state that a poll shares with the batch loop and the dispatch.
#[derive(Debug, Default)]
pub(crate) struct PollWait {
    /// Set by the poll: it must not be parked any more.
    pub(crate) cut: AtomicBool,
    /// Set while the poller waits in the dispatch: no batch has its claim.
    pub(crate) parked: AtomicBool,
}

impl PollAsker {
    pub(crate) fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    pub(crate) fn may_wait(&self) -> bool {
        !self.is_gone() && !self.wait.cut.load(Ordering::SeqCst) && Instant::now() < self.until
    }
}

/// The receiver of the answer.
#[derive(Debug)]
pub(crate) enum Asker {
    Call(CallSender),
    /// A call that starts an execution, and a follower of that execution.
    Start(CallSender, EndSender),
    /// A poller. If its claim finds nothing, the poller waits in the dispatch.
    Poll(PollAsker),
    /// No caller waits for an answer.
    None,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: Arc<Request>,
    pub(crate) asker: Asker,
    /// The number of times that it was deferred because its rows were locked.
    pub(crate) misses: u32,
}

impl Job {
    pub(crate) fn new(request: Request, asker: Asker) -> Self {
        Self { request: Arc::new(request), asker, misses: 0 }
    }

    /// The job that is decided in place of a report that the database refuses. Returns the job itself as the error if
    /// its request has no replacement.
    pub(crate) fn instead(self) -> Result<Self, Self> {
        let refusal = Refusal::new(Code::StoreRefused, Code::StoreRefused.advice());
        match self.request.op.instead(&refusal) {
            Some(op) => {
                let request = Arc::new(Request { op, ..Request::clone(&self.request) });
                Ok(Self { request, ..self })
            }
            None => Err(self),
        }
    }

    pub(crate) fn refuse(self, refusal: Refusal) {
        match self.asker {
            Asker::Call(sender) | Asker::Start(sender, _) => drop(sender.send(Err(refusal))),
            Asker::Poll(poll) => drop(poll.sender.send(Err(refusal))),
            Asker::None => {}
        }
    }
}

impl Queued for Job {
    fn tenant(&self) -> TenantId {
        self.request.tenant_id
    }

    fn bytes(&self) -> usize {
        self.request.bytes()
    }

    fn rows(&self) -> usize {
        self.request.rows()
    }

    fn claim(&self) -> Option<ClaimFacts> {
        let claim = claim_of(&self.request)?;
        Some(ClaimFacts { session: claim.claimer.session, class: claim.class, max: claim.max })
    }

    fn misses(&self) -> u32 {
        self.misses
    }

    fn is_abandoned(&self) -> bool {
        matches!(&self.asker, Asker::Poll(poll) if poll.is_gone())
    }

    fn is_release(&self) -> bool {
        matches!(self.request.op, Op::ReleaseWorkflowClaim(_) | Op::ReleaseTaskClaim(_))
            && matches!(self.asker, Asker::None)
    }

    fn starts(&self) -> Option<Kind> {
        provisional::kind(self)
    }

    fn first_step_of(&self, execution_id: ExecutionId) -> Option<FirstStep> {
        provisional::first_step_of(self, execution_id)
    }
}

/// Requests that release work which was claimed but could not be delivered.
pub(crate) fn releases(tenant_id: TenantId, claimed: &Claimed) -> Vec<Job> {
    let workflows = claimed
        .workflows
        .iter()
        .map(|item| Op::from(ReleaseWorkflowClaim { execution_id: item.execution.id, token: item.token }));
    let tasks = claimed
        .tasks
        .iter()
        .map(|item| Op::from(ReleaseTaskClaim { task_id: item.task.id, token: item.token }));
    workflows
        .chain(tasks)
        // A release needs neither ids nor jitter, so its seed does not matter.
        .map(|op| Job::new(Request::new(tenant_id, 0, op), Asker::None))
        .collect()
}

/// The claim of a poll request. `None` if the request is not a claim.
pub(crate) fn claim_of(request: &Request) -> Option<&Claim> {
    match &request.op {
        Op::Claim(claim) => Some(claim),
        _ => None,
    }
}
