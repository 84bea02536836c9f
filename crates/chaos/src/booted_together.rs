//! Ten servers start at the same time on a database full of tasks whose workers are dead: each task is requeued once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use flovyn_engine::state::{Attempt, AttemptStatus, TaskStatus};
use flovyn_store::port::TaskFilter;
use futures::future::try_join_all;
use serde_json::json;
use uuid::Uuid;

use crate::check::Findings;
use crate::programs;
use crate::report::Figures;
use crate::world::{Plan, World};
use crate::{Options, WORKER_LEASE_MS};

const SERVERS: usize = 10;
const BULK: usize = 1_000;
/// Longer than the run.
const FOREVER_MS: u64 = 3_600_000;

pub(crate) async fn run(options: &Options, binary: &Path) -> Result<(Figures, Findings), String> {
    let (tasks, patience) = (options.tasks, Duration::from_secs(options.seconds.max(60)));
    let plan = Plan { servers: SERVERS, ..Plan::default() };
    let mut world = World::prepare(binary, options.store, plan).await?;
    let until = Instant::now() + patience;
    run_tasks(&mut world, tasks, until).await?;
    // The server is killed first: it would notice that its worker has died.
    world.servers[0].kill().await;
    for worker in world.workers.drain(..) {
        worker.kill().await;
    }
    let reader = world.store().await?;
    let tenant = reader.tenant_by_slug("chaos").await.map_err(|error| error.to_string())?;
    let tenant = tenant.ok_or("the tenant is not there")?.id;
    let running = TaskFilter { status: Some(TaskStatus::Running), ..TaskFilter::default() };
    let mut figures = Figures { acknowledged: tasks, kills: 2, kills_in_flight: 2, ..Figures::default() };
    let count = async || {
        reader.task_count(tenant, &running, tasks as i64 + 1).await.map_err(|error| error.to_string())
    };
    if count().await? != tasks as i64 {
        return Err(format!("{} of {tasks} tasks run when the servers start", count().await?));
    }
    tokio::time::sleep(Duration::from_millis(WORKER_LEASE_MS)).await;
    eprintln!("{tasks} tasks of a dead worker; {SERVERS} servers start");
    let begin = Instant::now();
    for server in &mut world.servers {
        server.start().map_err(|error| error.to_string())?;
    }
    try_join_all(world.servers.iter_mut().map(|server| server.ready(patience))).await?;
    figures.recovery_ms.push(begin.elapsed().as_millis() as u64);
    while count().await? > 0 {
        if Instant::now() > until {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    eprintln!("all are queued after {:?}", begin.elapsed());
    figures.redelivery_ms.push(begin.elapsed().as_millis() as u64);
    for server in &mut world.servers {
        server.kill().await;
    }
    let snapshot = reader.snapshot().await.map_err(|error| error.to_string())?;
    let now = reader.now().await.map_err(|error| error.to_string())?;
    let mut found = Findings::default();
    for violation in flovyn_engine::invariants::check(&snapshot, now) {
        found.broken(violation);
    }
    let mut by_task: BTreeMap<Uuid, Vec<&Attempt>> = BTreeMap::new();
    for attempt in &snapshot.attempts {
        by_task.entry(attempt.task_id).or_default().push(attempt);
    }
    for task in &snapshot.tasks {
        let attempts = by_task.get(&task.id).map_or(&[][..], Vec::as_slice);
        match (task.status, task.execution_count, attempts) {
            (TaskStatus::Pending, 1, [one]) if one.status == AttemptStatus::Timeout => {}
            (TaskStatus::Running, ..) => found.stuck += 1,
            _ => {
                found.duplicated += 1;
                found.messages.push(format!("task {} was not requeued exactly once: {attempts:?}", task.id));
            }
        }
    }
    found.lost = tasks.saturating_sub(snapshot.tasks.len());
    drop(reader);
    found.doctor(world.doctor().await?);
    Ok((figures, found))
}

/// Lets a worker claim all tasks and finish none.
async fn run_tasks(world: &mut World, tasks: usize, until: Instant) -> Result<(), String> {
    let server = &mut world.servers[0];
    server.start().map_err(|error| error.to_string())?;
    server.ready(until.saturating_duration_since(Instant::now())).await?;
    let client = world.clients()?.swap_remove(0);
    for first in (0..tasks).step_by(BULK) {
        let inputs = (first..tasks.min(first + BULK)).map(|n| json!({ "number": n, "work_ms": FOREVER_MS }));
        let made = client.submit_tasks_raw(programs::STEP, inputs.collect(), programs::patient()).await;
        made.map_err(|error| error.to_string())?;
    }
    world.start_worker_with(0, u32::try_from(tasks).unwrap_or(u32::MAX)).await?;
    while crate::runs::Runs::read(world.folder())?.count() < tasks {
        if Instant::now() > until {
            return Err("the worker did not get all tasks in time".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
