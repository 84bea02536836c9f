//! A task that kills every worker that runs it. It is handed out until its retries are used up, and then fails. Work of
//! others on the killed workers is not lost.

use std::path::Path;
use std::time::{Duration, Instant};

use flovyn_engine::state::TaskStatus;
use flovyn_sdk::TaskOptions;
use serde_json::{Value, json};

use crate::Options;
use crate::check::Findings;
use crate::programs;
use crate::report::Figures;
use crate::runs::now_ms;
use crate::world::{Plan, World};

const MAX_RETRIES: u32 = 3;
const STRANGERS: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) async fn run(options: &Options, binary: &Path) -> Result<(Figures, Findings), String> {
    let mut world = World::start(binary, options.store, Plan { workers: 2, ..Plan::default() }).await?;
    let client = world.clients()?.swap_remove(0);
    let poison = TaskOptions { max_retries: Some(MAX_RETRIES), ..programs::patient() };
    let poison = client.submit_task_raw(programs::POISON, json!({}), poison).await;
    let poison = poison.map_err(|error| error.to_string())?;
    let strangers = (0..STRANGERS).map(|number| json!({ "number": number, "work_ms": 200 })).collect();
    let strangers = client.submit_tasks_raw(programs::STEP, strangers, programs::patient()).await;
    let strangers = strangers.map_err(|error| error.to_string())?;
    let mut figures = Figures { acknowledged: 1 + STRANGERS, ..Figures::default() };
    let mut silenced = Vec::new();
    let until = Instant::now() + Duration::from_secs(options.seconds.max(60));
    let mut found = Findings::default();
    let patience = until.saturating_duration_since(Instant::now());
    let poisoned = client.task::<Value>(poison);
    let mut ending = Box::pin(poisoned.result(patience));
    let ended = loop {
        for index in (0..world.workers.len()).rev() {
            if world.workers[index].has_ended() {
                figures.kills += 1;
                silenced.push((world.workers.swap_remove(index).id, now_ms()));
                eprintln!("the poison has killed {} workers", figures.kills);
                world.start_worker(index).await?;
            }
        }
        tokio::select! {
            ended = &mut ending => break ended,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    };
    if let Ok(value) = ended {
        found.wrong(format!("the poison completed with {value}"));
    }
    for (number, id) in (0_u64..).zip(strangers) {
        let patience = until.saturating_duration_since(Instant::now());
        let result: Result<Value, _> = client.task(id).result(patience).await;
        match result.map(|value| value["number"].as_u64()) {
            Ok(Some(result)) if result == number + 1 => {}
            other => found.wrong(format!("the innocent task {number} ended with {other:?}")),
        }
    }
    figures.kills_in_flight = figures.kills;
    let store = world.end().await?;
    let snapshot = store.snapshot().await.map_err(|error| error.to_string())?;
    drop(store);
    match snapshot.tasks.iter().find(|task| task.id == poison) {
        None => found.lost("the poison does not exist"),
        Some(task) if task.status == TaskStatus::Failed && task.execution_count == i64::from(MAX_RETRIES) => {
        }
        Some(task) => {
            let (status, given) = (task.status, task.execution_count);
            found.wrong(format!("the poison is {status:?} after it was handed out {given} times"));
        }
    }
    figures.redelivery_ms = crate::measured::redeliveries_ms(&snapshot, &silenced);
    found.doctor(world.doctor().await?);
    Ok((figures, found))
}
