//! Several servers with their loops, workers and clients on one database, in virtual time, with faults, from one seed.
//!
//! The servers are the real service and engine. The rest is simulated: the database's answers, the delivery of
//! messages, workers and clients. Everything runs on one thread, with a clock that advances only when nobody has
//! anything to do, so a seed gives an identical trace every time. Promises P2 to P8, P11 and P13 are checked after
//! every commit. Then the faults stop, everything must end, and the answers that clients and workers received are
//! compared with the rows.

mod chaos;
mod client;
mod entity;
mod locks;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod program;
mod record;
mod server;
mod shrink;
mod store;
mod worker;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flovyn_engine::state::{Tenant, WorkClass};
use flovyn_engine::{Change, Mutations};
use flovyn_store::TransactOptions;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::generate::TENANTS;
use crate::lockstep::BEGIN_MS;

use client::{Client, Operator};
use server::Cluster;
use worker::{BUILDS, Kind, Worker};
use world::World;

pub use chaos::{Allowed, Fault};
pub use shrink::shrink;

const SERVERS: usize = 3;
const CLIENTS: usize = 3;
/// Callers of entities. Only one run in four has them, because their failures would hide others.
const CALLERS: usize = 2;
const RUNS_PER_RUN_WITH_ENTITIES: u64 = 4;
/// Faults occur for at least this time.
const FAULTS_MS: u64 = 12_000;
/// Everything has to end within this time after the last fault.
const ENDS_WITHIN_MS: u64 = 120_000;
/// Copies of messages that are still being delivered arrive within this time.
const STRAGGLERS_MS: usize = 8_000;

/// The parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    /// How many starts and tasks each client requests.
    pub operations: usize,
    pub allowed: Allowed,
}

impl Plan {
    pub fn new(seed: u64) -> Self {
        Self { seed, operations: 8, allowed: Allowed::default() }
    }
}

/// The figures of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests that were sent, without polls.
    pub operations: usize,
    pub acknowledged: usize,
    /// Claims that reached a worker.
    pub claims: usize,
    pub commits: usize,
    /// Commits that lost against another server's commit.
    pub met: usize,
    /// Batches that began while another batch of the same server was in flight.
    pub second_batches: usize,
    /// Reports of stale claims that were refused.
    pub stale: usize,
    /// Ends that were deferred because of an unseen signal.
    pub deferred_ends: usize,
    /// Held-back executions that a worker of another build claimed before the delay was over.
    pub taken_early: usize,
    /// Activations of the claim's holder that were refused.
    pub refused: usize,
    /// Continuations: steps of workflows that were accepted with the success of their task.
    pub continued: usize,
    /// Claims of executions whose start was not written yet.
    pub provisional: usize,
    pub executions: usize,
    pub faults: BTreeMap<&'static str, usize>,
    pub virtual_ms: u64,
}

impl Figures {
    pub fn add(&mut self, other: &Figures) {
        self.operations += other.operations;
        self.acknowledged += other.acknowledged;
        self.claims += other.claims;
        self.commits += other.commits;
        self.met += other.met;
        self.second_batches += other.second_batches;
        self.stale += other.stale;
        self.deferred_ends += other.deferred_ends;
        self.taken_early += other.taken_early;
        self.refused += other.refused;
        self.continued += other.continued;
        self.provisional += other.provisional;
        self.executions += other.executions;
        self.virtual_ms += other.virtual_ms;
        for (fault, count) in &other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
    }
}

/// A broken promise: the check that found it, and what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub check: &'static str,
    pub message: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.check, self.message)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    pub figures: Figures,
    pub violation: Option<Violation>,
    /// What happened, line by line, with the virtual time in milliseconds.
    pub trace: Vec<String>,
}

/// Runs a plan to its end, or to the first broken promise.
pub fn run(plan: &Plan) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread needs nothing that could be missing");
    runtime.block_on(simulate(plan))
}

