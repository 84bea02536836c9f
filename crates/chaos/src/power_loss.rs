//! Power loss: at each fsync of the recorded run, all writes that were not synced are dropped, or reach the disk in
//! part. Everything that was acknowledged before must be in the remaining data.

mod disk;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flovyn_engine::invariants;
use flovyn_engine::state::ExecutionStatus;
use flovyn_sdk::{Client, StartOptions};
use flovyn_sim::rng::Rng;
use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Options;
use crate::check::Findings;
use crate::report::Figures;
use crate::world::{Plan, World};

/// Clients at once: few, so that there are many commits.
const CLIENTS: usize = 8;
const WORKERS: usize = 1;
/// Longer than a client takes to record an answer, so that a server that answers before its sync is detected.
const SLOW_SYNC_MS: u64 = 3;
/// How many of all moments are examined.
const MOMENTS: usize = 150;
/// How many states are examined in parallel: opening one takes time but little CPU.
const AT_ONCE: usize = 32;
const IN_MEMORY: &str = "/dev/shm";
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    Honest,
    /// Acknowledges syncs of the write-ahead log without doing them, like a database with `synchronous=NORMAL`.
    Lies,
}

/// An answer that a client received, and the length of the record at that time.
#[derive(Debug, Clone, Copy)]
struct Acknowledged {
    id: Uuid,
    /// The end was acknowledged, not only the start.
    ended: bool,
    position: u64,
}

pub(crate) async fn run(
    options: &Options,
    binary: &Path,
    seed: u64,
    disk: Disk,
) -> Result<(Figures, Findings), String> {
    let mut world = World::prepare(binary, options.store, Plan::default()).await?;
    let record = world.folder().join("record");
    let mut settings: Vec<(&'static str, OsString)> = vec![
        ("FLOVYN_TEST_SHIM_DATABASE", world.database_path()?.into()),
        ("FLOVYN_TEST_SHIM_RECORD", record.clone().into()),
        ("FLOVYN_TEST_SHIM_SLOW_SYNC_MS", SLOW_SYNC_MS.to_string().into()),
    ];
    if disk == Disk::Lies {
        settings.push(("FLOVYN_TEST_SHIM_LIE", "wal".into()));
    }
    world.preload(0, &settings)?;
    world.begin(WORKERS, 0).await?;
    let client = world.clients()?.swap_remove(0);
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    join_all((0..CLIENTS).map(|_| work(client.clone(), record.clone(), acknowledged.clone(), until))).await;
    for worker in world.workers.drain(..) {
        worker.kill().await;
    }
    world.servers[0].kill().await;
    let acknowledged = std::mem::take(&mut *acknowledged.lock().unwrap_or_else(PoisonError::into_inner));
    let bytes = std::fs::read(&record).map_err(|error| error.to_string())?;
    let mut figures = Figures { acknowledged: acknowledged.len(), ..Figures::default() };
    let found = examine(&bytes, &acknowledged, &mut figures, &mut Rng::new(seed)).await?;
    Ok((figures, found))
}

/// One client: starts a workflow, waits for its end, and records the length of the record at each answer.
async fn work(client: Client, record: PathBuf, acknowledged: Arc<Mutex<Vec<Acknowledged>>>, until: Instant) {
    let note = |id, ended| {
        let position = std::fs::metadata(&record).map_or(0, |data| data.len());
        acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(Acknowledged {
            id,
            ended,
            position,
        });
    };
    while Instant::now() < until {
        let started = client.start_raw("chain", json!({ "number": 1 }), StartOptions::default()).await;
        let Ok(handle) = started else { continue };
        note(handle.id(), false);
        let result: Result<Value, _> = handle.result(ANSWER_WITHIN).await;
        if result.is_ok() {
            note(handle.id(), true);
        }
    }
}

async fn examine(
    bytes: &[u8],
    acknowledged: &[Acknowledged],
    figures: &mut Figures,
    rng: &mut Rng,
) -> Result<Findings, String> {
    let entries = disk::entries(bytes)?;
    let syncs = entries.iter().filter(|(_, entry)| entry.is_sync()).count();
    figures.more.push(("writes", json!(entries.len() - syncs)));
    figures.more.push(("syncs", json!(syncs)));
    let mut found = Findings::default();
    let mut files = disk::Files::default();
    let mut left = Vec::new();
    let end = (bytes.len() as u64, None);
    // The last moment is the end of the record, after all answers.
    for (position, entry) in entries.iter().map(|(position, entry)| (*position, Some(entry))).chain([end]) {
        if entry.is_none_or(|entry| entry.is_sync() && rng.below(syncs) < MOMENTS) {
            figures.kills += 2;
            figures.kills_in_flight += 2 * usize::from(files.has_unsynced());
            left.extend([(position, files.without_unsynced()), (position, files.with_some_unsynced(rng))]);
        }
        if left.len() >= AT_ONCE || entry.is_none() {
            let looks = left.drain(..).map(|(position, left)| look(left, position, acknowledged));
            for looked in join_all(looks).await {
                found.add(looked?);
            }
            eprintln!("power was lost {} times; {} lost", figures.kills, found.lost);
        }
        entry.into_iter().for_each(|entry| files.apply(entry));
    }
    Ok(found)
}

/// Opens the remaining data and compares it with the acknowledged work.
async fn look(
    left: BTreeMap<String, Vec<u8>>,
    position: u64,
    acknowledged: &[Acknowledged],
) -> Result<Findings, String> {
    let mut found = Findings::default();
    // In memory if possible: these copies need not be durable.
    let folder = tempfile::tempdir_in(IN_MEMORY).or_else(|_| tempfile::tempdir());
    let folder = folder.map_err(|error| error.to_string())?;
    let path = folder.path().join("flovyn.db");
    for (suffix, content) in &left {
        let file = format!("{}{suffix}", path.display());
        std::fs::write(file, content).map_err(|error| error.to_string())?;
    }
    let opened = flovyn_store::open::store(&format!("sqlite:{}", path.display())).await;
    let snapshot = match opened {
        Ok(store) => match (store.snapshot().await, store.now().await) {
            (Ok(snapshot), Ok(now)) => {
                invariants::check(&snapshot, now).into_iter().for_each(|broken| found.broken(broken));
                snapshot
            }
            (Err(error), _) | (_, Err(error)) => {
                found.broken(format!("at {position}: it cannot be read: {error}"));
                return Ok(found);
            }
        },
        Err(error) => {
            found.broken(format!("at {position}: it cannot be opened: {error}"));
            return Ok(found);
        }
    };
    let rows: BTreeMap<Uuid, ExecutionStatus> =
        snapshot.executions.iter().map(|row| (row.id, row.status)).collect();
    for acknowledged in acknowledged.iter().filter(|acknowledged| acknowledged.position <= position) {
        match rows.get(&acknowledged.id) {
            None => {
                found.lost(format!("at {position}: {} was acknowledged and is not there", acknowledged.id))
            }
            Some(status) if acknowledged.ended && *status != ExecutionStatus::Completed => {
                found.lost(format!("at {position}: {} had ended and is {status}", acknowledged.id));
            }
            Some(_) => {}
        }
    }
    Ok(found)
}
