//! Human approval: a promise with a key, so that any system can resolve it without its id, and a timeout in case
//! nobody decides.
//!
//! `cargo run -p flovyn-examples --bin approval`

use std::process::ExitCode;
use std::time::Duration;

use flovyn_examples::{Connection, PATIENCE, until_state};
use flovyn_sdk::{Error, PromiseOptions, Result, StartOptions, TaskContext, WorkflowContext, task, workflow};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Claim {
    /// Unique, because it is part of the promise's key.
    id: String,
    amount: u32,
    /// A second or two in this example; days in production.
    answer_within: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
struct Decision {
    approved: bool,
    by: String,
}

fn promise_key(claim: &str) -> String {
    format!("expense-{claim}")
}

#[task]
async fn ask_manager(_: TaskContext, claim: Claim) -> Result<()> {
    println!(
        "task      mail to the manager: may we spend {}? answer to {}",
        claim.amount,
        promise_key(&claim.id)
    );
    Ok(())
}

#[workflow]
async fn expense(ctx: WorkflowContext, claim: Claim) -> Result<String> {
    let options = PromiseOptions { timeout: Some(claim.answer_within), key: Some(promise_key(&claim.id)) };
    // Created before the mail is sent, so that even an immediate answer finds the promise.
    let decision = ctx.promise_with_options::<Decision>("decision", options);
    ctx.schedule::<AskManager>(claim).await?;
    ctx.set_state("step", "waiting")?;
    match decision.await {
        Ok(Decision { approved: true, by }) => Ok(format!("approved by {by}")),
        Ok(Decision { approved: false, by }) => Ok(format!("declined by {by}")),
        Err(Error::Timeout(_)) => Ok("declined: nobody answered in time".into()),
        Err(error) => Err(error),
    }
}

async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Expense).task(AskManager).build()?.start();
    let client = server.client()?;

    let claim = Claim { id: Uuid::new_v4().to_string(), amount: 120, answer_within: PATIENCE };
    // With its own idempotency key, a second click on "submit" does not start a second workflow.
    let once = StartOptions { idempotency_key: Some(claim.id.clone()), ..StartOptions::default() };
    let handle = client.start_with_options::<Expense>(claim.clone(), once).await?;
    println!("started   workflow {}", handle.id());
    until_state(&handle, "step", "waiting").await?;
    println!("answer    approved, by its key: no workflow's id is needed");
    let decision = Decision { approved: true, by: "Grace".into() };
    client.resolve_promise(&format!("key:{}", promise_key(&claim.id)), &decision).await?;
    println!("result    {}", handle.result(PATIENCE).await?);

    let claim =
        Claim { id: Uuid::new_v4().to_string(), amount: 9_000, answer_within: Duration::from_secs(1) };
    let handle = client.start::<Expense>(claim).await?;
    println!("\nstarted   workflow {}, which nobody answers", handle.id());
    println!("result    {}", handle.result(PATIENCE).await?);
    worker.stop().await;
    Ok(())
}

fn main() -> ExitCode {
    flovyn_examples::run(example)
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::testing::{TestEnvironment, TestRun};
    use serde_json::json;

    use super::*;

    const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

    fn started() -> TestRun {
        let claim = Claim { id: "7".into(), amount: 120, answer_within: WEEK };
        TestEnvironment::new().task(AskManager).evict_always().start(Expense, claim)
    }

    #[tokio::test]
    async fn the_manager_decides() -> Result<()> {
        for (approved, said) in [(true, "approved by Grace"), (false, "declined by Grace")] {
            let mut run = started();
            run.advance(WEEK / 2).await?;
            run.resolve_promise("decision", &Decision { approved, by: "Grace".into() }).await?;
            assert_eq!(run.output(), Some(&json!(said)));
        }
        Ok(())
    }

    #[tokio::test]
    async fn without_an_answer_it_is_declined_after_a_week() -> Result<()> {
        let mut run = started();
        run.finish().await?;
        assert_eq!(run.output(), Some(&json!("declined: nobody answered in time")));
        assert_eq!(run.elapsed(), WEEK);
        Ok(())
    }
}
