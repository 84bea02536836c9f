//! Subscription billing: a charge each period until the customer cancels. The price may change in between.
//!
//! The history of an execution must not grow without limit, and a workflow cannot yet continue as a new execution
//! with an empty history. So an execution lasts twelve periods, and its last task starts the next execution with its
//! own key. To signal a subscription, use that key: `subscription/CUSTOMER/YEAR`.

use std::time::Duration;

use flovyn_sdk::{Client, Error, Result, StartOptions, TaskContext, WorkflowContext};
use flovyn_sdk::{tasks, with_timeout, workflow};
use serde::{Deserialize, Serialize};

use crate::{Connection, PATIENCE};

const PERIODS: u32 = 12;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub customer: String,
    pub cents: u32,
    pub period: Duration,
    /// Starts at 1.
    pub year: u32,
}

#[workflow]
pub async fn subscription(ctx: WorkflowContext, mut plan: Plan) -> Result<String> {
    let mut cancelled = ctx.wait_for_signal::<String>("cancel");
    for period in 1..=PERIODS {
        match with_timeout(&ctx, plan.period, &mut cancelled).await {
            Ok(why) => return Ok(format!("cancelled in period {period} of year {}: {why}", plan.year)),
            Err(Error::Elapsed(_)) => {}
            Err(error) => return Err(error),
        }
        if let Some(cents) = ctx.drain_signals::<u32>("price")?.pop() {
            plan.cents = cents;
        }
        ctx.schedule::<ChargeCustomer>(plan.clone()).await?;
        ctx.set_state("periods", &period)?;
    }
    plan.year += 1;
    ctx.schedule::<StartYear>(plan).await
}

/// The tasks, with a client because one of them starts an execution.
#[derive(Debug)]
pub struct Billing {
    client: Client,
}

#[tasks]
impl Billing {
    #[task]
    async fn charge_customer(&self, _: TaskContext, plan: Plan) -> Result<()> {
        println!("task      charge {} {} cents, year {}", plan.customer, plan.cents, plan.year);
        Ok(())
    }

    #[task(max_retries = 1_000)]
    async fn start_year(&self, _: TaskContext, plan: Plan) -> Result<String> {
        let key = Some(format!("subscription/{}/{}", plan.customer, plan.year));
        let options = StartOptions { idempotency_key: key, ..StartOptions::default() };
        let next = self.client.start_with_options::<Subscription>(plan, options).await?;
        Ok(format!("goes on as {}", next.id()))
    }
}

pub async fn example(server: Connection) -> Result<()> {
    let client = server.client()?;
    let worker = server.worker().workflow(Subscription).tasks(Billing { client: client.clone() });
    let worker = worker.build()?.start();
    let plan = Plan { customer: "Ada".into(), cents: 500, period: Duration::from_millis(200), year: 1 };
    let first = client.start::<Subscription>(plan.clone()).await?;
    first.signal("price", &600).await?;
    let gone_on = first.result(PATIENCE).await?;
    println!("result    {}", gone_on.split(" as ").next().unwrap_or_default());
    // The same key finds the execution that the task has started.
    let key = Some("subscription/Ada/2".to_owned());
    let options = StartOptions { idempotency_key: key, ..StartOptions::default() };
    let second = client.start_with_options::<Subscription>(Plan { year: 2, ..plan }, options).await?;
    second.signal("cancel", "too expensive").await?;
    let ended = second.result(PATIENCE).await?;
    println!("result    {}", ended.replace(char::is_numeric, "N"));
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use flovyn_sdk::testing::{TestEnvironment, TestRun};
    use serde_json::json;

    use super::*;

    const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);

    fn started() -> (TestRun, Arc<Mutex<Vec<u32>>>) {
        let charged = Arc::new(Mutex::new(Vec::new()));
        let charges = charged.clone();
        let environment = TestEnvironment::new()
            .mock::<ChargeCustomer>(move |plan| {
                charges.lock().expect("no test has panicked").push(plan.cents);
                Ok(())
            })
            .mock::<StartYear>(|plan| Ok(format!("year {}", plan.year)));
        let plan = Plan { customer: "Ada".into(), cents: 500, period: MONTH, year: 1 };
        (environment.start(Subscription, plan), charged)
    }

    #[tokio::test]
    async fn a_year_is_twelve_charges_and_the_start_of_the_next() -> Result<()> {
        let (mut run, charged) = started();
        run.advance(2 * MONTH).await?;
        run.signal("price", &600).await?;
        run.finish().await?;
        assert_eq!(run.output(), Some(&json!("year 2")));
        assert_eq!(*charged.lock().expect("no test has panicked"), [vec![500; 2], vec![600; 10]].concat());
        assert_eq!(run.elapsed(), 12 * MONTH);
        Ok(())
    }

    #[tokio::test]
    async fn who_cancels_is_charged_no_more() -> Result<()> {
        let (mut run, charged) = started();
        run.advance(MONTH * 3 / 2).await?;
        run.signal("cancel", "moved away").await?;
        assert_eq!(run.output(), Some(&json!("cancelled in period 2 of year 1: moved away")));
        assert_eq!(charged.lock().expect("no test has panicked").len(), 1);
        Ok(())
    }
}
