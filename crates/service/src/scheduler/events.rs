//! Events from the executor to the scheduler, actions in the other direction, and the scheduler's view of requests.

use std::time::{Duration, Instant};

use flovyn_engine::ids::{ExecutionId, TenantId, Text, WorkerId};
use flovyn_engine::state::WorkClass;

/// Batches are numbered in the order in which they begin.
pub(crate) type BatchId = u64;

/// The facts about a request that the scheduler needs.
pub(crate) trait Queued {
    fn tenant(&self) -> TenantId;
    /// Bytes of its payload, estimated.
    fn bytes(&self) -> usize;
    /// Estimated rows that the request changes. For a claim: if it finds as much work as it asks for.
    fn rows(&self) -> usize;
    /// `None`: the request claims no work.
    fn claim(&self) -> Option<ClaimFacts>;
    /// The number of times that it was deferred because its rows were locked.
    fn misses(&self) -> u32;
    /// Whether it is a claim whose poller has gone. Any other request is carried out even if its caller no longer
    /// waits.
    fn is_abandoned(&self) -> bool;
    /// Whether it releases a claim that was never delivered.
    fn is_release(&self) -> bool;
    /// The kind of workflow that it starts. `None`: the request is not a plain start.
    fn starts(&self) -> Option<Kind>;
    /// How it continues this execution. `None`: the request does not continue it.
    fn first_step_of(&self, execution_id: ExecutionId) -> Option<FirstStep>;
}

/// A kind of workflow in one tenant.
pub(crate) type Kind = (TenantId, Text);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimFacts {
    /// `None`: the worker has no session.
    pub(crate) session: Option<WorkerId>,
    pub(crate) class: WorkClass,
    /// The most work that the claim takes.
    pub(crate) max: usize,
}

/// The outcome of a provisional execution on its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstStep {
    Made,
    /// The worker cannot make the first step before the start is durable.
    Released,
}

/// Something that happened, as the executor reports it.
#[derive(Debug)]
pub(crate) enum Event<J> {
    /// A request arrived.
    Arrived(J),
    /// These requests go before all others of their tenants. They were deferred, or a poller was woken to search.
    Requeued(Vec<J>),
    /// The batch in the loop is done and has not been answered. `took`: how long it took; `None` if it wrote nothing.
    Written { requests: usize, took: Option<Duration> },
    /// The batch in the loop was not written, but workers received these executions, which it starts.
    Notified(Vec<(ExecutionId, J)>),
    /// A batch was answered, or failed and its callers were refused.
    Ended(BatchId, Ended<J>),
    /// The service is stopping. Requests that have been accepted are still carried out.
    Stopping,
    /// No more requests can arrive.
    Drained,
    /// All events so far have been reported, and the executor asks for its next actions. All other events return no
    /// actions.
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
    /// The number of these requests that have to be decided again, because their rows were busy or nothing was
    /// written.
    pub(crate) in_vain: usize,
    /// How long deciding and writing took. `None`: nothing was written.
    pub(crate) took: Option<Duration>,
}

impl<J> Default for Ended<J> {
    fn default() -> Self {
        Self { requeued: Vec::new(), later: Vec::new(), requests: 0, in_vain: 0, took: None }
    }
}

/// The next step of the executor. After the last action it reports the events since, and then [`Event::Turn`].
#[derive(Debug)]
pub(crate) enum Action<J> {
    /// Answer the last batch that ran in the loop.
    Answer,
    /// Begin a batch. If the last batch has not been answered, it is answered as soon as the new batch has begun.
    Begin(Begin<J>),
    /// The poller of this claim has gone: another poller must search for the work that this one was woken for.
    PassOn(J),
    /// Let the other tasks of the runtime run.
    Yield,
    /// Wait for the next event, at most until this time. `None`: without a limit.
    Wait { until: Option<Instant> },
    /// Everything is finished: end the loop.
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
    /// In the loop, which waits for the batch. `notify`: workers may receive the executions that it starts before it
    /// is written.
    Here { notify: bool },
    /// In a separate task. `second`: another batch is in flight.
    Beside { order: Order, second: bool },
    /// In a separate task, which waits for rows that other transactions have locked.
    Alone,
}

/// When a batch beside the loop begins and when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// In any order relative to other batches, like a batch of another process.
    Any,
    /// The store receives it before the next batch, and it is answered after the given batch. `None`: it need not wait
    /// for another answer.
    After(Option<BatchId>),
}
