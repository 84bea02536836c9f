//! Entities while servers and workers are killed: 64 callers send requests by signal-with-start to 200 keys. Each
//! entity ends itself after a number of requests, and lives longer than the lifetime of its key.
//!
//! Every acknowledged request must be answered by exactly one entity: the entity for which it was acknowledged. At most
//! one entity of a key may be open; `flovyn doctor` checks this during the run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::{EventKind, ExecutionStatus};
use flovyn_engine::{Now, invariants};
use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{Client, Error, ListOptions, StartOptions, WorkflowContext};
use flovyn_sim::rng::Rng;
use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Options;
use crate::check::Findings;
use crate::report::Figures;
use crate::world::World;

const KIND: &str = "entity";
const CALLERS: usize = 64;
const KEYS: usize = 200;
/// An entity ends when it has answered this many requests.
const ANSWERS: usize = 20;
/// Shorter than an entity lives.
const KEY_TTL: Duration = Duration::from_secs(1);
/// The longest pause between two requests of a caller.
const THINKS_MS: usize = 80;
/// A request to a server that is down must not wait without a limit.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_secs(60);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How many faults are between two runs of the doctor.
const DOCTOR_EVERY: usize = 3;

pub(crate) fn register(builder: WorkerBuilder) -> WorkerBuilder {
    builder.workflow_fn(KIND, entity)
}

/// Answers requests until it has answered enough or is asked to close. Then it answers the requests that have arrived
/// meanwhile.
async fn entity(context: WorkflowContext, _: Value) -> flovyn_sdk::Result<Value> {
    let mut answered: Vec<u64> = Vec::new();
    let mut open = true;
    while (open && answered.len() < ANSWERS) || context.has_signal("ask") {
        flovyn_sdk::select! {
            request = context.wait_for_signal("ask") => answered.push(request?),
            asked = context.wait_for_signal::<Value>("close") => {
                asked?;
                open = false;
            }
        }
    }
    Ok(json!(answered))
}

fn key(number: usize) -> String {
    format!("entity/{number}")
}

/// The answers that callers received.
#[derive(Debug, Default)]
struct Answers {
    next: AtomicU64,
    waiting: AtomicUsize,
    acknowledged: Mutex<BTreeMap<u64, Uuid>>,
}

