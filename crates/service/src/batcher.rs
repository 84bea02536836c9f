//! The batch loop: collects what waits, decides it as one transaction, answers when it is durable.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use flovyn_engine::planted::{Bug, planted};
use flovyn_engine::{Code, Decided, Refusal, Reply};
use flovyn_store::{StoreError, TransactOptions};
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use crate::answer::Committed;
use crate::backlog::Backlog;
use crate::dispatch::Poller;
use crate::driver::{Driver, Summary};
use crate::job::{self, Job};
use crate::pace::Pace;
use crate::provisional::{self, Provisional};
use crate::service::{QUEUE, Shared};
use crate::stats::Stats;

/// A batch is closed at any of these, or when it has as many requests as its pace allows.
const MAX_BYTES: usize = 4 << 20;
const MAX_ROWS: usize = 5_000;
/// A batch from which on those it answered are given turns to ask again before the next one begins, and how many.
pub(crate) const MANY: usize = 8;
const MAX_TURNS: usize = 8;
/// With so many waiting there is nothing to gain: while this batch is committed, the others get their turn, and the
/// one before is answered.
const ENOUGH: usize = 64;
/// After so long without a request, memory that only makes the next one faster is given up.
const RESTS_AFTER: Duration = Duration::from_secs(2);
/// For how many turns a thread stays awake for the first step of what has been handed over: with nothing else to do some
/// 0.3 ms. Counted, since a clock may stand still.
const AWAKE_FOR: usize = 300;
/// After so many misses a request goes alone and waits for its rows.
const MAX_MISSES: u32 = 5;
/// How long after a claim could not be given back this is tried again.
const GIVE_BACK_AGAIN: Duration = Duration::from_millis(100);
/// How often a lone request is decided again when another writer is faster.
const MAX_CONFLICTS: u32 = 8;

pub(crate) struct Batcher {
    shared: Arc<Shared>,
    jobs: mpsc::Receiver<Job>,
    /// Requests put off by the last batch, then what did not fit into it.
    backlog: Backlog,
    pace: Pace,
    provisional: Provisional,
    stopped: watch::Receiver<bool>,
    /// Requests in the last batch.
    last_batch: usize,
    /// Turns for which it stays awake for a first step.
    awake_for: usize,
}

