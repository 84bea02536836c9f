//! A steady load while a transaction (PostgreSQL) or a read (SQLite) never ends, so old rows cannot be cleaned up. Work
//! must not become slower and slower, and the server's memory must not grow.

use std::path::Path;
use std::time::{Duration, Instant};

use flovyn_sdk::{Client, StartOptions};
use flovyn_testkit::Pin;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::Options;
use crate::check::Findings;
use crate::report::{Figures, percentile};
use crate::test::Database;
use crate::world::{Plan, World};

const CLIENTS: usize = 16;
/// The run has this many parts of equal length: one without the pin, two with it.
const PARTS: u32 = 3;
/// How long caches are warmed up before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: &Options, binary: &Path) -> Result<(Figures, Findings), String> {
    let mut world = World::start(binary, options.store, Plan { workers: 2, ..Plan::default() }).await?;
    let client = world.clients()?.swap_remove(0);
    let part = Duration::from_secs(options.seconds) / PARTS;
    let mut found = Findings::default();
    timed(&client, WARM_UP, &mut found).await;
    let mut figures = Figures::default();
    let mut pin = None;
    for name in ["free", "pinned", "pinned_long"] {
        if name == "pinned" {
            pin = Some(match options.store {
                Database::Postgres => Pin::postgres(&world.url).await?,
                Database::Sqlite => Pin::sqlite(&world.database_path()?)?,
            });
        }
        let took = timed(&client, part, &mut found).await;
        figures.acknowledged += took.len();
        let (p50, p99) = (percentile(&took, 50), percentile(&took, 99));
        let memory = memory_kib(&world);
        let log = log_bytes(&world);
        eprintln!("{name}: {} workflows, p50 {p50} us, p99 {p99} us, {memory} KiB", took.len());
        let of_part = [("workflows", json!(took.len())), ("p50_us", p50), ("p99_us", p99)];
        let of_part = of_part.into_iter().chain([("memory_kib", json!(memory)), ("wal_bytes", json!(log))]);
        let of_part: serde_json::Map<String, Value> =
            of_part.map(|(key, value)| (key.to_owned(), value)).collect();
        figures.more.push((name, Value::Object(of_part)));
    }
    // It still pins its snapshot: otherwise the run proves nothing.
    pin.ok_or("nothing was pinned")?.release().await?;
    drop(world.end().await?);
    found.doctor(world.doctor().await?);
    Ok((figures, found))
}

/// The durations of workflows with three tasks in sequence, in microseconds: each is claimed seven times.
async fn timed(client: &Client, span: Duration, found: &mut Findings) -> Vec<u64> {
    let until = Instant::now() + span;
    let one = async || {
        let mut took = Vec::new();
        while Instant::now() < until {
            let begin = Instant::now();
            let input = json!({ "number": 1 });
            let done = client.execute_raw("chain", input, StartOptions::default(), PATIENCE).await;
            took.push(done.map(|_| u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX)));
        }
        took
    };
    let mut took = Vec::new();
    for one in join_all((0..CLIENTS).map(|_| one())).await.into_iter().flatten() {
        match one {
            Ok(micros) => took.push(micros),
            Err(error) => found.stuck(format!("a client received the error '{error}'")),
        }
    }
    took
}

/// The server's memory.
fn memory_kib(world: &World) -> u64 {
    let status = world.servers[0].id().map(|id| format!("/proc/{id}/status"));
    let status = status.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// The length of the write-ahead log of an embedded database.
fn log_bytes(world: &World) -> u64 {
    std::fs::metadata(world.folder().join("flovyn.db-wal")).map_or(0, |data| data.len())
}
