//! A saga: if a later step fails or the workflow is cancelled, the completed steps are undone.
//!
//! `cargo run -p flovyn-examples --bin order_saga`

use std::process::ExitCode;

use flovyn_examples::{Connection, PATIENCE, until_state};
use flovyn_sdk::{Client, Error, Result, TaskContext, WorkflowContext, task, workflow};
use serde::{Deserialize, Serialize};

/// The error kind that callers compare with.
const UNKNOWN_ADDRESS: &str = "UNKNOWN_ADDRESS";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Purchase {
    item: String,
    address: String,
}

#[task]
async fn reserve(_: TaskContext, item: String) -> Result<()> {
    println!("task      reserve {item}");
    Ok(())
}

#[task]
async fn release(_: TaskContext, item: String) -> Result<()> {
    println!("undo      release {item}");
    Ok(())
}

#[task]
async fn charge(_: TaskContext, item: String) -> Result<()> {
    println!("task      charge for {item}");
    Ok(())
}

#[task]
async fn refund(_: TaskContext, item: String) -> Result<()> {
    println!("undo      refund {item}");
    Ok(())
}

#[task]
async fn ship(_: TaskContext, purchase: Purchase) -> Result<String> {
    println!("task      ship {} to {}", purchase.item, purchase.address);
    if purchase.address.is_empty() {
        // A retry would not help.
        return Err(Error::application(UNKNOWN_ADDRESS, "nobody lives there").retryable(false).into());
    }
    Ok(format!("{} is on its way to {}", purchase.item, purchase.address))
}

/// The steps to undo if the order fails or is cancelled.
enum Undo {
    Release,
    Refund,
}

#[workflow]
async fn order(ctx: WorkflowContext, purchase: Purchase) -> Result<String> {
    let mut undo = Vec::new();
    let result = steps(&ctx, &purchase, &mut undo).await;
    if result.is_err() {
        // After a cancel request, every call on the plain context fails at once. Calls on the shielded context
        // continue, without a time limit unless `#[workflow(cancel_grace = "10m")]` or the start sets one.
        let shielded = ctx.shielded();
        for step in undo.into_iter().rev() {
            match step {
                Undo::Release => shielded.schedule::<Release>(purchase.item.clone()).await?,
                Undo::Refund => shielded.schedule::<Refund>(purchase.item.clone()).await?,
            }
        }
    }
    result
}

/// Records the undo step before each step, because a step that fails may still have had its effect. So undoing a step
/// that never happened must be safe.
async fn steps(ctx: &WorkflowContext, purchase: &Purchase, undo: &mut Vec<Undo>) -> Result<String> {
    undo.push(Undo::Release);
    ctx.schedule::<Reserve>(purchase.item.clone()).await?;
    undo.push(Undo::Refund);
    ctx.schedule::<Charge>(purchase.item.clone()).await?;
    ctx.set_state("step", "packing")?;
    ctx.wait_for_signal::<()>("packed").await?;
    ctx.schedule::<Ship>(purchase.clone()).await
}

async fn buy(client: &Client, item: &str, address: &str, cancel: bool) -> Result<()> {
    println!("\nstarted   order of {item}");
    let purchase = Purchase { item: item.into(), address: address.into() };
    let handle = client.start::<Order>(purchase).await?;
    until_state(&handle, "step", "packing").await?;
    if cancel {
        println!("cancel    changed my mind");
        handle.cancel("changed my mind").await?;
    } else {
        println!("signal    packed");
        handle.signal("packed", &()).await?;
    }
    match handle.result(PATIENCE).await {
        Ok(output) => println!("result    {output}"),
        Err(error @ Error::Cancelled(_)) => println!("result    {error}"),
        // The kind that the task set, passed on by the workflow.
        Err(error) if error.kind() == UNKNOWN_ADDRESS => println!("result    failed: {error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Order).task(Reserve).task(Release).task(Charge).task(Refund);
    let worker = worker.task(Ship).build()?.start();
    let client = server.client()?;
    buy(&client, "a lamp", "1 Main Street", false).await?;
    buy(&client, "a chair", "", false).await?;
    buy(&client, "a table", "1 Main Street", true).await?;
    worker.stop().await;
    Ok(())
}

fn main() -> ExitCode {
    flovyn_examples::run(example)
}
