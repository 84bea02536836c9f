//! One workflow and one task: the smallest program.
//!
//! `cargo run -p flovyn-examples --bin hello`

use std::process::ExitCode;

use flovyn_examples::{Connection, PATIENCE};
use flovyn_sdk::{Result, TaskContext, WorkflowContext, task, workflow};

/// A task may do I/O: call a service, write a file. If it fails, it is retried.
#[task(max_retries = 5, timeout_secs = 30)]
async fn compose_greeting(ctx: TaskContext, name: String) -> Result<String> {
    println!("task      composing a greeting for {name}, attempt {}", ctx.attempt());
    Ok(format!("Hello, {name}!"))
}

/// A workflow survives crashes: it is replayed from its history and continues where it was. So it must not do I/O
/// itself (not even print); it schedules tasks.
#[workflow]
async fn hello(ctx: WorkflowContext, name: String) -> Result<String> {
    ctx.schedule::<ComposeGreeting>(name).await
}

async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Hello).task(ComposeGreeting).build()?.start();
    let handle = server.client()?.start::<Hello>("Ada".into()).await?;
    println!("started   workflow {}", handle.id());
    println!("result    {}", handle.result(PATIENCE).await?);
    for event in handle.history().await? {
        println!("history   {} {}", event.sequence, event.kind);
    }
    worker.stop().await;
    Ok(())
}

fn main() -> ExitCode {
    flovyn_examples::run(example)
}
