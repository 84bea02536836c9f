//! The batch loop: reports events to the scheduler and carries out the scheduler's actions. The loop decides nothing
//! itself. `transaction.rs` runs one batch, and `answer.rs` answers its callers.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use flovyn_engine::reply::Claimed;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, Sleep};

use crate::answer::Committed;
use crate::job::{self, Job};
use crate::scheduler::{Action, BatchId, Begin, Ended, Event, MANY, Order, Policy, Runs, Scheduler};
use crate::service::Shared;
use crate::stats::Stats;
use crate::transaction::Mode;

/// After this time without a request, memory that only makes the next request faster is freed.
const RESTS_AFTER: Duration = Duration::from_secs(2);
/// The number of turns that the loop may stay awake: about 0.3 ms if there is nothing else to do. Turns are counted
/// instead of time, because the clock may stand still in tests.
const AWAKE_FOR: usize = 300;

pub(crate) struct Batcher {
    shared: Arc<Shared>,
    scheduler: Scheduler<Job>,
    jobs: mpsc::Receiver<Job>,
    /// Set when the service stops.
    stopped: watch::Receiver<bool>,
    /// Whether the channel is closed and empty: no more requests can arrive.
    closed: bool,
    /// Batches that run in tasks of their own.
    running: JoinSet<(BatchId, Ended<Job>)>,
    /// The last batch beside the loop that has to be answered before the next one. The channel closes when that batch
    /// has been answered.
    last_beside: Option<(BatchId, oneshot::Receiver<()>)>,
    /// The last batch that ran in the loop, until it is answered.
    unanswered: Option<(Vec<Job>, Committed)>,
    alarm: Pin<Box<Sleep>>,
}

