//! The handle that transports use: `call` for requests, `poll` for claims, `report` for reports that may be lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use flovyn_engine::ids::{TaskId, TenantId, WorkerId};
use flovyn_engine::reply::Claimed;
use flovyn_engine::request::{Claim, Op};
use flovyn_engine::state::Lane;
use flovyn_engine::{Code, Ids, Limits, Refusal, Reply, Request};
use flovyn_store::{Store, StoreResult};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::batcher::{Batcher, stays_awake_for};
use crate::caller::Caller;
use crate::chatter::Chatter;
use crate::dispatch::Dispatch;
use crate::follow::Followers;
use crate::job::{self, Asker, Job, PollAsker, PollWait};
use crate::loops;
use crate::loops::soon::Soon;
use crate::metrics::{Meters, SharedRecorder};
use crate::onlookers::Onlooker;
use crate::scheduler::{Elsewhere, InProcess, MAX_IN_FLIGHT, Policy, QUEUE, SideBySideFrom, Tricks};
use crate::stats::Stats;
use crate::tails::Tails;
use crate::watch::Watchers;

/// How often a poll whose time is over checks whether a batch still has its claim.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The number of cancellations that a slow listener may lag behind. Beyond this it misses some, and has to read the
/// database.
const CANCELS: usize = 4_096;

/// How a service runs.
pub struct Options {
    pub limits: Limits,
    /// Called once, when storage has failed permanently: the process must stop.
    pub on_fatal: Box<dyn Fn(&str) + Send + Sync>,
    /// Whether this process sends hints about ready work to other processes and listens to theirs. If false, only
    /// polling finds work that another process made ready.
    pub hints: bool,
    pub loops: loops::Options,
    /// The longest time that a start which was handed to a worker waits for its first step, if there is nothing else to
    /// write. Both are then written together.
    pub first_step_within: Duration,
    pub side_by_side: SideBySideFrom,
    /// Optimisations. All of them are on, except while their gain is measured.
    pub tricks: Tricks,
    /// Receives the metrics.
    pub recorder: SharedRecorder,
    /// Ids and jitter are derived from this number. It differs between processes, so that their ids do not collide.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            on_fatal: Box::new(|what| tracing::error!(what, "fatal storage error")),
            hints: true,
            loops: loops::Options::default(),
            first_step_within: Duration::from_millis(4),
            side_by_side: SideBySideFrom::default(),
            tricks: Tricks::default(),
            recorder: Arc::new(metrics::NoopRecorder),
            seed: uuid::Uuid::new_v4().as_u64_pair().0,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("limits", &self.limits)
            .field("loops", &self.loops)
            .finish_non_exhaustive()
    }
}

/// The state that the batch loop, the background loops and the callers share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) dispatch: Dispatch,
    pub(crate) stats: Stats,
    pub(crate) meters: Meters,
    pub(crate) soon: Soon,
    pub(crate) hints: bool,
    pub(crate) watchers: Watchers,
    pub(crate) followers: Followers,
    pub(crate) tails: Tails,
    /// Whether an idle process frees memory that only makes the next request faster.
    pub(crate) releases_at_rest: bool,
    batches_at_once: usize,
    pub(crate) cancels: broadcast::Sender<TaskCancel>,
    pub(crate) failed: AtomicBool,
    pub(crate) on_fatal: Box<dyn Fn(&str) + Send + Sync>,
    seeds: AtomicU64,
}

impl Shared {
    pub(crate) fn seed(&self) -> u64 {
        self.seeds.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
    }
}

/// A claimed task whose worker should stop: cancellation was requested, or the claim has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCancel {
    pub tenant_id: TenantId,
    pub task_id: TaskId,
    pub token: i64,
    pub session: WorkerId,
}

/// A running service. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    chatter: Chatter,
    shutdown: watch::Sender<bool>,
    tasks: Arc<tokio::sync::Mutex<Vec<JoinHandle<()>>>>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("figures", &self.shared.stats.figures()).finish_non_exhaustive()
    }
}