impl Batcher {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: mpsc::Receiver<Job>,
        stopped: watch::Receiver<bool>,
        patience: Duration,
    ) -> Self {
        Self {
            shared,
            jobs,
            backlog: Backlog::default(),
            pace: Pace::default(),
            provisional: Provisional::new(patience),
            stopped,
            last_batch: 0,
            awake_for: if alone_on_its_runtime() { AWAKE_FOR } else { 0 },
        }
    }

    /// Runs until the service stops, then finishes what was accepted before.
    pub(crate) async fn run(mut self) {
        let mut waiting = JoinSet::new();
        let mut unanswered: Option<(Vec<Job>, Committed)> = None;
        loop {
            self.receive();
            if self.backlog.len() < ENOUGH
                && let Some((mut jobs, mut committed)) = unanswered.take()
            {
                let put_off = self.shared.hand_over(&mut jobs, &mut committed);
                self.put_off(put_off);
                if jobs.len() < MANY {
                    // Work and results are on their way before this thread turns to those who only wait to be told.
                    tokio::task::yield_now().await;
                }
                let put_off = self.shared.answer(jobs, committed);
                self.put_off(put_off);
                // Those who have been answered pass it on before the next batch may block this thread.
                tokio::task::yield_now().await;
            }
            let Some((mut batch, mut wait)) = self.next_batch(&mut waiting).await else { break };
            if wait && self.provisional.is_waiting() {
                // Nothing that follows may overtake what a worker has been told of.
                self.put_off(std::mem::take(&mut batch));
                wait = false;
            }
            let may_tell = !wait && self.backlog.is_empty() && self.provisional.may_tell(&batch);
            self.provisional.join(&mut batch);
            self.last_batch = batch.len();
            if wait {
                // It waits for rows that others have locked: not a reason for everybody else to wait as well.
                waiting.spawn(self.shared.clone().run_batch(batch, wait));
                continue;
            }
            // The store gets its work first, and the last batch is answered meanwhile.
            let (shared, began) = (&self.shared, Instant::now());
            let answer =
                async { unanswered.take().map(|(jobs, committed)| shared.answer_all(jobs, committed)) };
            let (attempted, answered) = tokio::join!(biased; shared.attempt(&batch, wait, may_tell), answer);
            self.put_off(answered.unwrap_or_default());
            match attempted {
                Ok(Committed { decided, handed, takers: Some(takers), .. }) => {
                    let put_off = self.shared.hand_over_first(batch.len(), decided, handed);
                    self.put_off(put_off);
                    self.provisional.hold(batch, takers);
                    // It is on its way before this thread turns to its clock.
                    tokio::task::yield_now().await;
                }
                Ok(committed) => {
                    if committed.summary.rows > 0 {
                        self.pace.took(batch.len(), began.elapsed(), Instant::now());
                    }
                    unanswered = Some((batch, committed));
                }
                Err(failed) => {
                    let put_off = self.shared.clone().recover(batch, wait, failed).await;
                    self.put_off(put_off);
                }
            }
        }
        for poller in self.shared.dispatch.drain() {
            drop(poller.asker.sender.send(Ok(flovyn_engine::reply::Claimed::default())));
        }
    }

    /// Takes in what has arrived: whose turn it is can be told only of what is here.
    fn receive(&mut self) {
        while self.backlog.len() < QUEUE {
            let Ok(job) = self.jobs.try_recv() else { break };
            self.backlog.push_back(job);
        }
    }

    /// Waits for more to arrive. After a batch of many, those it answered are about to ask again: they get a
    /// turn first, as long as more keeps coming. No timer: nobody waits for requests that may never come.
    async fn collect(&mut self) {
        let mut turns = if self.last_batch < MANY { 0 } else { MAX_TURNS };
        loop {
            let before = self.backlog.len();
            self.receive();
            let enough = self.backlog.len() >= ENOUGH;
            if turns == 0 || enough || (self.backlog.len() == before && turns < MAX_TURNS) {
                return;
            }
            turns -= 1;
            tokio::task::yield_now().await;
        }
    }

    /// A first step is near: a thread that slept would have to be woken for it, which takes longer than the step.
    async fn stay_awake(&mut self) {
        for _ in 0..self.awake_for {
            if !self.backlog.is_empty() || !self.provisional.may_still_come() {
                return;
            }
            tokio::task::yield_now().await;
            self.receive();
        }
    }

    /// Requests that have to wait go to the head of the next batch.
    fn put_off(&mut self, jobs: Vec<Job>) {
        let stops = self.jobs.is_closed();
        for job in jobs.into_iter().rev() {
            // A server that stops does not wait for its database: sessions that come back elsewhere say what they hold.
            if !(stops && job.gives_back() && job.misses > 0) {
                self.backlog.push_front(job);
            }
        }
    }

    /// Everything that waits, up to the limits, tenants in turn. `true`: alone, waiting for its rows.
    async fn next_batch(&mut self, waiting: &mut JoinSet<Vec<Job>>) -> Option<(Vec<Job>, bool)> {
        while let Some(Ok(jobs)) = waiting.try_join_next() {
            self.put_off(jobs);
        }
        self.stay_awake().await;
        while self.backlog.is_empty() {
            tokio::select! {
                biased;
                job = self.jobs.recv() => match job {
                    Some(job) => self.backlog.push_back(job),
                    None if self.provisional.is_waiting() => return Some((Vec::new(), false)),
                    None if waiting.is_empty() => return None,
                    None => self.put_off(waiting.join_next().await?.unwrap_or_default()),
                },
                Some(jobs) = waiting.join_next() => self.put_off(jobs.unwrap_or_default()),
                () = self.provisional.is_late() => return Some((Vec::new(), false)),
                // Nobody asks for anything: what was kept for those who do is given up.
                () = tokio::time::sleep(RESTS_AFTER), if !self.shared.tails.is_empty() => {
                    self.shared.tails.clear();
                }
                // Takes nothing new; what is in the channel already is still carried out.
                () = stops(&mut self.stopped), if !self.jobs.is_closed() => self.jobs.close(),
            }
        }
        self.collect().await;
        let (size, several) = (self.pace.size(Instant::now()), self.backlog.tenants() > 1);
        let (mut bytes, mut rows) = (0, 0);
        let mut batch: Vec<Job> = Vec::new();
        while let Some(job) = self.backlog.front() {
            if job.is_abandoned_claim() {
                let abandoned = self.backlog.pop_front();
                // It may have been woken for work that is there: somebody else shall look for it.
                let claim = abandoned.as_ref().and_then(|job| Some((job, job::claim_of(&job.request)?)));
                let lanes = claim.map(|(job, claim)| claim.lanes(job.request.tenant_id)).unwrap_or_default();
                for job in self.shared.dispatch.take_one_of_each(&lanes) {
                    self.backlog.push_front(job);
                }
                continue;
            }
            let alone = job.misses >= MAX_MISSES;
            bytes += job.request.bytes();
            rows += job.request.rows();
            let only_one_left = several && self.backlog.tenants() == 1;
            let max_requests = if only_one_left { size.filled_up_to } else { size.max_requests };
            let full = batch.len() >= max_requests || bytes > MAX_BYTES || rows > MAX_ROWS || alone;
            if full && !batch.is_empty() {
                break;
            }
            batch.extend(self.backlog.pop_front());
            if full {
                return Some((batch, alone));
            }
        }
        self.pace.asked(batch.iter().map(|job| job.request.tenant_id), Instant::now());
        // Claims go last: what the others make ready in this very batch is then theirs to take. Stable, so that
        // everything else keeps its order.
        batch.sort_by_key(|job| job::claim_of(&job.request).is_some());
        Some((batch, false))
    }
}

