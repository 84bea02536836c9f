//! One seeded run on any number of stores at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use flovyn_engine::invariants;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::{ExecutionStatus, TaskStatus, Tenant, WorkClass};
use flovyn_engine::{Batch, Change, Decided, Limits, Mutations, Now, Op, Reply, Request};
use flovyn_store::{Clock, ManualClock, SharedDecider, StoreResult, TransactOptions};
use uuid::Uuid;

use crate::generate::{Generator, PAYLOAD_BYTES, TENANTS};

/// The part of a store that a run needs: writing batches and reading all rows.
#[async_trait]
pub trait Rows: Send + Sync {
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()>;
    async fn snapshot(&self) -> StoreResult<Snapshot>;
}

/// The start time of every run.
pub const BEGIN_MS: i64 = 1_800_000_000_000;

/// A clock that starts at [`BEGIN_MS`].
pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Now::same(BEGIN_MS)))
}

/// The figures of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub steps: usize,
    pub requests: usize,
    /// Requests by name, and how many of each were accepted.
    pub accepted: BTreeMap<&'static str, usize>,
    /// Refusals by code.
    pub refused: BTreeMap<String, usize>,
    pub events: usize,
}

impl Report {
    pub fn add(&mut self, other: Report) {
        self.steps += other.steps;
        self.requests += other.requests;
        self.events += other.events;
        for (name, count) in other.accepted {
            *self.accepted.entry(name).or_default() += count;
        }
        for (code, count) in other.refused {
            *self.refused.entry(code).or_default() += count;
        }
    }
}

/// A run that broke a promise, or in which two stores differ.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub step: usize,
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {} step {}: {}", self.seed, self.step, self.what)
    }
}

/// Runs `steps` batches on every store and compares them after each.
pub async fn run(
    seed: u64,
    steps: usize,
    clock: &ManualClock,
    stores: &[(&str, Arc<dyn Rows>)],
) -> Result<Report, Failure> {
    let fail = |step: usize, what: String| Failure { seed, step, what };
    let mut generator = Generator::new(seed, clock.now().ms);
    let mut report = Report::default();
    let limits =
        Arc::new(Limits { cancel_grace_ms: 3_000, payload_bytes: PAYLOAD_BYTES, ..Limits::default() });
    seed_tenants(stores).await.map_err(|what| fail(0, what))?;
    for step in 0..steps {
        let world = stores[0].1.snapshot().await.map_err(|error| fail(step, error.to_string()))?;
        generator.now_ms = clock.now().ms;
        let count = 1 + generator.rng.below(5);
        let requests: Vec<Arc<Request>> = (0..count).map(|_| generator.request(&world)).collect();
        let mut first: Option<Vec<Decided>> = None;
        for (name, store) in stores {
            let decided = decide(store.as_ref(), &requests, &limits)
                .await
                .map_err(|error| fail(step, format!("{name}: {error} for {requests:#?}")))?;
            match &first {
                None => first = Some(decided),
                Some(expected) if *expected != decided => {
                    return Err(fail(step, format!("{name} answers {decided:#?}, expected {expected:#?}")));
                }
                Some(_) => {}
            }
        }
        let decided = first.unwrap_or_default();
        let after = check(step, clock, stores, &requests).await.map_err(|what| fail(step, what))?;
        check_claims_end(&world, &after, &requests, &decided).map_err(|what| fail(step, what))?;
        account(&mut report, &requests, &decided).map_err(|what| fail(step, what))?;
        // Long waits are rare, so that claims, timeouts and reports occur in all orders.
        clock.advance_ms(generator.rng.of([0, 0, 1, 5, 40, 300, 2_000, 40_000]));
    }
    report.steps = steps;
    Ok(report)
}

/// Checks that snapshots are equal and that every promise holds.
async fn check(
    _step: usize,
    clock: &ManualClock,
    stores: &[(&str, Arc<dyn Rows>)],
    requests: &[Arc<Request>],
) -> Result<Snapshot, String> {
    let mut first = None;
    for (name, store) in stores {
        let snapshot = store.snapshot().await.map_err(|error| error.to_string())?;
        match &first {
            None => {
                let found = invariants::check(&snapshot, clock.now());
                if !found.is_empty() {
                    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                    return Err(format!("{} after {requests:#?}", found.join("; ")));
                }
                first = Some(snapshot);
            }
            Some(expected) if *expected != snapshot => {
                return Err(format!(
                    "{name} differs after {requests:#?}: {snapshot:#?}, expected {expected:#?}"
                ));
            }
            Some(_) => {}
        }
    }
    first.ok_or_else(|| "no store".to_owned())
}

