//! A thousand workers reconnect to a server that was killed and restarted, and not all at the same time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flovyn_sdk::Worker;
use flovyn_sdk::worker::WorkerEvent;
use serde_json::{Value, json};

use crate::Options;
use crate::check::Findings;
use crate::programs;
use crate::report::{Figures, percentile};
use crate::world::{Plan, TOKEN, World};

const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(crate) async fn run(options: &Options, binary: &Path) -> Result<(Figures, Findings), String> {
    let mut world = World::start(binary, options.store, Plan::default()).await?;
    let url = world.servers[0].grpc_url.clone();
    let patience = Duration::from_secs(options.seconds.max(60));
    let connected = Arc::new(AtomicUsize::new(0));
    let mut workers = Vec::new();
    for _ in 0..options.pollers {
        let connected = connected.clone();
        let builder = Worker::builder(&url, TOKEN).max_tasks(1).max_workflows(1).on_event(move |event| {
            if matches!(event, WorkerEvent::Connected) {
                connected.fetch_add(1, Ordering::Relaxed);
            }
        });
        let builder = builder.task_fn(programs::STEP, |_, input: Value| async move { Ok(input) });
        workers.push(builder.build().map_err(|error| error.to_string())?.start());
    }
    let took = reaches(&connected, options.pollers, patience).await?;
    eprintln!("{} workers are connected after {:?}", options.pollers, took.last());
    connected.store(0, Ordering::Relaxed);
    let mut figures = Figures { kills: 1, kills_in_flight: 1, ..Figures::default() };
    let ready = world.kill_server(0).await?;
    figures.recovery_ms.push(u64::try_from(ready.as_millis()).unwrap_or(u64::MAX));
    let came_back = reaches(&connected, options.pollers, patience).await?;
    eprintln!("all are back {:?} after the server was ready", came_back.last());
    // All workers receive work again, and each task is done once.
    let client = world.clients()?.swap_remove(0);
    let inputs = (0..options.pollers).map(|number| json!({ "number": number })).collect();
    let tasks = client.submit_tasks_raw(programs::STEP, inputs, programs::patient()).await;
    let tasks = tasks.map_err(|error| error.to_string())?;
    let mut found = Findings::default();
    let until = Instant::now() + patience;
    for (number, id) in tasks.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let result: Result<Value, _> = client.task(*id).result(left).await;
        match result {
            Ok(value) if value["number"] == json!(number) => figures.acknowledged += 1,
            other => found.stuck(format!("task {number} ended with {other:?}")),
        }
    }
    for worker in workers {
        worker.abort();
    }
    let came_back: Vec<u64> =
        came_back.iter().map(|at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX)).collect();
    figures.more.push(("back_p50_ms", percentile(&came_back, 50)));
    figures.more.push(("back_p99_ms", percentile(&came_back, 99)));
    drop(world.end().await?);
    found.doctor(world.doctor().await?);
    Ok((figures, found))
}

/// Waits until `count` workers are connected. Returns when each of them was seen.
async fn reaches(connected: &AtomicUsize, count: usize, patience: Duration) -> Result<Vec<Duration>, String> {
    let begin = Instant::now();
    let mut seen = Vec::new();
    while seen.len() < count {
        let now = connected.load(Ordering::Relaxed).min(count);
        seen.resize(now.max(seen.len()), begin.elapsed());
        if begin.elapsed() > patience {
            return Err(format!("{now} of {count} workers are connected after {patience:?}"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(seen)
}
