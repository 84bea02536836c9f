//! CPU and memory that many waiting workflows and timers cost while nothing happens.

use std::time::{Duration, Instant};

use flovyn_engine::Reply;
use flovyn_engine::request::{Command, Outcome, StartWorkflows, SubmitActivation};
use flovyn_engine::state::{ClockKind, WorkClass};
use flovyn_service::Service;
use futures::future::try_join_all;
use indicatif::{ProgressBar, ProgressStyle};
use uuid::Uuid;

use crate::figures::{Line, cpu_seconds, resident_mb};
use crate::target::{Database, Target};
use crate::workload::{self, TENANT};

const BULK: usize = 500;
/// Long enough that no timer fires during the measurement.
const TIMER_MS: i64 = 24 * 60 * 60 * 1_000;

pub(crate) async fn run(database: Database, workflows: usize, seconds: u64) -> Result<String, String> {
    let target = Target::new(database).await?;
    // The first tenth fills caches and pools. Memory that is added after it is proportional to the number of workflows.
    let first = workflows / 10;
    wait_in(&target.service, first).await?;
    let resident_first = resident_mb();
    wait_in(&target.service, workflows - first).await?;
    let resident_all = resident_mb();
    settle(&target.service).await?;
    let (cpu, begin) = (cpu_seconds(), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let used = (cpu_seconds() - cpu) / begin.elapsed().as_secs_f64();
    target.service.stop().await;
    Ok(Line::new("idle")
        .text("store", database.name())
        .number("workflows", workflows as f64)
        .number("cpu_percent_of_a_core", used * 100.0)
        .number("resident_mb_at_a_tenth", resident_first)
        .number("resident_mb_at_all", resident_all)
        .finish())
}

/// Waits until the lease alarms of the latest claims have fired. Each alarm fires once, has no effect and is deleted.
async fn settle(service: &Service) -> Result<(), String> {
    let bar = ProgressBar::new_spinner().with_message("waiting for the leases of the last claims to expire");
    bar.enable_steady_tick(Duration::from_millis(200));
    while service.store().due_next(ClockKind::Lease).await.map_err(|error| error.to_string())?.is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Starts workflows and lets each wait for a timer.
async fn wait_in(service: &Service, count: usize) -> Result<(), String> {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} workflows")
        .map_err(|error| error.to_string())?;
    let bar = ProgressBar::new(count as u64).with_style(style);
    let mut left = count;
    while left > 0 {
        let size = left.min(BULK);
        let items = (0..size).map(|_| workload::start()).collect();
        let reply = service.call(TENANT, StartWorkflows { items }).await;
        let Ok(Reply::StartedMany(started)) = reply else {
            return Err(format!("unexpected reply {reply:?}"));
        };
        let mut suspended = 0;
        while suspended < started.len() {
            suspended += suspend_some(service).await?;
        }
        left -= size;
        bar.inc(size as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

async fn suspend_some(service: &Service) -> Result<usize, String> {
    let claim = workload::claim(WorkClass::Workflow, BULK, Uuid::from_u128(9));
    let claimed =
        service.poll(TENANT, claim, Duration::from_secs(5)).await.map_err(|refusal| refusal.to_string())?;
    let submits = claimed.workflows.iter().map(|item| {
        let timer = Command::StartTimer { timer_id: "sleep-1".into(), duration_ms: TIMER_MS };
        let submit = SubmitActivation {
            execution_id: item.execution.id,
            token: Some(item.token),
            base_sequence: Some(item.execution.last_sequence),
            commands: vec![timer],
            outcome: Outcome::Suspended,
            unread_signals: 0,
            first_number: None,
            build_id: None,
            clean_up: None,
        };
        service.call(TENANT, submit)
    });
    let done = try_join_all(submits).await.map_err(|refusal| refusal.to_string())?;
    Ok(done.len())
}