/// P12: a claim ends with a refused report of its holder that a retry cannot cure.
fn check_claims_end(
    before: &Snapshot,
    after: &Snapshot,
    requests: &[Arc<Request>],
    decided: &[Decided],
) -> Result<(), String> {
    // If a claim holds before and after, it held all the time: no two claims of a row have the same number.
    let stands = |rows: &Snapshot, (tenant_id, id): (Uuid, Uuid), token: Option<i64>| {
        let execution = rows.executions.iter().find(|row| row.key() == (tenant_id, id));
        let task = rows.tasks.iter().find(|row| row.key() == (tenant_id, id));
        execution.is_some_and(|row| row.status == ExecutionStatus::Running && token == Some(row.epoch))
            || task.is_some_and(|row| row.status == TaskStatus::Running && token == Some(row.epoch))
    };
    for (request, decided) in requests.iter().zip(decided) {
        let (id, token) = match &request.op {
            Op::SubmitActivation(op) => (op.execution_id, op.token),
            Op::RefuseActivation(op) => (op.execution_id, op.token),
            Op::CompleteTask(op) => (op.task_id, op.token),
            Op::FailTask(op) => (op.task_id, op.token),
            Op::RefuseTaskResult(op) => (op.task_id, op.token),
            _ => continue,
        };
        let Decided::Refused(refusal) = decided else { continue };
        let about = (request.tenant_id, id);
        if refusal.code.cure().ends_claim() && stands(before, about, token) && stands(after, about, token) {
            return Err(format!("P12: claim {token:?} of {id} outlasts {refusal} for {request:#?}"));
        }
    }
    Ok(())
}

fn account(report: &mut Report, requests: &[Arc<Request>], decided: &[Decided]) -> Result<(), String> {
    for (request, decided) in requests.iter().zip(decided) {
        report.requests += 1;
        match decided {
            Decided::Reply(reply) => {
                *report.accepted.entry(request.op.name()).or_default() += 1;
                check_reply(request, reply)?;
            }
            Decided::Refused(refusal) => {
                if refusal.code == flovyn_engine::Code::Internal {
                    return Err(format!("{refusal} for {request:#?}"));
                }
                *report.refused.entry(refusal.code.to_string()).or_default() += 1;
                if matches!(request.op, Op::RefuseActivation(_) | Op::RefuseTaskResult(_)) {
                    // These requests are always answered with a refusal.
                    *report.accepted.entry(request.op.name()).or_default() += 1;
                }
            }
            Decided::Deferred => return Err(format!("deferred without a rival: {request:#?}")),
        }
    }
    Ok(())
}

/// Checks that a worker receives only what it asked for, and each item once; and that a search for orphans finds none.
fn check_reply(request: &Request, reply: &Reply) -> Result<(), String> {
    if let Reply::Looked { orphans } = reply {
        let found = orphans.join("; ");
        return if found.is_empty() { Ok(()) } else { Err(format!("{found}, by {request:?}")) };
    }
    let (flovyn_engine::Op::Claim(claim), Reply::Claimed(claimed)) = (&request.op, reply) else {
        return Ok(());
    };
    let kinds: BTreeSet<_> = claim.kinds.iter().map(|kind| &kind.kind).collect();
    let workflows = claimed.workflows.iter().map(|item| (&item.execution.kind, &item.execution.queue));
    let tasks = claimed.tasks.iter().map(|item| (&item.task.task_type, &item.task.queue));
    let fits = workflows.chain(tasks).all(|(kind, queue)| kinds.contains(kind) && *queue == claim.queue);
    let class = match claim.class {
        WorkClass::Task => claimed.workflows.is_empty(),
        _ => claimed.tasks.is_empty(),
    };
    if fits && class && claimed.len() <= claim.max {
        return Ok(());
    }
    Err(format!("{claim:?} was given {claimed:?}"))
}

/// Decides a batch on a store and returns the answers.
pub async fn decide(
    store: &dyn Rows,
    requests: &[Arc<Request>],
    limits: &Arc<Limits>,
) -> Result<Vec<Decided>, flovyn_store::StoreError> {
    let batch = Arc::new(Mutex::new(Batch::new(requests.to_vec(), limits.clone())));
    let options = TransactOptions { batch_id: batch_id(requests), wait_for_locks: false };
    store.transact(batch.clone(), options).await?;
    let batch = batch.lock().expect("the store has not panicked");
    Ok(batch.decided().to_vec())
}

fn batch_id(requests: &[Arc<Request>]) -> Uuid {
    let first = requests.first().map_or(0, |request| request.seed);
    Uuid::from_u64_pair(first, 0x8000_0000_0000_0000 | requests.len() as u64)
}

async fn seed_tenants(stores: &[(&str, Arc<dyn Rows>)]) -> Result<(), String> {
    let tenant = |id: &u128, number: usize| Tenant {
        id: Uuid::from_u128(*id),
        version: 1,
        slug: format!("seeded-{number}").into(),
        name: "Seeded".into(),
        created_ms: BEGIN_MS,
        retention_ms: None,
    };
    let rows = TENANTS.iter().enumerate().map(|(number, id)| Change::Insert(tenant(id, number)));
    let mutations = Mutations { tenants: rows.collect(), ..Mutations::default() };
    for (number, (name, store)) in stores.iter().enumerate() {
        let writer = Arc::new(Mutex::new(Write(Some(mutations.clone()))));
        let options =
            TransactOptions { batch_id: Uuid::from_u128(number as u128 + 1), wait_for_locks: false };
        store.transact(writer, options).await.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Writes the given rows without any rule.
struct Write(Option<Mutations>);

impl flovyn_store::Decider for Write {
    fn step(&mut self, loaded: Option<flovyn_engine::Loaded>) -> flovyn_store::Step {
        match (loaded, self.0.take()) {
            (None, rows) => {
                self.0 = rows;
                flovyn_store::Step::Load(Arc::default())
            }
            (Some(_), Some(rows)) => flovyn_store::Step::Commit(Box::new(rows)),
            (Some(_), None) => flovyn_store::Step::Done,
        }
    }
}
