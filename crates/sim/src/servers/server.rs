//! Servers that die, freeze and restart, and the delivery of messages to and from them.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flovyn_engine::ids::TenantId;
use flovyn_engine::reply::Claimed;
use flovyn_engine::request::{Claim, Op};
use flovyn_engine::state::Lane;
use flovyn_engine::{Code, Limits, Refusal, Reply};
use flovyn_service::{Caller, Options, Service, SideBySideFrom, loops};
use flovyn_store::Hint;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::chaos::Fault;
use super::store::SimulatedStore;
use super::world::World;

/// How long a client or worker waits for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// How many hints a server may have unread.
const HINTS: usize = 1_000;

/// Shorter than in production, so that a run sees many leases and timeouts expire.
pub(super) fn limits() -> Limits {
    Limits {
        session_lease_ms: 4_000,
        workflow_lease_ms: 5_000,
        task_lease_ms: 6_000,
        cancel_grace_ms: 3_000,
        activation_backoff_ms: 200,
        activation_backoff_max_ms: 1_000,
        ..Limits::default()
    }
}

fn loop_options() -> loops::Options {
    loops::Options {
        poll: Duration::from_millis(500),
        key_cleanup: Duration::from_secs(10),
        orphans: Duration::from_secs(5),
        retention: Duration::from_secs(10),
        reports: Duration::from_secs(1),
        ..loops::Options::default()
    }
}

/// One life of a server process.
pub(super) struct Machine {
    pub(super) name: String,
    slot: usize,
    skew_ms: AtomicI64,
    /// Until when it is frozen.
    paused_until: Mutex<Option<Instant>>,
    dead: AtomicBool,
    /// Wakes waiting tasks in order of arrival: a `watch` would wake them in random order.
    died: Notify,
    deaths: mpsc::UnboundedSender<usize>,
    board: Arc<Board>,
}

/// Distributes hints to the servers.
#[derive(Default)]
struct Board(Mutex<Vec<Option<mpsc::Sender<Hint>>>>);

impl Board {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<mpsc::Sender<Hint>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Machine {
    /// Waits until the server is not frozen. Never returns for a dead server.
    pub(super) async fn running(&self) {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        loop {
            let until = *self.paused_until();
            match until {
                Some(until) if until > Instant::now() => tokio::time::sleep_until(until).await,
                _ => return,
            }
        }
    }

    pub(super) fn pause(&self, ms: usize) {
        *self.paused_until() = Some(Instant::now() + Duration::from_millis(ms as u64));
    }

    fn paused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn die(&self) {
        if !self.dead.swap(true, Ordering::SeqCst) {
            self.died.notify_waiters();
            // The run may have ended.
            let _ = self.deaths.send(self.slot);
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    async fn died(&self) {
        let died = self.died.notified();
        if !self.dead.load(Ordering::SeqCst) {
            died.await;
        }
    }

    pub(super) fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::SeqCst)
    }

    pub(super) fn hints(&self) -> Option<mpsc::Receiver<Hint>> {
        let (sender, receiver) = mpsc::channel(HINTS);
        self.board.lock()[self.slot] = Some(sender);
        Some(receiver)
    }

