//! One-task workflows through the service, compared with the same row changes through the bare driver.

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

/// Number of single starts to measure.
const LONE_STARTS: usize = 500;

pub(crate) async fn run(database: Database, seconds: u64, clients: &[usize]) -> Result<String, String> {
    let bar = ProgressBar::new_spinner().with_message("single starts");
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut raw = Raw::open(database).await?;
    let (lone_start, lone_commit) = lone_starts(database, &mut raw).await?;
    let mut line = Line::new("engine").text("store", database.name());
    for &count in clients {
        bar.set_message(format!("{count} clients, alternating with the bare driver"));
        let run = concurrent(database, &mut raw, count, seconds).await?;
        line = line
            .number(&format!("workflows_per_s_{count}"), run.rate)
            .number(&format!("p50_ms_{count}"), run.latencies.percentile_ms(50.0))
            .number(&format!("p99_ms_{count}"), run.latencies.percentile_ms(99.0))
            .number(&format!("commits_per_workflow_{count}"), run.commits_per_workflow)
            .number(&format!("rows_per_workflow_{count}"), run.rows_per_workflow)
            .number(&format!("raw_workflows_per_s_{count}"), run.raw_rate)
            .number(&format!("raw_rows_per_workflow_{count}"), run.raw_rows_per_workflow)
            .number(&format!("ratio_{count}"), run.ratio);
    }
    bar.finish_and_clear();
    Ok(line
        .number("lone_start_p50_ms", lone_start.percentile_ms(50.0))
        .number("lone_commit_p50_ms", lone_commit.percentile_ms(50.0))
        .number("lone_start_ratio", lone_start.percentile_ms(50.0) / lone_commit.percentile_ms(50.0))
        .finish())
}

/// Measures starts one after the other, without other load. Each start alternates with a bare commit of the same rows,
/// so that both run under the same conditions.
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
    raw_rate: f64,
    ratio: f64,
    latencies: Latencies,
    commits_per_workflow: f64,
    rows_per_workflow: f64,
    raw_rows_per_workflow: f64,
}

/// Alternates one second of the service with one second of the bare driver, so that both run under the same conditions.
/// Returns the medians of all rounds.
async fn concurrent(database: Database, raw: &mut Raw, clients: usize, rounds: u64) -> Result<Run, String> {
    const SLICE: Duration = Duration::from_secs(1);
    let target = Target::new(database).await?;
    let ends = Arc::new(Ends::default());
    let workers = worker::start(&target.service, &ends, 128);
    // Warm caches, prepared statements and connections before the clock starts.
    drive(&target.service, &ends, clients, SLICE).await?;
    raw::throughput(raw, SLICE / 4).await?;
    let before = target.service.stats().figures();
    let mut latencies = Latencies::default();
    let (mut rates, mut raw_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut raw_rows_per_workflow = 0.0;
    for _ in 0..rounds.max(1) {
        let bare = raw::throughput(raw, SLICE).await?;
        let begin = Instant::now();
        let slice = drive(&target.service, &ends, clients, SLICE).await?;
        let rate = slice.count() as f64 / begin.elapsed().as_secs_f64();
        latencies.merge(slice);
        rates.push(rate);
        raw_rates.push(bare.rate);
        ratios.push(rate / bare.rate);
        raw_rows_per_workflow = bare.rows_per_workflow;
    }
    let after = target.service.stats().figures();
    target.service.stop().await;
    for worker in workers {
        worker.await.map_err(|error| error.to_string())?;
    }
    let count = latencies.count().max(1) as f64;
    Ok(Run {
        rate: median(&mut rates),
        raw_rate: median(&mut raw_rates),
        ratio: median(&mut ratios),
        commits_per_workflow: (after.commits - before.commits) as f64 / count,
        rows_per_workflow: (after.rows - before.rows) as f64 / count,
        raw_rows_per_workflow,
        latencies,
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
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
