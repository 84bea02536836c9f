//! The batch loop: collects what waits into batches and has them run. What a batch comes to is in `transaction.rs`.

use std::sync::Arc;
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::answer::Committed;
use crate::backlog::{Backlog, Waiting};
use crate::job::{self, Job};
use crate::pace::Pace;
use crate::provisional::Provisional;
use crate::service::{QUEUE, Shared};
use crate::side_by_side::SideBySide;
use crate::stats::Stats;
use crate::transaction::{GIVE_BACK_AGAIN, Ran, Then};
use crate::turns::Turns;

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

pub(crate) struct Batcher {
    shared: Arc<Shared>,
    jobs: mpsc::Receiver<Job>,
    /// Requests put off by the last batch, then what did not fit into it.
    backlog: Backlog,
    pace: Pace,
    provisional: Provisional,
    side_by_side: SideBySide,
    /// Batches that run beside this loop, and whether another one was under way when each began.
    beside: JoinSet<(Ran, bool)>,
    /// Ends when the last of those has been answered. Only where batches are decided one after the other: there, they are answered
    /// in that order too.
    last_beside: Option<oneshot::Receiver<()>>,
    /// Requests that wait for their rows, each alone, or for their time.
    alone: JoinSet<Ran>,
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
        side_by_side: SideBySide,
    ) -> Self {
        Self {
            shared,
            jobs,
            backlog: Backlog::default(),
            pace: Pace::default(),
            provisional: Provisional::new(patience),
            side_by_side,
            beside: JoinSet::new(),
            last_beside: None,
            alone: JoinSet::new(),
            stopped,
            last_batch: 0,
            awake_for: if alone_on_its_runtime() { AWAKE_FOR } else { 0 },
        }
    }

    /// Runs until the service stops, then finishes what was accepted before.
    pub(crate) async fn run(mut self) {
        let mut unanswered: Option<(Vec<Job>, Committed)> = None;
        loop {
            self.receive();
            if (self.backlog.len() < ENOUGH || !self.beside.is_empty())
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
            let Some((mut batch, mut wait)) = self.next_batch().await else { break };
            if wait && self.provisional.is_waiting() {
                // Nothing that follows may overtake what a worker has been told of.
                self.put_off(std::mem::take(&mut batch));
                wait = false;
            }
            let may_tell = !wait && self.backlog.is_empty() && self.provisional.may_tell(&batch);
            let then = if may_tell { Then::Told } else { Then::Answered };
            let told = self.provisional.is_waiting();
            self.provisional.join(&mut batch);
            self.last_batch = batch.len();
            self.side_by_side.begins(self.beside.len());
            if wait {
                // It waits for rows that others have locked: not a reason for everybody else to wait as well.
                self.alone.spawn(self.shared.clone().run_batch(batch, wait, None));
                continue;
            }
            // Nor may it run beside others: the first step of what a worker has been told of must find it.
            if !told && self.runs_beside(&batch) {
                self.run_beside(batch).await;
                let answered =
                    unanswered.take().map(|(jobs, committed)| self.shared.answer_all(jobs, committed));
                self.put_off(answered.unwrap_or_default());
                continue;
            }
            while self.side_by_side.in_process()
                && let Some(ran) = self.beside.join_next().await
            {
                // What is decided after it is answered after it.
                self.ran_beside(ran);
            }
            // The store gets its work first, and the last batch is answered meanwhile.
            let (shared, began) = (&self.shared, Instant::now());
            let answer =
                async { unanswered.take().map(|(jobs, committed)| shared.answer_all(jobs, committed)) };
            let (attempted, answered) = tokio::join!(biased; shared.transact(&batch, wait, then), answer);
            self.put_off(answered.unwrap_or_default());
            match attempted {
                Ok(Committed { decided, handed, takers: Some(takers), under_way, .. }) => {
                    let put_off = self.shared.hand_over_first(batch.len(), decided, handed, &under_way);
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
                    let ran = self.shared.clone().recover(batch, wait, failed).await;
                    self.go_on(ran);
                }
            }
        }
        for poller in self.shared.dispatch.drain() {
            drop(poller.asker.sender.send(Ok(flovyn_engine::reply::Claimed::default())));
        }
    }

    /// Whether another batch may begin with what waits.
    fn may_begin(&self) -> bool {
        let now = Instant::now();
        (self.beside.is_empty() || self.overlaps(now))
            && self.side_by_side.may_begin(self.beside.len(), self.backlog.waiting(), now)
    }

    fn runs_beside(&self, batch: &[Job]) -> bool {
        let (size, left) = (Waiting::of(batch.iter()), self.backlog.waiting());
        self.overlaps(Instant::now()) && self.side_by_side.runs_beside(size, self.beside.len(), left)
    }

    /// Where batches are written one after the other anyway, nobody shall wait for two of another tenant's.
    fn overlaps(&self, now: Instant) -> bool {
        !(self.side_by_side.in_process() && self.pace.is_shared(now))
    }

    async fn run_beside(&mut self, batch: Vec<Job>) {
        let is_second = !self.beside.is_empty();
        Stats::add(&self.shared.stats.second_batches, usize::from(is_second));
        if !self.side_by_side.in_process() {
            let runs = self.shared.clone().run_batch(batch, false, None);
            self.beside.spawn(async move { (runs.await, is_second) });
            return;
        }
        let (answered, is_answered) = oneshot::channel();
        let before = self.last_beside.replace(is_answered);
        let runs = self.shared.clone().run_batch(batch, false, before);
        let mut runs: BoxFuture<'static, (Ran, bool)> = Box::pin(async move {
            let ran = runs.await;
            drop(answered);
            (ran, is_second)
        });
        // Now, so that its place in the store's line is before that of the next one.
        match futures::poll!(&mut runs) {
            Poll::Ready(ran) => self.ran_beside(Ok(ran)),
            Poll::Pending => drop(self.beside.spawn(runs)),
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
        // With another batch under way, those who were answered have had their time.
        let mut turns = if self.last_batch < MANY || !self.beside.is_empty() { 0 } else { MAX_TURNS };
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

    /// A batch that ran beside this loop has been answered. After a panic, a fault of ours, there is nothing to go on with.
    fn ran_beside(&mut self, ran: Result<(Ran, bool), JoinError>) {
        let Ok((ran, is_second)) = ran else { return };
        let now = Instant::now();
        match (is_second, ran.wrote_within) {
            _ if ran.requests == 0 => {}
            (true, _) => self.side_by_side.second_ended(ran.requests, ran.in_vain, now),
            // Of one that shared the database with another this would say little.
            (false, Some(took)) => self.pace.took(ran.requests, took, now),
            (false, None) => {}
        }
        self.go_on(ran);
    }

    fn ran_alone(&mut self, ran: Result<Ran, JoinError>) {
        self.go_on(ran.unwrap_or_default());
    }

    /// With what a batch has left over.
    fn go_on(&mut self, ran: Ran) {
        self.put_off(ran.put_off);
        if !ran.later.is_empty() {
            self.alone.spawn(async move {
                tokio::time::sleep(GIVE_BACK_AGAIN).await;
                Ran { put_off: ran.later, ..Ran::default() }
            });
        }
    }

    /// Everything that waits, up to the limits, tenants in turn. `true`: alone, waiting for its rows.
    async fn next_batch(&mut self) -> Option<(Vec<Job>, bool)> {
        while let Some(ran) = self.alone.try_join_next() {
            self.ran_alone(ran);
        }
        while let Some(ran) = self.beside.try_join_next() {
            self.ran_beside(ran);
        }
        self.stay_awake().await;
        while !self.may_begin() {
            tokio::select! {
                biased;
                Some(ran) = self.beside.join_next() => self.ran_beside(ran),
                job = self.jobs.recv(), if self.backlog.len() < QUEUE => match job {
                    Some(job) => {
                        self.backlog.push_back(job);
                        self.receive();
                    }
                    None if self.provisional.is_waiting() => return Some((Vec::new(), false)),
                    None if !self.beside.is_empty() => {
                        let ran = self.beside.join_next().await?;
                        self.ran_beside(ran);
                    }
                    None => {
                        // Nothing: all is done.
                        let ran = self.alone.join_next().await?;
                        self.ran_alone(ran);
                    }
                },
                Some(ran) = self.alone.join_next() => self.ran_alone(ran),
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
        let (mut turns, mut next_time) = (Turns::default(), Vec::new());
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
            if self.side_by_side.in_process() && !turns.has(job) {
                next_time.extend(self.backlog.pop_front());
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
                self.put_off(next_time);
                return Some((batch, alone));
            }
        }
        self.put_off(next_time);
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
