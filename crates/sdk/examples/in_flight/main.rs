//! Fills a database with in-flight work: executions of every status, timers, promises, keys, children, and claims of
//! a worker that disappears. Test fixtures are created with it (see `crates/cli/tests/upkeep/fixtures/README.md`).
//!
//! `FLOVYN_GRPC_URL=... FLOVYN_WORKER_TOKEN=... cargo run -p flovyn-sdk --example in_flight`

mod workflows;

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flovyn_sdk::{Client, Error, Result, StartOptions, Worker, WorkflowHandle};
use serde_json::json;

use workflows::*;

fn keyed(name: &str) -> StartOptions {
    let ttl = Some(Duration::from_secs(30 * 24 * 3_600));
    StartOptions {
        idempotency_key: Some(name.to_owned()),
        idempotency_key_ttl: ttl,
        ..StartOptions::default()
    }
}

async fn until<T>(workflow: &WorkflowHandle<T>, status: &str) -> Result<()> {
    for _ in 0..500 {
        if workflow.describe().await?.status == status {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(Error::failed(format!("{:?} does not get there", workflow.describe().await?)))
}

async fn fill(url: &str, token: &str) -> Result<()> {
    let client = Client::new(url, token)?;
    STAND_STILL.store(true, Ordering::SeqCst);
    let worker = all(Worker::builder(url, token)).name("gone").build()?.start();

    for number in 0..3 {
        client.start::<Quick>(number).await?.result(Duration::from_secs(20)).await?;
    }
    let broken = client.start::<Broken>(7).await?;
    until(&broken, "FAILED").await?;
    let stopped = client.start_with_options::<Waiting>("stopped".into(), keyed("stopped")).await?;
    until(&stopped, "WAITING").await?;
    stopped.terminate("no longer wanted").await?;

    for number in 0..3 {
        let key = format!("answer-{number}");
        until(&client.start_with_options::<Waiting>(key.clone(), keyed(&key)).await?, "WAITING").await?;
    }
    until(&client.start::<Parent>("answer-child".into()).await?, "WAITING").await?;
    until(&client.start::<Sleeping>(20).await?, "WAITING").await?;
    until(&client.start::<InTask>(1).await?, "WAITING").await?;
    until(&client.start::<BetweenAttempts>(1).await?, "WAITING").await?;
    until(&client.start::<InStep>(5).await?, "RUNNING").await?;
    client.submit_task::<Slow>(10).await?;
    // Handed to the worker before it disappears.
    tokio::time::sleep(Duration::from_secs(2)).await;
    worker.abort();

    client.start_with_options::<Quick>(100, keyed("pending")).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let later = i64::try_from(now.as_millis()).unwrap_or(i64::MAX) + 10_000;
    let delayed = StartOptions { scheduled_at_ms: Some(later), ..StartOptions::default() };
    client.start_with_options::<Quick>(101, delayed).await?;
    client.submit_task_raw("double", json!(4), Default::default()).await?;
    Ok(())
}

#[tokio::main]
async fn main() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("set {name}"));
    let done = fill(&variable("FLOVYN_GRPC_URL"), &variable("FLOVYN_WORKER_TOKEN")).await;
    // Exits without a graceful stop.
    std::process::exit(match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    });
}
