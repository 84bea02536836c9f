//! Workloads that do not run in a closed loop: draining a queue, adding single tasks, replaying on a cold worker.

use std::time::{Duration, Instant};

use flovyn_sdk::{StartOptions, TaskOptions};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::process::{ServerProcess, WorkerProcess};
use super::programs::{ECHO, micros};
use crate::figures::{Latencies, Line};

const TASKS: usize = 10_000;
/// Tasks in one bulk request. All `TASKS / BULK` requests are in flight at once.
const BULK: usize = 1_000;
const ADDED: usize = 300;
const REPLAYS: usize = 5;
const EVENTS_OF_A_TASK: usize = 2;
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures how fast tasks are enqueued and drained. All tasks are enqueued and the worker is connected before it takes
/// the first task.
pub(super) async fn drain(server: &ServerProcess, line: Line) -> Result<Line, String> {
    let client = server.client()?;
    let mut enqueue = Vec::new();
    let mut drained = Vec::new();
    let before = server.usage().await?;
    const ROUNDS: usize = 3;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let mut requests = JoinSet::new();
        for _ in 0..TASKS / BULK {
            let client = client.clone();
            let inputs: Vec<Value> = (0..BULK).map(|number| json!({ "order": number })).collect();
            requests
                .spawn(async move { client.submit_tasks_raw(ECHO, inputs, TaskOptions::default()).await });
        }
        while let Some(done) = requests.join_next().await {
            done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        }
        enqueue.push(TASKS as f64 / begin.elapsed().as_secs_f64());
        let mut worker = WorkerProcess::start_paused(server).await?;
        let begin = Instant::now();
        worker.until_done(TASKS).await?;
        drained.push(TASKS as f64 / begin.elapsed().as_secs_f64());
        worker.kill().await?;
    }
    let after = server.usage().await?;
    let each = |total: f64| total / (TASKS * ROUNDS) as f64;
    Ok(line
        .number("enqueued_per_s", median(enqueue))
        .number("tasks_per_s", median(drained))
        .number(
            "server_cpu",
            (after.cpu_seconds - before.cpu_seconds) / after.at.duration_since(before.at).as_secs_f64(),
        )
        .number("bytes_written_per_task", each(after.written_bytes - before.written_bytes))
        .number("commits_per_task", each(after.commits - before.commits))
        .number("server_rss_mb", server.resident_mb()))
}

/// Measures the time from adding a task to its start: one task at a time, with a waiting worker.
pub(super) async fn add_to_start(server: &ServerProcess, line: Line) -> Result<Line, String> {
    let worker = WorkerProcess::start(server).await?;
    let client = server.client()?;
    let mut latencies = Latencies::default();
    for _ in 0..ADDED {
        let added = client.submit_task_raw("started-after", json!(micros()), TaskOptions::default()).await;
        let task_id = added.map_err(|error| error.to_string())?;
        let after: u64 = client.task(task_id).result(PATIENCE).await.map_err(|error| error.to_string())?;
        latencies.add(Duration::from_micros(after));
    }
    worker.kill().await?;
    Ok(line
        .number("p50_ms", latencies.percentile_ms(50.0))
        .number("p99_ms", latencies.percentile_ms(99.0))
        .number("server_rss_mb", server.resident_mb()))
}

/// Measures the time from the signal that wakes the workflow to its result, on a worker that must replay the whole
/// history.
pub(super) async fn replay(server: &ServerProcess, wanted: usize, line: Line) -> Result<Line, String> {
    let client = server.client()?;
    let mut latencies = Latencies::default();
    let mut events = 0;
    for _ in 0..REPLAYS {
        let builds = WorkerProcess::start(server).await?;
        let handle =
            client.start_raw("replay10k", json!(wanted / EVENTS_OF_A_TASK), StartOptions::default()).await;
        let handle = handle.map_err(|error| error.to_string())?;
        while !matches!(handle.query::<bool>("built").await, Ok(Some(_))) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        builds.kill().await?;
        let cold = WorkerProcess::start(server).await?;
        let begin = Instant::now();
        handle.signal("go", &()).await.map_err(|error| error.to_string())?;
        handle.result(PATIENCE).await.map_err(|error| error.to_string())?;
        latencies.add(begin.elapsed());
        cold.kill().await?;
        events = handle.history().await.map_err(|error| error.to_string())?.len();
    }
    Ok(line
        .number("events", events as f64)
        .number("p50_ms", latencies.percentile_ms(50.0))
        .number("p99_ms", latencies.percentile_ms(99.0))
        .number("server_rss_mb", server.resident_mb()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
