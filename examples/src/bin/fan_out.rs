//! Fan-out and fan-in: each document goes through two tasks, all documents in parallel, and a last task adds up the
//! results.
//!
//! `cargo run -p flovyn-examples --bin fan_out`

use std::process::ExitCode;

use flovyn_examples::{Connection, PATIENCE};
use flovyn_sdk::{Result, TaskContext, WorkflowContext, join_all, task, workflow};

#[task]
async fn fetch(_: TaskContext, number: usize) -> Result<String> {
    println!("task      fetch document {number}");
    Ok("word ".repeat(number))
}

#[task]
async fn count_words(_: TaskContext, text: String) -> Result<usize> {
    let count = text.split_whitespace().count();
    println!("task      counted {count} words");
    Ok(count)
}

#[task]
async fn add(_: TaskContext, counts: Vec<usize>) -> Result<usize> {
    println!("task      add {counts:?}");
    Ok(counts.into_iter().sum())
}

#[workflow]
async fn word_count(ctx: WorkflowContext, documents: usize) -> Result<usize> {
    // A document is counted as soon as it is fetched, without waiting for the others.
    let ctx = &ctx;
    let pipelines = (1..=documents).map(|number| async move {
        let text = ctx.schedule::<Fetch>(number).await?;
        ctx.schedule::<CountWords>(text).await
    });
    let counts: Result<Vec<usize>> = join_all(pipelines).await.into_iter().collect();
    ctx.schedule::<Add>(counts?).await
}

async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(WordCount).task(Fetch).task(CountWords).task(Add);
    let worker = worker.build()?.start();
    let handle = server.client()?.start::<WordCount>(8).await?;
    println!("started   workflow {} over 8 documents", handle.id());
    println!("result    {} words", handle.result(PATIENCE).await?);
    worker.stop().await;
    Ok(())
}

fn main() -> ExitCode {
    flovyn_examples::run(example)
}
