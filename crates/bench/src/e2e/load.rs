//! Workflows in a closed loop: a fixed number is in flight, and each new one starts when another has finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flovyn_sdk::{Client, StartOptions, WorkflowHandle};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Workload;
use super::process::{ServerProcess, Usage, WorkerProcess};
use super::programs::SLEEP;
use super::timers;
use crate::figures::{Latencies, Line, cpu_seconds};

/// The time before the measurement starts, in which caches fill and connections open.
const WARM_UP: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// The load of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) workload: Workload,
    pub(super) concurrency: usize,
    pub(super) seconds: u64,
    /// Bytes of input of each workflow.
    pub(super) payload: usize,
}

/// Measurements of one client of the loop.
#[derive(Debug, Default)]
struct Seen {
    latencies: Latencies,
    /// By how much the sleep of a workflow exceeded the requested time: from the start of the workflow to its timer, by
    /// the times in its log.
    late: Latencies,
    /// Number of workflows that slept less than requested.
    early: usize,
    /// Handles of the workflows that slept.
    slept: Vec<WorkflowHandle<Value>>,
}

impl Seen {
    fn merge(&mut self, other: Seen) {
        self.latencies.merge(other.latencies);
        self.late.merge(other.late);
        self.early += other.early;
        self.slept.extend(other.slept);
    }
}

pub(super) async fn run(
    server: &ServerProcess,
    load: Load,
    line: Line,
    bar: &ProgressBar,
) -> Result<Line, String> {
    let Load { workload, concurrency, seconds, payload } = load;
    let worker = WorkerProcess::start(server).await?;
    let tenants = server.clients()?;
    let (measures, stops) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    let input = json!({ "order": "x".repeat(payload) });
    for client in tenants.iter().cycle().take(concurrency) {
        let run = one_after_another(client.clone(), workload, input.clone(), measures.clone(), stops.clone());
        clients.spawn(run);
    }
    tokio::time::sleep(WARM_UP).await;
    let before = server.usage().await?;
    let others = || [worker.cpu_seconds(), cpu_seconds()];
    let others_before = others();
    measures.store(true, Ordering::SeqCst);
    bar.set_length(seconds);
    let mut peak_mb: f64 = 0.0;
    for second in 0..seconds {
        bar.set_position(second);
        tokio::time::sleep(Duration::from_secs(1)).await;
        peak_mb = peak_mb.max(server.resident_mb());
    }
    measures.store(false, Ordering::SeqCst);
    let after = server.usage().await?;
    let others_after = others();
    stops.store(true, Ordering::SeqCst);
    let mut seen = Seen::default();
    while let Some(ended) = clients.join_next().await {
        seen.merge(ended.map_err(|error| error.to_string())??);
    }
    worker.kill().await?;
    let mut line =
        figures(line, workload, concurrency, &seen, before, after).number("server_rss_mb", peak_mb);
    if workload == Workload::Timer100ms {
        line = timers::read(std::mem::take(&mut seen.slept)).await?.figures(line);
    }
    // CPU time per workflow in each process. It depends little on the other load of the machine.
    let micros = |used: f64| used * 1e6 / (seen.latencies.count().max(1) as f64);
    Ok(line
        .number("server_cpu_us_each", micros(after.cpu_seconds - before.cpu_seconds))
        .number("worker_cpu_us_each", micros(others_after[0] - others_before[0]))
        .number("load_cpu_us_each", micros(others_after[1] - others_before[1])))
}

async fn one_after_another(
    client: Client,
    workload: Workload,
    input: Value,
    measures: Arc<AtomicBool>,
    stops: Arc<AtomicBool>,
) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut slept = Vec::new();
    while !stops.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let output = execute(&client, workload, input.clone()).await?;
        if !measures.load(Ordering::Relaxed) {
            continue;
        }
        seen.latencies.add(begin.elapsed());
        if workload == Workload::Timer100ms {
            let (id, time) = read_sleep(&output).ok_or("the output of the timer workflow cannot be read")?;
            slept.push(id);
            match time.checked_sub(SLEEP) {
                Some(late) => seen.late.add(late),
                None => seen.early += 1,
            }
        }
    }
    seen.slept = slept.into_iter().map(|id| client.handle(id)).collect();
    Ok(seen)
}

/// The execution that slept, and the duration. `None` if the output has another form.
fn read_sleep(output: &Value) -> Option<(Uuid, Duration)> {
    let id = output.get("execution")?.as_str()?.parse().ok()?;
    Some((id, Duration::from_millis(output.get("sleptMs")?.as_u64()?)))
}

async fn execute(client: &Client, workload: Workload, input: Value) -> Result<Value, String> {
    let output = client.execute_raw(workload.name(), input, StartOptions::default(), PATIENCE);
    output.await.map_err(|error| error.to_string())
}

fn figures(
    line: Line,
    workload: Workload,
    concurrency: usize,
    seen: &Seen,
    before: Usage,
    after: Usage,
) -> Line {
    let count = seen.latencies.count() as f64;
    let elapsed = after.at.duration_since(before.at).as_secs_f64();
    let each = |total: f64| if count > 0.0 { total / count } else { 0.0 };
    let line = line
        .number("concurrency", concurrency as f64)
        .number("workflows_per_s", count / elapsed)
        .number("tasks_per_s", count * workload.tasks() as f64 / elapsed)
        .number("p50_ms", seen.latencies.percentile_ms(50.0))
        .number("p99_ms", seen.latencies.percentile_ms(99.0))
        .number("server_cpu", (after.cpu_seconds - before.cpu_seconds) / elapsed)
        .number("bytes_written_per_workflow", each(after.written_bytes - before.written_bytes))
        .number("commits_per_workflow", each(after.commits - before.commits));
    match workload {
        Workload::Timer100ms => line
            .number("late_p50_ms", seen.late.percentile_ms(50.0))
            .number("late_p99_ms", seen.late.percentile_ms(99.0))
            .number("early", seen.early as f64),
        _ => line,
    }
}

/// Adds finished executions, to measure the effect of a grown database.
pub(super) async fn fill(server: &ServerProcess, count: usize, bar: &ProgressBar) -> Result<(), String> {
    if count == 0 {
        return Ok(());
    }
    const IN_FLIGHT: usize = 512;
    let message = bar.message();
    bar.set_message("filling the database");
    bar.set_length(count as u64);
    let worker = WorkerProcess::start(server).await?;
    let client = server.client()?;
    let mut in_flight = JoinSet::new();
    for _ in 0..count {
        while in_flight.len() >= IN_FLIGHT {
            in_flight
                .join_next()
                .await
                .ok_or("no workflow is in flight")?
                .map_err(|error| error.to_string())??;
            bar.inc(1);
        }
        let client = client.clone();
        in_flight.spawn(async move { execute(&client, Workload::Noop, json!(null)).await.map(|_| ()) });
    }
    while let Some(done) = in_flight.join_next().await {
        done.map_err(|error| error.to_string())??;
        bar.inc(1);
    }
    bar.reset();
    bar.set_message(message);
    worker.kill().await
}