pub(crate) async fn run(options: &Options, binary: &Path, seed: u64) -> Result<(Figures, Findings), String> {
    let mut world = World::start(binary, options.store, options.test.plan(options.store)).await?;
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let (answers, clients) = (Arc::new(Answers::default()), world.clients()?);
    let callers = (0..CALLERS).map(|caller| {
        let rng = Rng::new(seed.wrapping_add(caller as u64));
        tokio::spawn(call(rng, clients.clone(), answers.clone(), until))
    });
    let callers: Vec<_> = callers.collect();
    let mut found = Findings::default();
    let mut rng = Rng::new(seed.wrapping_sub(1));
    let mut figures = harm(options, &mut world, &answers, &mut rng, until, &mut found).await?;
    for caller in callers {
        caller.await.map_err(|error| error.to_string())?;
    }
    let ends = Instant::now() + SETTLE;
    join_all((0..KEYS).map(|number| close(&clients, number, ends))).await;
    let store = world.end().await?;
    let snapshot = store.snapshot().await.map_err(|error| error.to_string())?;
    let now = store.now().await.map_err(|error| error.to_string())?;
    drop(store);
    let acknowledged =
        std::mem::take(&mut *answers.acknowledged.lock().unwrap_or_else(PoisonError::into_inner));
    let entities = check(&mut found, &snapshot, now, &acknowledged);
    found.doctor(world.doctor().await?);
    let sent = usize::try_from(answers.next.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    figures.acknowledged = acknowledged.len();
    figures.unanswered = sent.saturating_sub(acknowledged.len());
    figures.refused = world.refused;
    figures.more.push(("entities", json!(entities)));
    if found.count() > 0 {
        eprintln!("the files of this run are in {}", world.keep().display());
    }
    Ok((figures, found))
}

/// Sends requests until the time is over. Each is sent once: without an answer, it is not known whether it was
/// accepted.
async fn call(mut rng: Rng, clients: Vec<Client>, answers: Arc<Answers>, until: Instant) {
    while Instant::now() < until {
        let number = answers.next.fetch_add(1, Ordering::Relaxed);
        let client = &clients[rng.below(clients.len())];
        let key = key(rng.below(KEYS));
        let options = StartOptions { idempotency_key_ttl: Some(KEY_TTL), ..StartOptions::default() };
        let sent = client.signal_with_start_raw(KIND, &key, json!(null), "ask", json!(number), options);
        answers.waiting.fetch_add(1, Ordering::Relaxed);
        let answer = tokio::time::timeout(ANSWER_WITHIN, sent).await;
        answers.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Ok(Ok(handle)) = answer {
            let mut acknowledged = answers.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
            acknowledged.insert(number, handle.id());
        }
        tokio::time::sleep(Duration::from_millis(rng.below(THINKS_MS) as u64)).await;
    }
}

/// Kills a server or a worker with SIGKILL, in turn.
async fn harm(
    options: &Options,
    world: &mut World,
    answers: &Answers,
    rng: &mut Rng,
    until: Instant,
    found: &mut Findings,
) -> Result<Figures, String> {
    let mut figures = Figures::default();
    let (shortest, longest) = options.test.pause_ms(options.seconds);
    loop {
        let pause = Duration::from_millis((shortest + rng.below(longest - shortest)) as u64);
        tokio::time::sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
        if Instant::now() >= until {
            return Ok(figures);
        }
        figures.kills += 1;
        figures.kills_in_flight += usize::from(answers.waiting.load(Ordering::Relaxed) > 0);
        if figures.kills % 2 == 1 {
            let index = rng.below(world.servers.len());
            let took = world.kill_server(index).await?;
            figures.recovery_ms.push(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        } else {
            let index = rng.below(world.workers.len());
            world.workers.swap_remove(index).kill().await;
            world.start_worker(index).await?;
        }
        if figures.kills.is_multiple_of(DOCTOR_EVERY) {
            found.doctor(world.doctor().await?);
        }
        let sent = answers.next.load(Ordering::Relaxed);
        eprintln!("{} kills, {sent} requests", figures.kills);
    }
}

/// Asks the last entity of a key to end, and waits until no entity of the key is open.
async fn close(clients: &[Client], number: usize, until: Instant) {
    for attempt in 0.. {
        let client = &clients[attempt % clients.len()];
        if Instant::now() > until || is_closed(client, &key(number)).await {
            return;
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

async fn is_closed(client: &Client, key: &str) -> bool {
    let last = match client.handle_by_key::<Value>(key).await {
        Ok(last) => last,
        Err(Error::Server { code, .. }) => return code == "FLV0031",
        Err(_) => return false,
    };
    if last.signal("close", &json!(null)).await.is_ok() {
        return false;
    }
    let open = |status: &str| ListOptions {
        key: Some(key.to_owned()),
        status: Some(status.to_owned()),
        limit: 1,
        ..ListOptions::default()
    };
    for status in ["PENDING", "RUNNING", "WAITING"] {
        if !client.list_with_options(open(status)).await.is_ok_and(|found| found.is_empty()) {
            return false;
        }
    }
    true
}

/// Compares the answers of all entities with those that callers received. Returns how many entities there were.
fn check(found: &mut Findings, snapshot: &Snapshot, now: Now, acknowledged: &BTreeMap<u64, Uuid>) -> usize {
    for violation in invariants::check(snapshot, now) {
        found.broken(violation);
    }
    for row in snapshot.executions.iter().filter(|row| row.status != ExecutionStatus::Completed) {
        match row.status.is_terminal() {
            true => found.wrong(format!("entity {} is {}", row.id, row.status)),
            false => found.stuck(format!("entity {} is {}", row.id, row.status)),
        }
    }
    let mut answers: BTreeMap<u64, Vec<Uuid>> = BTreeMap::new();
    for event in snapshot.events.iter().filter(|event| event.kind == EventKind::WorkflowCompleted) {
        let output = event.payload.as_deref().and_then(|payload| serde_json::from_slice(payload).ok());
        let output: Vec<u64> = output.unwrap_or_default();
        for request in output {
            answers.entry(request).or_default().push(event.execution_id);
        }
    }
    for (request, entities) in answers.iter().filter(|(_, entities)| entities.len() > 1) {
        found.duplicated(format!("request {request} was answered by {entities:?}"));
    }
    for (request, entity) in acknowledged {
        match answers.get(request).map(Vec::as_slice) {
            None => found.lost(format!("request {request}, acknowledged for {entity}, was not answered")),
            Some([only]) if only != entity => {
                found.wrong(format!("request {request}, acknowledged for {entity}, was answered by {only}"));
            }
            Some(_) => {}
        }
    }
    snapshot.executions.len()
}