async fn simulate(plan: &Plan) -> Run {
    let begin = tokio::time::Instant::now();
    let world = World::new(plan);
    let tenants: Vec<Uuid> = TENANTS.iter().map(|id| Uuid::from_u128(*id)).collect();
    seed_tenants(&world, &tenants).await;
    let cluster = Cluster::start(world.clone(), if world.alone { 1 } else { SERVERS });
    for tenant in &tenants {
        start_workers(&cluster, *tenant);
    }
    tokio::spawn(Operator::new(cluster.clone()).run());
    let client = |number| {
        let client = Client { cluster: cluster.clone(), number, tenants: tenants.clone() };
        tokio::spawn(client.run(plan.operations))
    };
    let caller = |number| {
        let caller = entity::Caller { cluster: cluster.clone(), number, tenants: tenants.clone() };
        tokio::spawn(caller.run(plan.operations))
    };
    let callers = if plan.seed.is_multiple_of(RUNS_PER_RUN_WITH_ENTITIES) { CALLERS } else { 0 };
    let clients: Vec<JoinHandle<()>> = (0..CLIENTS).map(client).chain((0..callers).map(caller)).collect();

    let asked = || clients.iter().all(JoinHandle::is_finished);
    while !world.has_failed() && (!asked() || begin.elapsed() < Duration::from_millis(FAULTS_MS)) {
        world.sleep(100).await;
    }
    world.say(|| "the faults are over".to_owned());
    world.lock().chaos.stop();
    cluster.heal();
    let last_fault = begin.elapsed();
    while !world.has_failed() {
        let open = record::open(&world.snapshot().await);
        if open.is_empty() {
            break;
        }
        if begin.elapsed() - last_fault > Duration::from_millis(ENDS_WITHIN_MS) {
            world.violated("P6 stuck", format!("has not ended: {}", open.join(", ")));
        }
        world.sleep(100).await;
    }
    if !world.has_failed() {
        world.sleep(STRAGGLERS_MS).await;
        settle(&world).await;
    }
    cluster.stop();
    let (trace, violation, mut figures) = world.take_trace();
    figures.virtual_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    Run { figures, violation, trace }
}

/// Ends a run: checks the promises and the record.
async fn settle(world: &World) {
    world.check().await;
    let rows = world.snapshot().await;
    world.lock().figures.executions = rows.executions.len();
    let wrong = record::check(&world.lock().record, &rows);
    if let Some((check, _)) = wrong.first() {
        let all: Vec<String> = wrong.iter().map(|(check, what)| format!("{check}: {what}")).collect();
        world.violated(check, all.join("; "));
    }
}

fn start_workers(cluster: &Arc<Cluster>, tenant: Uuid) {
    for (class, what) in [(WorkClass::Workflow, "workflow"), (WorkClass::Task, "task")] {
        let kinds = match cluster.world.below(4) {
            0 | 1 => [Kind::Session, Kind::WithoutSession],
            2 => [Kind::Session, Kind::WithoutTokens],
            // One of the two may report on a claim of the other.
            _ => [Kind::WithoutTokens, Kind::WithoutTokens],
        };
        for (number, (kind, build)) in kinds.into_iter().zip(BUILDS).enumerate() {
            let name = format!("{what} worker {number} of {}", &tenant.to_string()[..1]);
            let worker = Worker { cluster: cluster.clone(), tenant, name, build, connection: None };
            tokio::spawn(worker.run(class, kind));
        }
    }
}

async fn seed_tenants(world: &World, tenants: &[Uuid]) {
    let tenant = |id: &Uuid| {
        Change::Insert(Tenant {
            id: *id,
            version: 1,
            slug: id.to_string().into(),
            name: "Simulated".into(),
            created_ms: BEGIN_MS,
            retention_ms: None,
        })
    };
    let mutations = Mutations { tenants: tenants.iter().map(tenant).collect(), ..Mutations::default() };
    let write = Arc::new(Mutex::new(store::Write(Some(Box::new(mutations)))));
    let options = TransactOptions { batch_id: Uuid::nil(), wait_for_locks: false };
    world.memory.transact(write, options).await.expect("memory takes new rows");
}

/// The last part of an id, enough to distinguish the ids of one run.
fn short(id: Uuid) -> String {
    let text = id.simple().to_string();
    text[text.len() - 5..].to_owned()
}