/// Whether this thread's staying awake wakes no other thread of the runtime over and over, and leaves a processor to whoever it
/// waits for.
fn alone_on_its_runtime() -> bool {
    Handle::current().metrics().num_workers() == 1
        && available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

async fn stops(stopped: &mut watch::Receiver<bool>) {
    // The sender lives in the service; when it is gone, nothing more can come.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// A batch of which nothing is known to be written.
struct Failed {
    error: StoreError,
    /// Gives back what may have been claimed for somebody who will not be told.
    give_back: Vec<Job>,
}

impl Shared {
    /// Decides and commits a batch, answers everybody, and returns the jobs that have to wait.
    fn run_batch(self: Arc<Self>, jobs: Vec<Job>, wait: bool) -> BoxFuture<'static, Vec<Job>> {
        Box::pin(async move {
            if jobs.is_empty() {
                return Vec::new();
            }
            match self.attempt(&jobs, wait, false).await {
                Ok(committed) => self.answer_all(jobs, committed),
                Err(failed) => self.recover(jobs, wait, failed).await,
            }
        })
    }

    async fn attempt(&self, jobs: &[Job], wait_for_locks: bool, may_tell: bool) -> Result<Committed, Failed> {
        let requests = jobs.iter().map(|job| job.request.clone()).collect();
        let watched = !self.watchers.is_empty();
        let driver = Driver::new(requests, self.limits.clone(), self.dispatch.clone(), watched, may_tell);
        let driver = Arc::new(Mutex::new(driver));
        let options = TransactOptions { batch_id: Uuid::new_v4(), wait_for_locks };
        let result = self.store.transact(driver.clone(), options).await;
        let mut driver = driver.lock().unwrap_or_else(PoisonError::into_inner);
        let takers = driver.take_takers();
        let (decided, handed, summary) = driver.take();
        drop(driver);
        match result {
            Ok(()) => {
                if takers.is_none() {
                    self.measure(&decided, &summary);
                }
                Ok(Committed { decided, handed, summary, takers })
            }
            Err(StoreError::Unavailable(_)) if planted(Bug::AcknowledgedBeforeCommit) => {
                Ok(Committed { decided, handed, summary, takers: None })
            }
            Err(error) => {
                // It may have been written all the same.
                self.dispatch.forget_empty();
                let give_back = match error {
                    StoreError::OutcomeUnknown(_) => give_back_all(jobs, &handed, &decided),
                    _ => Vec::new(),
                };
                for poller in handed {
                    self.dispatch.put_back(poller);
                }
                Err(Failed { error, give_back })
            }
        }
    }

    /// Only what is durable counts.
    fn measure(&self, decided: &[Decided], summary: &Summary) {
        self.meters.batch_requests.record(decided.len() as f64);
        if let Some(since) = summary.written_since {
            self.meters.commit.record(since.elapsed().as_secs_f64());
        }
        self.meters.count(&summary.notes);
    }

    /// A batch that was not written. A conflict is decided once more; then the batch is halved until the guilty
    /// request stands alone. Only what is known not to be written is tried again.
    async fn recover(self: Arc<Self>, mut jobs: Vec<Job>, wait: bool, failed: Failed) -> Vec<Job> {
        let Failed { mut error, mut give_back } = failed;
        let alone = jobs.len() == 1;
        for _ in 0..if alone { MAX_CONFLICTS } else { 1 } {
            let again = matches!(error, StoreError::OutcomeUnknown(_)) && planted(Bug::UnknownOutcomeRetried);
            if !matches!(error, StoreError::Conflict(_)) && !again {
                break;
            }
            Stats::add(&self.stats.conflicts, 1);
            match self.attempt(&jobs, wait || alone, false).await {
                Ok(committed) => return self.answer_all(jobs, committed),
                Err(next) => (error, give_back) = (next.error, next.give_back),
            }
        }
        if !alone && matches!(error, StoreError::Conflict(_) | StoreError::Refused(_)) {
            Stats::add(&self.stats.bisections, 1);
            let second = jobs.split_off(jobs.len() / 2);
            let mut put_off = self.clone().run_batch(jobs, wait).await;
            put_off.extend(self.run_batch(second, wait).await);
            return put_off;
        }
        if let StoreError::Fatal(what) = &error {
            self.fail_for_good(what);
        }
        let lost = matches!(error, StoreError::Fatal(_) | StoreError::Refused(_));
        let (undone, jobs): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| !lost && job.gives_back());
        refuse_all(jobs, &error);
        if !undone.is_empty() {
            // Nobody else will: as long as its session lives, what was claimed for nobody would stay claimed.
            tokio::time::sleep(GIVE_BACK_AGAIN).await;
            give_back.extend(undone.into_iter().map(|job| Job { misses: job.misses + 1, ..job }));
        }
        give_back
    }

    fn fail_for_good(&self, what: &str) {
        if !self.failed.swap(true, Ordering::SeqCst) {
            tracing::error!(what, "storage has failed for good; this process must stop");
            (self.on_fatal)(what);
        }
    }
}

