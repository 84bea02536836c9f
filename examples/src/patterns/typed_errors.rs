//! Typed errors: a workflow decides by the kind of a task's failure, and its client receives the kind and the
//! details.

use flovyn_sdk::{Error, Result, TaskContext, WorkflowContext, task, workflow};
use serde::{Deserialize, Serialize};

use crate::{Connection, PATIENCE};

const STOLEN: &str = "CARD_STOLEN";
const BUSY: &str = "BANK_BUSY";

/// The details of [`STOLEN`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Stolen {
    pub call: String,
}

#[task(max_retries = 3, retry_initial_ms = 50)]
pub async fn charge(ctx: TaskContext, card: String) -> Result<String> {
    match card.as_str() {
        "stolen" => {
            let stolen = Error::application(STOLEN, "the card was stolen").retryable(false);
            Err(stolen.details(&Stolen { call: "the police".into() }).into())
        }
        "busy" => Err(Error::application(BUSY, "try again later").into()),
        "slow" if ctx.attempt() == 1 => Err(Error::application(BUSY, "try again later").into()),
        card => Ok(format!("charged {card} in attempt {}", ctx.attempt())),
    }
}

#[workflow]
pub async fn pay(ctx: WorkflowContext, cards: Vec<String>) -> Result<String> {
    for card in cards {
        match ctx.schedule::<Charge>(card).await {
            // All attempts failed: another card may belong to another bank.
            Err(error) if error.kind() == BUSY => {}
            charged => return charged,
        }
    }
    Err(Error::application("NO_CARD_LEFT", "none of the banks answered").into())
}

pub async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Pay).task(Charge).build()?.start();
    let client = server.client()?;
    for cards in [&["slow"][..], &["busy", "good"], &["stolen", "good"], &["busy"]] {
        let handle = client.start::<Pay>(cards.iter().map(|card| (*card).to_owned()).collect()).await?;
        match handle.result(PATIENCE).await {
            Ok(paid) => println!("result    {paid}"),
            Err(error) => match error.details::<Stolen>()? {
                Some(stolen) => println!("result    {}: {error}, call {}", error.kind(), stolen.call),
                None => println!("result    {}: {error}", error.kind()),
            },
        }
    }
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::testing::{TestEnvironment, TestRun};
    use serde_json::json;

    use super::*;

    async fn paid(cards: &[&str]) -> Result<TestRun> {
        let cards = cards.iter().map(|card| (*card).to_owned()).collect();
        let mut run = TestEnvironment::new().task(Charge).start(Pay, cards);
        run.finish().await?;
        Ok(run)
    }

    #[tokio::test]
    async fn what_passes_is_tried_again_and_then_with_another_card() -> Result<()> {
        assert_eq!(paid(&["slow"]).await?.output(), Some(&json!("charged slow in attempt 2")));
        assert_eq!(paid(&["busy", "good"]).await?.output(), Some(&json!("charged good in attempt 1")));
        Ok(())
    }

    #[tokio::test]
    async fn a_stolen_card_ends_it_at_once() -> Result<()> {
        let run = paid(&["stolen", "good"]).await?;
        let error = run.error().expect("it failed");
        assert_eq!((error.kind(), error.is_retryable()), (STOLEN, false));
        assert_eq!(error.details()?, Some(Stolen { call: "the police".into() }));
        assert_eq!(run.commands().len(), 1);
        Ok(())
    }
}