impl Service {
    /// Starts the batch loop and the background loops on the current runtime.
    pub fn start(store: Arc<dyn Store>, options: Options) -> Self {
        let (jobs, receiver) = mpsc::channel(QUEUE);
        let is_shared = store.is_shared();
        let overlaps = store.overlaps_batches() && (is_shared || options.tricks.overlapping_writes);
        let (shutdown, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            dispatch: Dispatch::new(!is_shared && options.tricks.known_empty_lanes),
            releases_at_rest: options.tricks.release_at_rest,
            batches_at_once: if overlaps { MAX_IN_FLIGHT } else { 1 },
            store,
            limits: Arc::new(options.limits),
            stats: Stats::default(),
            meters: Meters::new(&options.recorder),
            soon: Soon::default(),
            hints: options.hints,
            watchers: Watchers::default(),
            followers: Followers::default(),
            tails: Tails::default(),
            cancels: broadcast::channel(CANCELS).0,
            failed: AtomicBool::new(false),
            on_fatal: options.on_fatal,
            seeds: AtomicU64::new(options.seed),
        });
        let service = Self {
            shared: shared.clone(),
            jobs,
            chatter: Chatter::default(),
            shutdown,
            tasks: Arc::default(),
        };
        let mut tasks = loops::start(&service, &options.loops, &stopped);
        let from = overlaps.then_some(options.side_by_side);
        let (first_step_within, tricks) = (options.first_step_within, options.tricks);
        let policy: Box<dyn Policy> = match is_shared {
            true => Box::new(Elsewhere { from, tricks }),
            false => {
                let stays_awake_for = stays_awake_for();
                Box::new(InProcess { from, first_step_within, stays_awake_for, tricks })
            }
        };
        tasks.extend(stop_when_damaged(&shared, &stopped));
        tasks.push(tokio::spawn(Batcher::new(shared, receiver, stopped, policy).run()));
        *service.tasks.try_lock().expect("no other handle to the service exists yet") = tasks;
        service
    }

    /// The number of batches that may be in flight at a time.
    pub fn batches_at_once(&self) -> usize {
        self.shared.batches_at_once
    }

    /// Carries out one request. When this returns `Ok`, the effect is durable.
    ///
    /// # Errors
    /// Fails with the refusal of a rule, or if the queue is full, the service stops, or the database did not take the
    /// request.
    pub async fn call(&self, caller: impl Into<Caller>, op: impl Into<Op>) -> Result<Reply, Refusal> {
        let (sender, receiver) = oneshot::channel();
        let (caller, op) = (caller.into(), op.into());
        if let Op::FailTask(fail) = &op {
            // The last details of this attempt are written first, so that the next attempt finds them.
            self.chatter.release_heartbeat(self, caller.tenant_id, fail.task_id).await;
        }
        self.send(self.request(caller, op), Asker::Call(sender))?;
        receiver.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Claims work. If there is none, waits for it up to `wait`, then returns an empty claim. Dropping the future ends
    /// the wait and releases work that was claimed for it meanwhile.
    pub async fn poll(
        &self,
        caller: impl Into<Caller>,
        claim: Claim,
        wait: Duration,
    ) -> Result<Claimed, Refusal> {
        self.poll_until(caller, claim, wait, std::future::pending()).await
    }

    /// Like [`Self::poll`], but also ends the wait when `cut` completes. A claim that a batch has at that moment is
    /// still answered.
    pub async fn poll_until(
        &self,
        caller: impl Into<Caller>,
        claim: Claim,
        wait: Duration,
        cut: impl Future<Output = ()>,
    ) -> Result<Claimed, Refusal> {
        let caller = caller.into();
        let tenant_id = caller.tenant_id;
        let (sender, receiver) = oneshot::channel();
        let (until, wait) = (Instant::now() + wait, Arc::new(PollWait::default()));
        let asker = PollAsker { sender, until, wait: wait.clone() };
        self.refuse_if_stopping()?;
        let request = self.request(caller, Op::Claim(claim));
        request.op.check(&self.shared.limits)?;
        if let Err((request, asker)) = self.shared.dispatch.park_at_once(Arc::new(request), asker) {
            self.send_job(Job { request, asker: Asker::Poll(asker), misses: 0 })?;
        }
        let mut handed = Handed { service: self, tenant_id, receiver };
        tokio::select! {
            biased;
            result = &mut handed.receiver => return result.unwrap_or_else(|_| Err(stopping())),
            () = tokio::time::sleep_until(until) => {}
            () = cut => {}
        }
        wait.cut.store(true, Ordering::SeqCst);
        while !wait.parked.load(Ordering::SeqCst) {
            // The claim is in a batch and will be answered soon, or the poller is just being parked. Neither is a wait
            // for work, so the wait cannot be ended yet.
            let answered = tokio::time::timeout(LOOK_AGAIN, &mut handed.receiver);
            if let Ok(result) = answered.await {
                return result.unwrap_or_else(|_| Err(stopping()));
            }
        }
        // The closed channel takes no more work. Work that was sent just before is still returned.
        handed.receiver.close();
        handed.receiver.try_recv().unwrap_or_else(|_| Ok(Claimed::default()))
    }

    /// Returns an onlooker that is notified of ready work in these lanes if no poller takes it.
    pub fn look_on(&self, lanes: Vec<Lane>) -> Onlooker {
        self.shared.dispatch.look_on(lanes)
    }

    /// Whether at least one of these lanes has ready work.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub async fn has_work(&self, lanes: Vec<Lane>) -> StoreResult<bool> {
        Ok(!loops::wake::with_work(self, lanes).await?.is_empty())
    }

    /// Accepts a report that may be lost in a crash (progress, a log line). It is written soon after, by the report
    /// loop.
    ///
    /// # Errors
    /// Fails if the report itself is invalid. Whether its task exists is checked only when it is written.
    pub fn report(&self, caller: impl Into<Caller>, op: impl Into<Op>) -> Result<(), Refusal> {
        let op = op.into();
        op.check(&self.shared.limits)?;
        if !self.chatter.add(self.request(caller, op)) {
            Stats::add(&self.shared.stats.dropped_reports, 1);
        }
        Ok(())
    }

    /// Releases work that was claimed and could not be delivered. The attempt does not count.
    pub fn release_claims(&self, tenant_id: TenantId, claimed: &Claimed) {
        Stats::add(&self.shared.stats.given_back, claimed.len());
        for job in job::releases(tenant_id, claimed) {
            // If the queue is full, the release is dropped: the work becomes ready again when its lease expires.
            let _ = self.resend(job);
        }
    }

    /// Accepts a task's heartbeat, and returns whether the task should stop. If the last written heartbeat is recent,
    /// this one is answered from memory.
    ///
    /// # Errors
    /// Fails as [`Self::call`] does.
    pub async fn heartbeat(
        &self,
        caller: impl Into<Caller>,
        heartbeat: flovyn_engine::request::HeartbeatTask,
    ) -> Result<bool, Refusal> {
        self.chatter.heartbeat(self, caller.into(), heartbeat).await
    }

    /// Notes a sign of life of a worker of the public protocol: a poll or a report. It is written only if the last
    /// written one is not recent.
    pub fn see_worker(&self, tenant_id: TenantId, worker_id: WorkerId) {
        self.chatter.see(self, tenant_id, worker_id);
    }

    /// Notes a worker's sign of life that has just been written, so that the next one is not written too early.
    pub fn worker_was_seen(&self, tenant_id: TenantId, worker_id: WorkerId) {
        self.chatter.notes_sign(self, tenant_id, worker_id);
    }

    /// Subscribes to the tasks whose workers should stop. It receives those that batches of this process change.
    pub fn cancels(&self) -> broadcast::Receiver<TaskCancel> {
        self.shared.cancels.subscribe()
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Whether storage has failed permanently. The service then accepts no more requests.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }

    /// The number of waiting pollers.
    pub fn pollers(&self) -> usize {
        self.shared.dispatch.len()
    }

    /// Makes the due loop read the clock again, because the clock was moved.
    pub fn clock_moved(&self) {
        self.shared.soon.wake();
    }

    /// Stops the loops, carries out the requests that were accepted, and ends the waiting polls.
    pub async fn stop(&self) {
        self.chatter.flush(self);
        let _ = self.shutdown.send(true);
        for task in self.tasks.lock().await.drain(..) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a background loop failed");
            }
        }
    }

    /// Ends all tasks immediately and finishes nothing, as a crash of the process would. For simulations.
    pub fn abort(&self) {
        // Only `stop` holds this lock, and it waits for the same tasks.
        if let Ok(tasks) = self.tasks.try_lock() {
            tasks.iter().for_each(JoinHandle::abort);
        }
    }

    pub(crate) fn chatter(&self) -> &Chatter {
        &self.chatter
    }

    pub(crate) fn request(&self, caller: impl Into<Caller>, op: Op) -> Request {
        caller.into().request(self.seed(), op)
    }

    /// A random number in `0.0..1.0`, for jitter.
    pub(crate) fn fraction(&self) -> f64 {
        Ids::new(self.seed()).fraction()
    }

    fn seed(&self) -> u64 {
        self.shared.seed()
    }

    pub(crate) fn send(&self, request: Request, asker: Asker) -> Result<(), Refusal> {
        self.send_job(Job::new(request, asker))
    }

    fn send_job(&self, job: Job) -> Result<(), Refusal> {
        self.refuse_if_stopping()?;
        self.resend(job).map_err(|(_, refusal)| refusal)
    }

    fn refuse_if_stopping(&self) -> Result<(), Refusal> {
        let stops = self.shared.failed.load(Ordering::Relaxed) || *self.shutdown.borrow();
        if stops { Err(stopping()) } else { Ok(()) }
    }

    /// Puts a job into the batch loop's queue, or hands it back.
    pub(crate) fn resend(&self, job: Job) -> Result<(), (Box<Job>, Refusal)> {
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(job) => {
                let message = format!("{QUEUE} requests are waiting already");
                (Box::new(job), Refusal::new(Code::Overloaded, message))
            }
            mpsc::error::TrySendError::Closed(job) => (Box::new(job), stopping()),
        })
    }
}

/// The receiving end of a poll. If the poll is dropped before it has received its work, the work is released.
struct Handed<'a> {
    service: &'a Service,
    tenant_id: TenantId,
    receiver: oneshot::Receiver<Result<Claimed, Refusal>>,
}

impl Drop for Handed<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(Ok(claimed)) = self.receiver.try_recv() {
            self.service.release_claims(self.tenant_id, &claimed);
        }
    }
}

/// Stops the process if a read or the background check finds damage in the database file: no batch would notice that.
/// `None` if the store has no file to check.
fn stop_when_damaged(shared: &Arc<Shared>, stopped: &watch::Receiver<bool>) -> Option<JoinHandle<()>> {
    let health = shared.store.file_health()?;
    let (shared, mut stopped) = (Arc::clone(shared), stopped.clone());
    Some(tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => {}
            what = health.damaged() => shared.fail_for_good(&what),
        }
    }))
}

pub(crate) fn stopping() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the server is stopping")
}