    pub(super) fn send_hints(&self, world: &World, lanes: &[Lane]) {
        for (slot, sender) in self.board.lock().iter().enumerate() {
            let Some(sender) = sender.as_ref().filter(|_| slot != self.slot) else { continue };
            for lane in lanes {
                let hint = Hint { tenant_id: lane.tenant_id, class: lane.class, queue: lane.queue.clone() };
                let name = || format!("from {} to server {slot}", self.name);
                if !world.strikes(Fault::LostHint, name) {
                    // The channel may be full: hints may be lost.
                    let _ = sender.try_send(hint);
                }
            }
        }
    }
}

struct Slot {
    machine: Arc<Machine>,
    service: Service,
}

/// All servers on one database.
pub(super) struct Cluster {
    pub(super) world: Arc<World>,
    slots: Mutex<Vec<Option<Slot>>>,
    board: Arc<Board>,
    deaths: mpsc::UnboundedSender<usize>,
}

/// The outcome of a request, as its sender knows it.
pub(super) enum Answer {
    Reply(Reply),
    Refused(Refusal),
    /// No answer arrived.
    None,
}

impl Cluster {
    /// Starts the servers, and restarts them when they die.
    pub(super) fn start(world: Arc<World>, servers: usize) -> Arc<Self> {
        let (deaths, mut died) = mpsc::unbounded_channel();
        let board = Arc::new(Board::default());
        board.lock().resize(servers, None);
        let slots = Mutex::new((0..servers).map(|_| None).collect());
        let cluster = Arc::new(Self { world, slots, board, deaths });
        for slot in 0..servers {
            cluster.boot(slot);
        }
        let keeper = cluster.clone();
        tokio::spawn(async move {
            while let Some(slot) = died.recv().await {
                keeper.bury(slot);
                let keeper = keeper.clone();
                tokio::spawn(async move {
                    keeper.world.sleep(50 + keeper.world.below(3_000)).await;
                    keeper.boot(slot);
                });
            }
        });
        cluster
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn boot(&self, slot: usize) {
        let world = &self.world;
        let name = format!("server {slot}");
        let skewed = world.strikes(Fault::ClockSkew, || name.clone());
        let skew_ms = if skewed { world.below(10_000) as i64 - 5_000 } else { 0 };
        let machine = Arc::new(Machine {
            name,
            slot,
            skew_ms: AtomicI64::new(skew_ms),
            paused_until: Mutex::new(None),
            dead: AtomicBool::new(false),
            died: Notify::new(),
            deaths: self.deaths.clone(),
            board: self.board.clone(),
        });
        let store =
            SimulatedStore { inner: world.memory.clone(), world: world.clone(), machine: machine.clone() };
        let options = Options {
            limits: limits(),
            loops: loop_options(),
            seed: world.lock().rng.draw(),
            // Small limits, because there are never many requests.
            side_by_side: SideBySideFrom { beside_requests: 1, second_requests: 1, many_rows: usize::MAX },
            ..Options::default()
        };
        world.say(|| format!("server {slot} starts, {skew_ms} ms off"));
        let service = Service::start(Arc::new(store), options);
        self.lock()[slot] = Some(Slot { machine, service });
    }

    fn bury(&self, slot: usize) {
        self.board.lock()[slot] = None;
        if let Some(slot) = self.lock()[slot].take() {
            self.end(&slot);
        }
    }

    fn end(&self, slot: &Slot) {
        let second_batches = slot.service.stats().figures().second_batches;
        self.world.lock().figures.second_batches += usize::try_from(second_batches).unwrap_or_default();
        slot.service.abort();
    }

    /// Ends the faults of servers: frozen servers continue, and all clocks are right.
    pub(super) fn heal(&self) {
        for slot in self.lock().iter().flatten() {
            *slot.machine.paused_until() = None;
            slot.machine.skew_ms.store(0, Ordering::SeqCst);
        }
    }

    /// Ends the run.
    pub(super) fn stop(&self) {
        for slot in self.lock().iter().flatten() {
            self.end(slot);
        }
    }

    fn any_server(&self) -> Option<(Arc<Machine>, Service)> {
        let slots = self.lock();
        let alive: Vec<&Slot> = slots.iter().flatten().collect();
        let chosen = alive.get(self.world.below(alive.len()))?;
        Some((chosen.machine.clone(), chosen.service.clone()))
    }

    /// Sends a request to one of the servers. `None`: no answer arrived, and the outcome is unknown.
    pub(super) async fn exchange<T>(&self, ask: impl AsyncFnOnce(Service) -> T) -> Option<T> {
        self.world.travel().await;
        let (machine, service) = self.any_server()?;
        self.ask(&machine, service, ask).await
    }

    async fn ask<T>(
        &self,
        machine: &Machine,
        service: Service,
        ask: impl AsyncFnOnce(Service) -> T,
    ) -> Option<T> {
        let lost = self.world.strikes(Fault::LostReply, || format!("of {}", machine.name));
        let patience = if lost { Duration::from_millis(self.world.below(40) as u64) } else { PATIENCE };
        let asked = async {
            machine.running().await;
            let answer = ask(service).await;
            machine.running().await;
            answer
        };
        let answer = tokio::select! {
            biased;
            () = machine.died() => None,
            answer = tokio::time::timeout(patience, asked) => answer.ok(),
        };
        self.world.travel().await;
        answer.filter(|_| !lost)
    }

    /// Sends a request. If it is repeatable, it is sometimes sent twice.
    pub(super) async fn call(self: &Arc<Self>, by: impl Into<By>, op: Op, repeatable: bool) -> Answer {
        let by = by.into();
        // Attempts often fail with equal content: without a token, a repeated failure counts for the next attempt.
        let repeatable = repeatable && !(by.without_tokens && matches!(op, Op::FailTask(_)));
        if repeatable && self.world.strikes(Fault::Duplicate, || op.name().to_owned()) {
            let (cluster, by, op) = (self.clone(), by.clone(), op.clone());
            tokio::spawn(async move {
                cluster.world.sleep(cluster.world.below(6_000)).await;
                cluster.send(by, op).await;
            });
        }
        self.send(by, op).await
    }

    async fn send(&self, by: By, op: Op) -> Answer {
        let tenant = by.caller.tenant_id;
        super::record::sent(&self.world, tenant, &op);
        let name = op.name();
        let asked = if by.without_tokens { without_token(op.clone()) } else { op.clone() };
        let caller = by.caller.clone();
        let answer = self.exchange(async move |service| service.call(caller, asked).await).await;
        match answer {
            None => {
                self.world.say(|| format!("{name}: no answer"));
                Answer::None
            }
            Some(Ok(reply)) => {
                super::record::acknowledged(&self.world, &by, &op, &reply);
                Answer::Reply(reply)
            }
            Some(Err(refusal)) => {
                self.world.say(|| format!("{name}: {refusal}"));
                if refusal.code == Code::Internal {
                    self.world.violated("internal error", refusal.to_string());
                }
                Answer::Refused(refusal)
            }
        }
    }

    /// Waits for work. `None`: no answer arrived, and claims that were made are lost. The server that was asked is
    /// added to the servers that the worker has a connection to.
    pub(super) async fn poll(
        &self,
        caller: Caller,
        claim: Claim,
        connections: &mut Vec<Arc<Machine>>,
    ) -> Option<Claimed> {
        let wait = Duration::from_millis(500 + self.world.below(3_000) as u64);
        self.world.travel().await;
        let (machine, service) = self.any_server()?;
        if !connections.iter().any(|known| Arc::ptr_eq(known, &machine)) {
            connections.push(machine.clone());
        }
        let poll = async move |service: Service| service.poll(caller, claim, wait).await;
        let answer = self.ask(&machine, service, poll).await;
        match answer? {
            Ok(claimed) => Some(claimed),
            // The claim may have been written, and no worker will ever receive it.
            Err(refusal) => is_definite(refusal.code).then(Claimed::default),
        }
    }
}

/// The sender of a request.
#[derive(Clone)]
pub(super) struct By {
    pub(super) caller: Caller,
    /// A client of the public protocol. Its reports are sent without the token; only the record keeps it.
    pub(super) without_tokens: bool,
}

impl From<TenantId> for By {
    fn from(tenant_id: TenantId) -> Self {
        Self { caller: tenant_id.into(), without_tokens: false }
    }
}

fn without_token(mut op: Op) -> Op {
    match &mut op {
        Op::SubmitActivation(op) => (op.token, op.base_sequence) = (None, None),
        Op::CompleteTask(op) => op.token = None,
        Op::FailTask(op) => op.token = None,
        _ => {}
    }
    op
}

/// Refusals after which the request may be sent again.
pub(super) fn may_try_again(code: Code) -> bool {
    matches!(
        code,
        Code::CommitConflict
            | Code::Overloaded
            | Code::ShuttingDown
            | Code::StoreUnavailable
            | Code::OutcomeUnknown
    )
}

/// Whether the refusal guarantees that nothing was written.
pub(super) fn is_definite(code: Code) -> bool {
    !matches!(code, Code::OutcomeUnknown)
}
