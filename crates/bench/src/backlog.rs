//! Latency of a claim when a thousand tasks wait, and when a million do.

use std::time::{Duration, Instant};

use flovyn_engine::request::{CreateTask, CreateTasks, TaskSpec};
use flovyn_engine::state::WorkClass;
use flovyn_service::Service;
use futures::future::try_join_all;
use indicatif::{ProgressBar, ProgressStyle};
use uuid::Uuid;

use crate::figures::{Latencies, Line};
use crate::target::{Database, Target};
use crate::workload::{self, TENANT};

/// Claims to measure at each backlog size.
const CLAIMS: usize = 1_000;
/// Tasks in one request. `AT_ONCE` is the number of concurrent requests.
const BULK: usize = 1_000;
const AT_ONCE: usize = 4;

pub(crate) async fn run(database: Database, small: usize, large: usize) -> Result<String, String> {
    let target = Target::new(database).await?;
    let service = &target.service;
    fill(service, small.max(CLAIMS)).await?;
    let few = claims(service).await?;
    let begin = Instant::now();
    fill(service, large).await?;
    let enqueue_rate = large as f64 / begin.elapsed().as_secs_f64();
    let many = claims(service).await?;
    service.stop().await;
    Ok(Line::new("backlog")
        .text("store", database.name())
        .number("small", small as f64)
        .number("large", large as f64)
        .number("claim_p50_ms_small", few.percentile_ms(50.0))
        .number("claim_p99_ms_small", few.percentile_ms(99.0))
        .number("claim_p50_ms_large", many.percentile_ms(50.0))
        .number("claim_p99_ms_large", many.percentile_ms(99.0))
        .number("p99_ratio", many.percentile_ms(99.0) / few.percentile_ms(99.0))
        .number("enqueued_per_s", enqueue_rate)
        .finish())
}

async fn fill(service: &Service, count: usize) -> Result<(), String> {
    let style =
        ProgressStyle::with_template("{wide_bar} {pos}/{len} tasks").map_err(|error| error.to_string())?;
    let bar = ProgressBar::new(count as u64).with_style(style);
    let mut left = count;
    while left > 0 {
        let requests: Vec<usize> = (0..AT_ONCE)
            .map(|_| {
                let size = left.min(BULK);
                left -= size;
                size
            })
            .filter(|size| *size > 0)
            .collect();
        let added: usize = requests.iter().sum();
        try_join_all(requests.into_iter().map(|size| {
            let item = || CreateTask::standalone(TaskSpec::new(workload::TASK, workload::payload()));
            service.call(TENANT, CreateTasks { items: (0..size).map(|_| item()).collect() })
        }))
        .await
        .map_err(|refusal| refusal.to_string())?;
        bar.inc(added as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

async fn claims(service: &Service) -> Result<Latencies, String> {
    let claim = workload::claim(WorkClass::Task, 1, Uuid::from_u128(9));
    let mut latencies = Latencies::default();
    for _ in 0..CLAIMS {
        let begin = Instant::now();
        let claimed = service.poll(TENANT, claim.clone(), Duration::from_secs(5)).await;
        latencies.add(begin.elapsed());
        let claimed = claimed.map_err(|refusal| refusal.to_string())?;
        let Some(item) = claimed.tasks.first() else { return Err("a claim found nothing".to_owned()) };
        let done = workload::finish_task(item.task.id, item.token);
        service.call(TENANT, done).await.map_err(|refusal| refusal.to_string())?;
    }
    Ok(latencies)
}
