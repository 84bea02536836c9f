//! What the executor tells the scheduler, what the scheduler tells the executor, and what it knows of requests.

use std::time::{Duration, Instant};

use flovyn_engine::ids::{ExecutionId, TenantId, Text, WorkerId};
use flovyn_engine::state::WorkClass;

/// Batches are numbered in the order in which they begin.
pub(crate) type BatchId = u64;

/// What the scheduler has to know of a request.
pub(crate) trait Queued {
    fn tenant(&self) -> TenantId;
    /// Bytes of its payload, estimated.
    fn bytes(&self) -> usize;
    /// Rows that it changes, estimated. For a claim: if it finds as much as it asks for.
    fn rows(&self) -> usize;
    /// `None`: it claims no work.
    fn claim(&self) -> Option<ClaimFacts>;
    /// How often it was deferred because its rows were locked.
    fn misses(&self) -> u32;
    /// A claim whose poller has gone. Any other request is carried out whether or not its caller still waits.
    fn is_abandoned(&self) -> bool;
    /// Whether it releases a claim that was never delivered.
    fn is_release(&self) -> bool;
    /// The kind of workflow that it starts. `None`: it is no plain start.
    fn starts(&self) -> Option<Kind>;
    /// How it continues this execution. `None`: it is about something else.
    fn first_step_of(&self, execution_id: ExecutionId) -> Option<FirstStep>;
}

/// A kind of workflow, of one tenant.
pub(crate) type Kind = (TenantId, Text);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimFacts {
    /// `None`: the worker has no session.
    pub(crate) session: Option<WorkerId>,
    pub(crate) class: WorkClass,
    /// How much work it takes at most.
    pub(crate) max: usize,
}

/// What became of an execution that was handed to a worker before its start was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstStep {
    Made,
    /// The worker cannot make it before the start is durable.
    Released,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Event<J> {
    /// A request came in.
    Arrived(J),
    /// These go before all others of their tenants: they were deferred, or a poller was woken to search.
    Requeued(Vec<J>),
    /// The batch in the loop is durable and has not been answered. `took`: `None` if it wrote nothing.
    Written { requests: usize, took: Option<Duration> },
    /// The batch in the loop was not written: workers were notified of these executions, which it starts.
    Notified(Vec<(ExecutionId, J)>),
    /// A batch was answered, or failed and its callers were refused.
    Ended(BatchId, Ended<J>),
    /// The service stops. Requests that have been accepted are still carried out.
    Stopping,
    /// Nothing can arrive any more.
    Drained,
    /// Everything that has happened was reported: what next? All other events return no actions.
    Turn,
}

/// How a batch ended.
#[derive(Debug)]
pub(crate) struct Ended<J> {
    /// Requests that go into the next batch.
    pub(crate) requeued: Vec<J>,
    /// Releases that failed. They are tried again after [`super::RELEASE_AGAIN`].
    pub(crate) later: Vec<J>,
    pub(crate) requests: usize,
    /// Those of them that were decided in vain: their rows were busy, or nothing was written.
    pub(crate) in_vain: usize,
    /// How long deciding and writing took. `None`: nothing was written.
    pub(crate) took: Option<Duration>,
}

impl<J> Default for Ended<J> {
    fn default() -> Self {
        Self { requeued: Vec::new(), later: Vec::new(), requests: 0, in_vain: 0, took: None }
    }
}

/// What the executor does next. After the last action it reports what happened, and then [`Event::Turn`].
#[derive(Debug)]
pub(crate) enum Action<J> {
    /// Answer the last batch that ran in the loop.
    Answer,
    /// Begin a batch. If the last one has not been answered, it is answered as soon as this one has begun.
    Begin(Begin<J>),
    /// The poller of this claim has gone: somebody else shall search for the work it was woken for.
    PassOn(J),
    /// Let the other tasks of the runtime run.
    Yield,
    /// Wait until something happens, at most until this moment.
    Wait { until: Option<Instant> },
    /// All is done.
    Finish,
}

#[derive(Debug)]
pub(crate) struct Begin<J> {
    pub(crate) batch: BatchId,
    pub(crate) jobs: Vec<J>,
    pub(crate) runs: Runs,
}

/// Where a batch runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// In the loop, which waits for it. `notify`: workers may be handed what it starts before it is written.
    Here { notify: bool },
    /// In a task of its own. `second`: another batch is in flight.
    Beside { order: Order, second: bool },
    /// In a task of its own, waiting for rows that others have locked.
    Alone,
}

/// When a batch beside the loop begins and is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Whenever it is its turn: it is like one of another process.
    Any,
    /// The store gets it before the next batch, and it is answered after that batch. `None`: no other has to be answered first.
    After(Option<BatchId>),
}
