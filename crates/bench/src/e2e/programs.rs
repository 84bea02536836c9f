//! The workflows and tasks of the end-to-end benchmark's worker process, and the worker itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flovyn_sdk::worker::{WorkerBuilder, WorkerHandle};
use flovyn_sdk::{Result, TaskContext, Worker, WorkflowContext, join_all};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// Slots of the worker: more than the benchmark has in flight, so that the worker is never the limit.
const SLOTS: u32 = 2_000;
const CACHED: usize = 20_000;
/// How long the workflow with a timer sleeps.
pub(super) const SLEEP: Duration = Duration::from_millis(100);
/// The task that returns its input. Most workloads run it.
pub(super) const ECHO: &str = "echo";

/// Runs tasks one after the other. The output of each task is the input of the next.
async fn chain(ctx: &WorkflowContext, mut value: Value, length: usize) -> Result<Value> {
    for _ in 0..length {
        value = ctx.schedule_raw(ECHO, value).await?;
    }
    Ok(value)
}

async fn side_by_side(ctx: &WorkflowContext, count: usize) -> Result<()> {
    let tasks = (0..count).map(|number| ctx.schedule_raw(ECHO, json!(number)));
    join_all(tasks).await.into_iter().collect::<Result<Vec<Value>>>().map(|_| ())
}

fn programs(builder: WorkerBuilder) -> WorkerBuilder {
    builder
        .task_fn(ECHO, |_: TaskContext, input| async { Ok(input) })
        .task_fn("started-after", |_: TaskContext, sent: Value| async move {
            Ok(json!(micros().saturating_sub(sent.as_u64().unwrap_or_default())))
        })
        .workflow_fn("noop", |_, input| async { Ok(input) })
        .workflow_fn("task1", |ctx, input| async move { chain(&ctx, input, 1).await })
        .workflow_fn("chain3", |ctx, input| async move { chain(&ctx, input, 3).await })
        .workflow_fn("run3", |ctx, _| async move {
            let mut sum = 0;
            for step in 1..=3_u64 {
                sum += ctx.run("step", move || step).await?;
            }
            Ok(json!(sum))
        })
        .workflow_fn("fanout100", |ctx, input| async move {
            side_by_side(&ctx, 100).await?;
            Ok(input)
        })
        .workflow_fn("timer100ms", |ctx, _| async move {
            let begin = ctx.current_time_millis();
            ctx.sleep(SLEEP).await?;
            let slept_ms = ctx.current_time_millis() - begin;
            Ok(json!({ "execution": ctx.execution_id().to_string(), "sleptMs": slept_ms }))
        })
        .workflow_fn("replay10k", |ctx, tasks| async move {
            side_by_side(&ctx, usize::try_from(tasks.as_u64().unwrap_or_default()).unwrap_or_default())
                .await?;
            ctx.set_state("built", &true)?;
            ctx.wait_for_signal::<()>("go").await?;
            Ok(json!("replayed"))
        })
}

/// Microseconds since 1970. Processes on one machine can compare them.
pub(super) fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or_default()
}

/// Runs a worker for each token until standard input is closed, which happens when the benchmark ends. Prints `ready`
/// once all workers are connected. For each line with a number on standard input, prints `done` when this many results
/// have been acknowledged. A paused worker takes no task before the first line.
pub(crate) async fn worker(url: &str, tokens: &[String], paused: bool) -> std::result::Result<(), String> {
    let (connected, mut connects) = tokio::sync::mpsc::unbounded_channel();
    let mut workers = Vec::new();
    for token in tokens {
        let connected = connected.clone();
        let builder = Worker::builder(url, token)
            .max_workflows(SLOTS)
            .max_tasks(SLOTS)
            .cache_size(CACHED)
            .on_event(move |event| drop(connected.send(event.clone())));
        let builder = if paused { builder.paused() } else { builder };
        workers.push(programs(builder).build().map_err(|error| error.to_string())?.start());
        connects.recv().await.ok_or("the worker did not connect")?;
    }
    let mut input = BufReader::new(tokio::io::stdin());
    let mut output = tokio::io::stdout();
    let mut line = String::new();
    say(&mut output, "ready").await?;
    while input.read_line(&mut line).await.map_err(|error| error.to_string())? > 0 {
        let wanted: u64 = line.trim().parse().unwrap_or_default();
        line.clear();
        workers.iter().for_each(WorkerHandle::resume);
        while workers.iter().map(|worker| worker.metrics().tasks_acknowledged()).sum::<u64>() < wanted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        say(&mut output, "done").await?;
    }
    // Work in flight is aborted: the benchmark does not need its results.
    for worker in workers {
        worker.abort();
    }
    let _ = input.read_to_string(&mut line).await;
    Ok(())
}

async fn say(output: &mut tokio::io::Stdout, what: &str) -> std::result::Result<(), String> {
    let said = output.write_all(format!("{what}\n").as_bytes()).await;
    said.map_err(|error| error.to_string())?;
    output.flush().await.map_err(|error| error.to_string())
}