impl Batcher {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: mpsc::Receiver<Job>,
        stopped: watch::Receiver<bool>,
        policy: Box<dyn Policy>,
    ) -> Self {
        Self {
            shared,
            scheduler: Scheduler::new(policy),
            jobs,
            stopped,
            closed: false,
            running: JoinSet::new(),
            last_beside: None,
            unanswered: None,
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    /// Runs until the service stops, then carries out the requests that were accepted before.
    pub(crate) async fn run(mut self) {
        loop {
            self.receive();
            while let Some(Ok((batch, ended))) = self.running.try_join_next() {
                self.note(Event::Ended(batch, ended));
            }
            for action in self.scheduler.on(Event::Turn, Instant::now().into_std()) {
                match action {
                    Action::Answer => self.answer().await,
                    Action::Begin(begin) => self.begin(begin).await,
                    Action::PassOn(claim) => self.pass_on(&claim),
                    Action::Yield => yield_now().await,
                    Action::Wait { until } => self.wait(until.map(Instant::from_std)).await,
                    Action::Finish => return self.finish(),
                }
            }
        }
    }

    fn note(&mut self, event: Event<Job>) {
        let actions = self.scheduler.on(event, Instant::now().into_std());
        debug_assert!(actions.is_empty(), "only a turn has actions");
    }

    fn requeue(&mut self, jobs: Vec<Job>) {
        if !jobs.is_empty() {
            self.note(Event::Requeued(jobs));
        }
    }

    /// Passes all requests that have arrived to the scheduler. Tenants can take turns only among requests that the
    /// scheduler has.
    fn receive(&mut self) {
        let now = Instant::now().into_std();
        while self.scheduler.has_room() && !self.closed {
            let event = match self.jobs.try_recv() {
                Ok(job) => Event::Arrived(job),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.closed = true;
                    Event::Drained
                }
            };
            self.scheduler.on(event, now);
        }
    }

    /// Answers the last batch in two steps: first the receivers of work and outcomes, then all other callers.
    async fn answer(&mut self) {
        let Some((mut jobs, mut committed)) = self.unanswered.take() else { return };
        let requeued = self.shared.hand_over(&mut jobs, &mut committed);
        self.requeue(requeued);
        if jobs.len() < MANY {
            // Other tasks send the work and the outcomes before this thread sends mere acknowledgements.
            yield_now().await;
        }
        let requeued = self.shared.answer(jobs, committed);
        self.requeue(requeued);
        // The answered callers run before the next batch may block this thread.
        yield_now().await;
    }

    async fn begin(&mut self, begin: Begin<Job>) {
        let Begin { batch, jobs, runs } = begin;
        match runs {
            Runs::Here { notify } => return self.run_here(batch, jobs, notify).await,
            Runs::Beside { order, second } => self.run_beside(batch, jobs, order, second),
            Runs::Alone => self.spawn(batch, self.shared.clone().run_batch(jobs, true, None)),
        }
        let unanswered = self.unanswered.take();
        let requeued = unanswered.map(|(jobs, committed)| self.shared.answer_all(jobs, committed));
        self.requeue(requeued.unwrap_or_default());
    }

    /// Runs a batch and waits for it. The store starts on this batch first; then the last batch is answered meanwhile.
    async fn run_here(&mut self, batch: BatchId, jobs: Vec<Job>, notify: bool) {
        let (shared, began, last) = (&self.shared, Instant::now(), self.unanswered.take());
        let answer = async { last.map(|(jobs, committed)| shared.answer_all(jobs, committed)) };
        let mode = if notify { Mode::NotifyFirst } else { Mode::Single };
        let (attempted, requeued) = tokio::join!(biased; shared.transact(&jobs, false, mode), answer);
        self.requeue(requeued.unwrap_or_default());
        match attempted {
            Ok(Committed { decided, handed, takers: Some(takers), in_flight, .. }) => {
                let requeued = self.shared.hand_over_first(jobs.len(), decided, handed, &in_flight);
                self.requeue(requeued);
                self.note(Event::Notified(takers.claim(jobs)));
                // Other tasks send the work before this thread begins to wait for the first step.
                yield_now().await;
            }
            Ok(committed) => {
                let took = (committed.summary.rows > 0).then(|| began.elapsed());
                self.note(Event::Written { requests: jobs.len(), took });
                self.unanswered = Some((jobs, committed));
            }
            Err(failed) => {
                let ended = self.shared.clone().recover(jobs, false, failed).await;
                self.note(Event::Ended(batch, ended));
            }
        }
    }

    fn run_beside(&mut self, batch: BatchId, jobs: Vec<Job>, order: Order, second: bool) {
        Stats::add(&self.shared.stats.second_batches, usize::from(second));
        let Order::After(after) = order else {
            return self.spawn(batch, self.shared.clone().run_batch(jobs, false, None));
        };
        let (answered, is_answered) = oneshot::channel();
        let last = self.last_beside.replace((batch, is_answered));
        let before = last.filter(|(last, _)| after == Some(*last)).map(|(_, is_answered)| is_answered);
        let runs = self.shared.clone().run_batch(jobs, false, before);
        let mut runs: BoxFuture<'static, _> = Box::pin(async move {
            let ended = runs.await;
            drop(answered);
            ended
        });
        // Polled once here, so that the store receives this batch before the next one.
        match runs.as_mut().now_or_never() {
            Some(ended) => self.note(Event::Ended(batch, ended)),
            None => self.spawn(batch, runs),
        }
    }

    fn spawn(&mut self, batch: BatchId, runs: BoxFuture<'static, Ended<Job>>) {
        self.running.spawn(async move {
            // A panic is a fault of Flovyn. The batch is lost, and its callers see that their channels are closed.
            (batch, AssertUnwindSafe(runs).catch_unwind().await.unwrap_or_default())
        });
    }

    /// Wakes other pollers in place of one that has gone. It may have been woken for work, which another poller must
    /// then search for.
    fn pass_on(&mut self, claim: &Job) {
        let lanes = job::claim_of(&claim.request).map(|op| op.lanes(claim.request.tenant_id));
        let woken = self.shared.dispatch.take_one_of_each(&lanes.unwrap_or_default());
        self.requeue(woken);
    }

    async fn wait(&mut self, until: Option<Instant>) {
        let has_room = self.scheduler.has_room();
        // The branches are checked in a fixed order, so that a simulation with the same seed runs the same way.
        let happened = tokio::select! {
            biased;
            Some(Ok((batch, ended))) = self.running.join_next() => Some(Event::Ended(batch, ended)),
            job = self.jobs.recv(), if has_room && !self.closed => match job {
                Some(job) => Some(Event::Arrived(job)),
                None => {
                    self.closed = true;
                    Some(Event::Drained)
                }
            },
            () = ring(&mut self.alarm, until) => None,
            // No request has arrived for a while: free the memory that only speeds up requests.
            () = tokio::time::sleep(RESTS_AFTER), if self.shared.releases_at_rest && !self.shared.tails.is_empty() => {
                self.shared.tails.clear();
                None
            }
            () = stops(&mut self.stopped), if !self.jobs.is_closed() => {
                // Requests that are already in the channel are still carried out.
                self.jobs.close();
                Some(Event::Stopping)
            }
        };
        if let Some(event) = happened {
            self.note(event);
        }
    }

    /// Answers the waiting pollers with an empty claim, because there will be no more work.
    fn finish(&self) {
        for poller in self.shared.dispatch.drain() {
            drop(poller.asker.sender.send(Ok(Claimed::default())));
        }
    }
}

/// Completes at the given time; for `None`, never. The alarm is reset only if it would ring too late, because a reset
/// wakes a thread.
async fn ring(alarm: &mut Pin<Box<Sleep>>, until: Option<Instant>) {
    let Some(until) = until else { return std::future::pending().await };
    while Instant::now() < until {
        if alarm.is_elapsed() || alarm.deadline() > until {
            alarm.as_mut().reset(until);
        }
        alarm.as_mut().await;
    }
}

async fn stops(stopped: &mut watch::Receiver<bool>) {
    // The service owns the sender. If the sender is dropped, no more requests can arrive.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// The number of turns that the loop stays awake for a first step. Zero if the runtime has several threads, because
/// yielding would keep waking them, or if there is no second processor on which the worker can run.
pub(crate) fn stays_awake_for() -> usize {
    let alone = Handle::current().metrics().num_workers() == 1;
    let is_worth_it = alone && available_parallelism().is_ok_and(|cores| cores.get() > 1);
    if is_worth_it { AWAKE_FOR } else { 0 }
}
