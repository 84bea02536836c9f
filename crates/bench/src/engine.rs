//! One-task workflows through the service, and the same row changes through the bare driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flovyn_engine::Reply;
use flovyn_service::Service;
use futures::future::join_all;
use indicatif::ProgressBar;

use crate::figures::{Latencies, Line};
use crate::raw::{self, Raw};
use crate::target::{Database, Target};
use crate::worker::{self, Ends};
use crate::workload::{self, TENANT};

/// Lone starts to measure.
const LONE_STARTS: usize = 500;

pub(crate) async fn run(database: Database, seconds: u64, clients: &[usize]) -> Result<String, String> {
    let bar = ProgressBar::new_spinner().with_message("raw driver");
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut raw = Raw::open(database).await?;
    let raw_before = raw::throughput(&mut raw, Duration::from_secs(seconds)).await?;

    bar.set_message("lone start");
    let (lone_start, lone_commit) = lone_starts(database, &mut raw).await?;
    let mut line = Line::new("engine").text("store", database.name());
    let mut best = 0.0_f64;
    for &count in clients {
        bar.set_message(format!("{count} clients"));
        let run = concurrent(database, count, Duration::from_secs(seconds)).await?;
        let rate = run.rate;
        best = if count == 256 { rate } else { best };
        line = line
            .number(&format!("workflows_per_s_{count}"), rate)
            .number(&format!("p50_ms_{count}"), run.latencies.percentile_ms(50.0))
            .number(&format!("p99_ms_{count}"), run.latencies.percentile_ms(99.0))
            .number(&format!("commits_per_workflow_{count}"), run.commits_per_workflow)
            .number(&format!("rows_per_workflow_{count}"), run.rows_per_workflow);
    }
    bar.set_message("raw driver again");
    let raw_after = raw::throughput(&mut raw, Duration::from_secs(seconds)).await?;
    bar.finish_and_clear();
    let raw_rate = (raw_before.rate + raw_after.rate) / 2.0;
    Ok(line
        .number("raw_workflows_per_s", raw_rate)
        .number("raw_rows_per_workflow", raw_before.rows_per_workflow)
        .number("ratio_256", best / raw_rate)
        .number("lone_start_p50_ms", lone_start.percentile_ms(50.0))
        .number("lone_commit_p50_ms", lone_commit.percentile_ms(50.0))
        .number("lone_start_ratio", lone_start.percentile_ms(50.0) / lone_commit.percentile_ms(50.0))
        .finish())
}

/// Starts one after the other, nobody else there; in turn with a bare commit of the same rows, so that both see
/// the same machine.
async fn lone_starts(database: Database, raw: &mut Raw) -> Result<(Latencies, Latencies), String> {
    let target = Target::new(database).await?;
    let (mut starts, mut commits) = (Latencies::default(), Latencies::default());
    for _ in 0..LONE_STARTS {
        commits.add(raw::lone_start(raw).await?);
        let begin = Instant::now();
        start(&target.service).await?;
        starts.add(begin.elapsed());
    }
    target.service.stop().await;
    Ok((starts, commits))
}

async fn start(service: &Service) -> Result<uuid::Uuid, String> {
    match service.call(TENANT, workload::start()).await {
        Ok(Reply::Started(started)) => Ok(started.execution_id),
        Ok(other) => Err(format!("unexpected reply {other:?}")),
        Err(refusal) => Err(refusal.to_string()),
    }
}

struct Run {
    rate: f64,
    latencies: Latencies,
    commits_per_workflow: f64,
    rows_per_workflow: f64,
}

async fn concurrent(database: Database, clients: usize, duration: Duration) -> Result<Run, String> {
    let target = Target::new(database).await?;
    let ends = Arc::new(Ends::default());
    let workers = worker::start(&target.service, &ends, 128);
    // Warm caches, prepared statements and connections before the clock starts.
    drive(&target.service, &ends, clients, duration / 4).await?;
    let before = target.service.stats().figures();
    let begin = Instant::now();
    let latencies = drive(&target.service, &ends, clients, duration).await?;
    let elapsed = begin.elapsed().as_secs_f64();
    let after = target.service.stats().figures();
    target.service.stop().await;
    for worker in workers {
        worker.await.map_err(|error| error.to_string())?;
    }
    let count = latencies.count().max(1) as f64;
    Ok(Run {
        rate: count / elapsed,
        commits_per_workflow: (after.commits - before.commits) as f64 / count,
        rows_per_workflow: (after.rows - before.rows) as f64 / count,
        latencies,
    })
}

/// Each client starts a workflow, waits for its end, and starts the next.
async fn drive(
    service: &Service,
    ends: &Arc<Ends>,
    clients: usize,
    duration: Duration,
) -> Result<Latencies, String> {
    let until = Instant::now() + duration;
    let client = || {
        let (service, ends) = (service.clone(), ends.clone());
        tokio::spawn(async move {
            let mut latencies = Latencies::default();
            while Instant::now() < until {
                let begin = Instant::now();
                ends.wait(start(&service).await?).await;
                latencies.add(begin.elapsed());
            }
            Ok::<_, String>(latencies)
        })
    };
    let mut all = Latencies::default();
    for result in join_all((0..clients).map(|_| client())).await {
        all.merge(result.map_err(|error| error.to_string())??);
    }
    Ok(all)
}