/// Claims of a batch that may have been written, for workers who will not hear of them: a session would keep them alive by
/// its heartbeats. If nothing was written, giving back is refused and changes nothing.
fn give_back_all(jobs: &[Job], handed: &[Poller], decided: &[Decided]) -> Vec<Job> {
    let requests = jobs.iter().map(|job| &job.request).chain(handed.iter().map(|poller| &poller.request));
    let claims = requests.zip(decided).filter_map(|(request, decided)| match decided {
        Decided::Reply(Reply::Claimed(claimed)) => Some(job::give_back(request.tenant_id, claimed)),
        Decided::Reply(Reply::Started(started)) => Some(provisional::give_back(request, started)),
        _ => None,
    });
    claims.flatten().collect()
}

fn refuse_all(jobs: Vec<Job>, error: &StoreError) {
    let code = match error {
        StoreError::Conflict(_) => Code::CommitConflict,
        StoreError::Refused(_) => Code::StoreRefused,
        StoreError::Unavailable(_) | StoreError::Fatal(_) => Code::StoreUnavailable,
        StoreError::OutcomeUnknown(_) => Code::OutcomeUnknown,
    };
    // What the database says may name hosts, files and rows of others: it goes to the log, not to callers.
    tracing::warn!(%error, requests = jobs.len(), "requests refused");
    for job in jobs {
        job.refuse(Refusal::new(code, code.advice()));
    }
}
