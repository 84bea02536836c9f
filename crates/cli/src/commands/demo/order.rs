//! The workflow that the demo shows: an order, from the card to the parcel. Its tasks only pretend to work, but they
//! take real time.

use std::time::Duration;

use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{
    Error, PromiseOptions, Result, RetryPolicy, TaskContext, TaskDefinition, TaskOptions, Worker,
    WorkflowContext, task, workflow,
};
use serde::{Deserialize, Serialize};

use crate::local::Credentials;

const PACKING: Duration = Duration::from_secs(2);
/// The id of the packing timer in the history. It is the workflow's only timer.
pub(super) const PACKING_TIMER: &str = "timer-1";
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(800), factor: 2.0, cap: Duration::from_secs(10) };

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Purchase {
    /// Unique, because it is part of the key of the approval.
    pub(super) id: String,
    pub(super) item: String,
    pub(super) price: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Approval {
    pub(super) by: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    order: String,
    shelf: String,
    risk: f64,
    payment: String,
    approved_by: String,
    parcel: String,
}

/// The key with which a person resolves the promise of an order's approval.
pub(super) fn approval_key(order: &str) -> String {
    format!("approve-{order}")
}

#[workflow]
async fn order(ctx: WorkflowContext, purchase: Purchase) -> Result<Receipt> {
    // Three tasks in parallel. If one fails, only that task is retried.
    let shelf = ctx.schedule::<ReserveStock>(purchase.item.clone());
    let risk = ctx.schedule::<CheckFraud>(purchase.clone());
    let retried = TaskOptions { retry: Some(RETRY), ..ChargeCard::options() };
    let payment = ctx.schedule_with_options::<ChargeCard>(purchase.clone(), retried);
    let (shelf, risk, payment) = (shelf.await?, risk.await?, payment.await?);

    // A person has to approve. While the workflow waits, it uses no resources except its rows.
    let options = PromiseOptions { key: Some(approval_key(&purchase.id)), timeout: None };
    let approval = ctx.promise_with_options::<Approval>("approval", options).await?;

    ctx.sleep(PACKING).await?;
    let parcel = ctx.schedule::<ShipParcel>(purchase.item).await?;
    Ok(Receipt { order: purchase.id, shelf, risk, payment, approved_by: approval.by, parcel })
}

#[task]
async fn reserve_stock(_: TaskContext, _item: String) -> Result<String> {
    work(400).await;
    Ok("B7".into())
}

#[task]
async fn check_fraud(_: TaskContext, _purchase: Purchase) -> Result<f64> {
    work(700).await;
    Ok(0.02)
}

#[task(max_retries = 5)]
async fn charge_card(ctx: TaskContext, purchase: Purchase) -> Result<String> {
    work(500).await;
    if ctx.attempt() == 1 {
        return Err(Error::failed("the bank did not answer"));
    }
    Ok(format!("{} EUR", purchase.price))
}

#[task]
async fn ship_parcel(_: TaskContext, item: String) -> Result<String> {
    work(600).await;
    Ok(format!("1 {item}"))
}

async fn work(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// A worker with this workflow and its tasks.
pub(super) fn worker(credentials: &Credentials, name: &str) -> Result<Worker> {
    let worker: WorkerBuilder = Worker::builder(&credentials.grpc_url, &credentials.worker_token);
    let worker = worker.name(name).drain_within(Duration::from_secs(2)).workflow(Order);
    worker.task(ReserveStock).task(CheckFraud).task(ChargeCard).task(ShipParcel).build()
}
