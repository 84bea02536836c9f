//! Workflows that stop at every possible point, and their tasks. Database fixtures contain their histories, and tests
//! finish them, so their code must not change.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{Error, PromiseOptions, Result, TaskContext, WorkflowContext, task, workflow};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Whether the blocking tasks and steps still block.
pub(crate) static STAND_STILL: AtomicBool = AtomicBool::new(false);

async fn stand_still() {
    if STAND_STILL.load(Ordering::SeqCst) {
        pending::<()>().await;
    }
}

#[task]
pub(crate) async fn double(_: TaskContext, number: u32) -> Result<u32> {
    Ok(number * 2)
}

/// Stays RUNNING while it blocks.
#[task]
pub(crate) async fn slow(_: TaskContext, number: u32) -> Result<u32> {
    stand_still().await;
    Ok(number + 1)
}

/// Stays between two attempts while it blocks.
#[task]
pub(crate) async fn flaky(_: TaskContext, number: u32) -> Result<u32> {
    if STAND_STILL.load(Ordering::SeqCst) {
        return Err(Error::failed("not yet"));
    }
    Ok(number + 2)
}

/// Completes.
#[workflow]
pub(crate) async fn quick(ctx: WorkflowContext, number: u32) -> Result<u32> {
    ctx.schedule::<Double>(number).await
}

/// Fails.
#[workflow]
pub(crate) async fn broken(ctx: WorkflowContext, number: u32) -> Result<u32> {
    let doubled = ctx.schedule::<Double>(number).await?;
    Err(Error::failed(format!("{doubled} is too much")))
}

/// Waits for an answer to a promise, with a timer and a state value.
#[workflow]
pub(crate) async fn waiting(ctx: WorkflowContext, key: String) -> Result<String> {
    let options = PromiseOptions { timeout: Some(3_000 * DAY), key: Some(key.clone()) };
    let answer = ctx.promise_with_options::<String>("answer", options);
    let _reminder = ctx.sleep(3_000 * DAY);
    let doubled = ctx.schedule::<Double>(21).await?;
    ctx.set_state("step", "waiting")?;
    let answer = answer.await?;
    Ok(format!("{key}: {answer} {doubled}"))
}

/// Waits for a child that waits for an answer.
#[workflow]
pub(crate) async fn parent(ctx: WorkflowContext, key: String) -> Result<String> {
    let child = ctx.schedule_workflow::<Waiting>("child", key).await?;
    Ok(format!("child says {child}"))
}

/// Waits for a timer.
#[workflow]
pub(crate) async fn sleeping(ctx: WorkflowContext, seconds: u64) -> Result<String> {
    ctx.sleep(Duration::from_secs(seconds)).await?;
    Ok("awake".into())
}

/// Waits for a task that runs on a worker.
#[workflow]
pub(crate) async fn in_task(ctx: WorkflowContext, number: u32) -> Result<u32> {
    ctx.schedule::<Slow>(number).await
}

/// Waits for the next attempt of a task.
#[workflow]
pub(crate) async fn between_attempts(ctx: WorkflowContext, number: u32) -> Result<u32> {
    ctx.schedule::<Flaky>(number).await
}

/// Runs a step, so the execution itself stays on a worker.
#[workflow]
pub(crate) async fn in_step(ctx: WorkflowContext, number: u32) -> Result<u32> {
    ctx.run_async("stand still", move || async move {
        stand_still().await;
        number
    })
    .await
}

/// A worker with all of these workflows and tasks.
pub(crate) fn all(worker: WorkerBuilder) -> WorkerBuilder {
    worker
        .workflow(Quick)
        .workflow(Broken)
        .workflow(Waiting)
        .workflow(Parent)
        .workflow(Sleeping)
        .workflow(InTask)
        .workflow(BetweenAttempts)
        .workflow(InStep)
        .task(Double)
        .task(Slow)
        .task(Flaky)
}
