//! The workflows and tasks for the pages of the guide: a small shop.

use flovyn_sdk::task::LogLevel;
use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{Error, PromiseOptions, Result, TaskContext, WorkflowContext, task, workflow};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A worker with all of these workflows and tasks.
pub fn worker(builder: WorkerBuilder) -> WorkerBuilder {
    let worker = builder.name("shop").workflow(Greeting).workflow(Order).workflow(Parcel).workflow(Expense);
    worker.task(ChargeCard).task(SendEmail)
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Guest {
    name: String,
}

#[workflow]
pub async fn greeting(_: WorkflowContext, guest: Guest) -> Result<String> {
    Ok(format!("Hello, {}!", guest.name))
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Purchase {
    item: String,
    cents: u32,
}

/// Has a task, a child, and a signal to wait for.
#[workflow]
pub async fn order(ctx: WorkflowContext, purchase: Purchase) -> Result<String> {
    let item = purchase.item.clone();
    let receipt = ctx.schedule::<ChargeCard>(purchase).await?;
    ctx.set_state("receipt", &receipt)?;
    let parcel = ctx.schedule_workflow::<Parcel>("parcel", item).await?;
    ctx.set_state("step", "waiting for a courier")?;
    let courier: String = ctx.wait_for_signal("courier").await?;
    Ok(format!("{parcel}, with {courier}"))
}

#[task]
pub async fn charge_card(_: TaskContext, purchase: Purchase) -> Result<String> {
    match purchase.cents {
        0 => {
            let free = Error::application("NOTHING_TO_PAY", "nothing costs nothing");
            Err(free.details(&json!({ "item": purchase.item })).retryable(false))?
        }
        cents => Ok(format!("{cents} cents paid")),
    }
}

#[workflow]
pub async fn parcel(_: WorkflowContext, item: String) -> Result<String> {
    Ok(format!("a parcel with 1 {item}"))
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Claim {
    /// Unique, because it is part of the promise's key.
    number: u32,
    cents: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Approval {
    by: String,
}

#[workflow]
pub async fn expense(ctx: WorkflowContext, claim: Claim) -> Result<String> {
    let options = PromiseOptions { key: Some(format!("expense-{}", claim.number)), timeout: None };
    let approval = ctx.promise_with_options::<Approval>("approval", options).await?;
    Ok(format!("{} cents, approved by {}", claim.cents, approval.by))
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Email {
    to: String,
    subject: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Sent {
    message_id: String,
}

/// One mailbox is full, until the third attempt.
#[task]
pub async fn send_email(ctx: TaskContext, email: Email) -> Result<Sent> {
    ctx.log(LogLevel::Info, &format!("attempt {} for {}", ctx.attempt(), email.to)).await;
    if email.to == "full@example.com" && ctx.attempt() <= 2 {
        return Err(Error::application("MAILBOX_FULL", "the mailbox is full").into());
    }
    ctx.report_progress(0.5, "the text is written").await;
    Ok(Sent { message_id: format!("{}-{}", email.subject.to_lowercase(), ctx.attempt()) })
}
