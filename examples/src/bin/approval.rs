//! A person decides: a promise with a key, by which anything outside can answer it, reminders while nobody does, and a
//! timeout after which nobody can.
//!
//! `cargo run -p flovyn-examples --bin approval`

use std::process::ExitCode;
use std::time::Duration;

use flovyn_examples::{Connection, PATIENCE, until_state};
use flovyn_sdk::{
    Error, PromiseOptions, Result, StartOptions, TaskContext, WorkflowContext, task, with_timeout, workflow,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Claim {
    /// Unique, because it is part of the promise's key.
    id: String,
    amount: u32,
    /// Here a second or two; in production, days.
    answer_within: Duration,
    /// The manager is reminded this often.
    remind_every: Duration,
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

#[task]
async fn remind_manager(_: TaskContext, claim: Claim) -> Result<()> {
    println!("task      mail to the manager: please answer to {}", promise_key(&claim.id));
    Ok(())
}

#[workflow]
async fn expense(ctx: WorkflowContext, claim: Claim) -> Result<String> {
    let options = PromiseOptions { timeout: Some(claim.answer_within), key: Some(promise_key(&claim.id)) };
    // Made before anybody is asked: an answer finds it.
    let mut decision = ctx.promise_with_options::<Decision>("decision", options);
    ctx.schedule::<AskManager>(claim.clone()).await?;
    ctx.set_state("step", "waiting")?;
    loop {
        match with_timeout(&ctx, claim.remind_every, &mut decision).await {
            Ok(Decision { approved: true, by }) => return Ok(format!("approved by {by}")),
            Ok(Decision { approved: false, by }) => return Ok(format!("declined by {by}")),
            // Only this wait is over. The promise can still be answered.
            Err(Error::Elapsed(_)) => ctx.schedule::<RemindManager>(claim.clone()).await?,
            // The promise itself is closed.
            Err(Error::Timeout(_)) => return Ok("declined: nobody answered in time".into()),
            Err(error) => return Err(error),
        }
    }
}

async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Expense).task(AskManager).task(RemindManager).build()?.start();
    let client = server.client()?;

    let id = Uuid::new_v4().to_string();
    let claim = Claim { id, amount: 120, answer_within: PATIENCE, remind_every: PATIENCE };
    // With a key of its own, a second click on "submit" starts no second workflow.
    let once = StartOptions { idempotency_key: Some(claim.id.clone()), ..StartOptions::default() };
    let handle = client.start_with_options::<Expense>(claim.clone(), once).await?;
    println!("started   workflow {}", handle.id());
    until_state(&handle, "step", "waiting").await?;
    println!("answer    approved, by its key: no workflow's id is needed");
    let decision = Decision { approved: true, by: "Grace".into() };
    client.resolve_promise(&format!("key:{}", promise_key(&claim.id)), &decision).await?;
    println!("result    {}", handle.result(PATIENCE).await?);

    let claim = Claim {
        id: Uuid::new_v4().to_string(),
        amount: 9_000,
        answer_within: Duration::from_secs(1),
        remind_every: Duration::from_millis(400),
    };
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

    const DAY: Duration = Duration::from_secs(24 * 3_600);
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

    fn started() -> TestRun {
        let claim = Claim { id: "7".into(), amount: 120, answer_within: WEEK, remind_every: 2 * DAY };
        let environment = TestEnvironment::new().task(AskManager).task(RemindManager);
        environment.evict_always().start(Expense, claim)
    }

    fn reminders(run: &TestRun) -> usize {
        run.commands().iter().filter(|command| command.contains("\"remind-manager\"")).count()
    }

    #[tokio::test]
    async fn the_manager_decides() -> Result<()> {
        for (approved, said) in [(true, "approved by Grace"), (false, "declined by Grace")] {
            let mut run = started();
            run.advance(WEEK / 2).await?;
            run.resolve_promise("decision", &Decision { approved, by: "Grace".into() }).await?;
            assert_eq!(run.output(), Some(&json!(said)));
            assert_eq!(reminders(&run), 1, "an answer ends the reminders");
        }
        Ok(())
    }

    #[tokio::test]
    async fn without_an_answer_it_is_declined_after_a_week() -> Result<()> {
        let mut run = started();
        run.finish().await?;
        assert_eq!(run.output(), Some(&json!("declined: nobody answered in time")));
        // The reminders come after two, four and six days.
        assert_eq!((run.elapsed(), reminders(&run)), (WEEK, 3));
        Ok(())
    }
}
