//! Timers: an invoice, and reminders until it is paid. Here a reminder comes every half second; the same code can
//! sleep for months.
//!
//! `cargo run -p flovyn-examples --bin reminder`

use std::process::ExitCode;
use std::time::Duration;

use flovyn_examples::{Connection, PATIENCE, until_state};
use flovyn_sdk::{Error, Result, TaskContext, WorkflowContext, task, with_timeout, workflow};

const PAUSE: Duration = Duration::from_millis(500);
const REMINDERS: u32 = 3;

#[task]
async fn send_mail(_: TaskContext, text: String) -> Result<()> {
    println!("task      mail: {text}");
    Ok(())
}

#[workflow]
async fn invoice(ctx: WorkflowContext, customer: String) -> Result<String> {
    ctx.schedule::<SendMail>(format!("{customer}, here is your invoice")).await?;
    let mut paid = ctx.wait_for_signal::<u32>("paid");
    for reminder in 1..=REMINDERS {
        // The timer is kept by the server: no worker needs to run while it waits.
        match with_timeout(&ctx, PAUSE, &mut paid).await {
            Ok(amount) => return Ok(format!("{customer} has paid {amount}")),
            Err(Error::Elapsed(_)) => {}
            Err(error) => return Err(error),
        }
        ctx.schedule::<SendMail>(format!("{customer}, this is reminder {reminder}")).await?;
        ctx.set_state("reminders", &reminder.to_string())?;
    }
    Ok(format!("{customer} does not pay: over to the lawyers"))
}

async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Invoice).task(SendMail).build()?.start();
    let client = server.client()?;

    let handle = client.start::<Invoice>("Ada".into()).await?;
    println!("started   workflow {}", handle.id());
    until_state(&handle, "reminders", "2").await?;
    println!("signal    paid");
    handle.signal("paid", &250).await?;
    println!("result    {}", handle.result(PATIENCE).await?);

    let handle = client.start::<Invoice>("Bob".into()).await?;
    println!("\nstarted   workflow {}", handle.id());
    println!("result    {}", handle.result(PATIENCE).await?);
    worker.stop().await;
    Ok(())
}

fn main() -> ExitCode {
    flovyn_examples::run(example)
}
