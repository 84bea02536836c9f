//! A shopping cart as an entity: one execution per customer, with a workflow key and controlled by signals. It lives
//! until checkout, or until it has not changed for a day.
//!
//! A cart with thousands of changes would have to continue as a new execution with an empty history. Workflows do not
//! support this yet, so the number of changes is limited.

use std::collections::BTreeMap;
use std::time::Duration;

use flovyn_sdk::{Client, Error, Result, WorkflowContext, WorkflowHandle, with_timeout, workflow};
use serde::{Deserialize, Serialize};

use crate::{Connection, PATIENCE};

const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3_600);
const MAX_CHANGES: usize = 1_000;

/// The changes of a cart. All use one signal, so that they are applied in the order in which they are sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Change {
    Add { item: String, count: u32 },
    Remove { item: String },
    CheckOut,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub items: BTreeMap<String, u32>,
    pub checked_out: bool,
}

#[workflow]
pub async fn cart(ctx: WorkflowContext, _customer: String) -> Result<Receipt> {
    let mut receipt = Receipt::default();
    for _ in 0..MAX_CHANGES {
        // A change that arrives together with the checkout still counts.
        if receipt.checked_out && !ctx.has_signal("change") {
            break;
        }
        match with_timeout(&ctx, ABANDONED_AFTER, ctx.wait_for_signal("change")).await {
            Ok(Change::Add { item, count }) => *receipt.items.entry(item).or_default() += count,
            Ok(Change::Remove { item }) => drop(receipt.items.remove(&item)),
            Ok(Change::CheckOut) => receipt.checked_out = true,
            Err(Error::Elapsed(_)) => break,
            Err(error) => return Err(error),
        }
        ctx.set_state("items", &receipt.items)?;
    }
    Ok(receipt)
}

/// Sends a change to the customer's cart. Starts the cart if there is none.
///
/// # Errors
/// Fails if the server refuses the request or cannot be reached.
pub async fn change(client: &Client, customer: &str, change: &Change) -> Result<WorkflowHandle<Receipt>> {
    let key = format!("cart/{customer}");
    client.signal_with_start::<Cart, _>(&key, customer.to_owned(), "change", change).await
}

fn add(item: &str, count: u32) -> Change {
    Change::Add { item: item.to_owned(), count }
}

pub async fn example(server: Connection) -> Result<()> {
    let worker = server.worker().workflow(Cart).build()?.start();
    let client = server.client()?;
    let first = change(&client, "Ada", &add("lamp", 1)).await?;
    let other = change(&client, "Grace", &add("chair", 4)).await?;
    let second = change(&client, "Ada", &add("lamp", 2)).await?;
    println!(
        "carts     one of Ada: {}, another one of Grace: {}",
        first.id() == second.id(),
        first.id() != other.id()
    );
    change(&client, "Ada", &Change::CheckOut).await?;
    println!("result    {:?}", first.result(PATIENCE).await?);
    let new = change(&client, "Ada", &add("table", 1)).await?;
    println!("carts     a new one of Ada after the checkout: {}", new.id() != first.id());
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::testing::{TestEnvironment, TestRun};

    use super::*;

    fn started() -> TestRun {
        TestEnvironment::new().evict_always().start(Cart, "Ada".into())
    }

    fn receipt(run: &TestRun) -> Option<Receipt> {
        run.output().cloned().and_then(|output| serde_json::from_value(output).ok())
    }

    fn items<const N: usize>(items: [(&str, u32); N]) -> BTreeMap<String, u32> {
        items.map(|(item, count)| (item.to_owned(), count)).into()
    }

    #[tokio::test]
    async fn changes_are_made_in_order() -> Result<()> {
        let mut run = started();
        for change in [add("lamp", 1), add("chair", 4), add("lamp", 2)] {
            run.signal("change", &change).await?;
        }
        run.signal("change", &Change::Remove { item: "chair".into() }).await?;
        assert_eq!(run.state("items")?, Some(items([("lamp", 3)])));
        run.signal("change", &Change::CheckOut).await?;
        assert_eq!(receipt(&run), Some(Receipt { items: items([("lamp", 3)]), checked_out: true }));
        Ok(())
    }

    #[tokio::test]
    async fn a_change_that_crosses_the_checkout_is_not_lost() -> Result<()> {
        let mut run = started();
        run.signal("change", &add("lamp", 1)).await?;
        run.signal_meanwhile("change", &add("chair", 1))?;
        run.signal("change", &Change::CheckOut).await?;
        assert_eq!(receipt(&run).map(|receipt| receipt.items), Some(items([("chair", 1), ("lamp", 1)])));
        assert!(run.unread_signals().is_empty());
        Ok(())
    }

    #[tokio::test]
    async fn a_cart_that_nobody_touches_for_a_day_is_abandoned() -> Result<()> {
        let mut run = started();
        run.signal("change", &add("lamp", 1)).await?;
        run.advance(ABANDONED_AFTER / 2).await?;
        run.signal("change", &add("lamp", 1)).await?;
        run.advance(ABANDONED_AFTER - Duration::from_millis(1)).await?;
        assert!(run.is_waiting());
        run.advance(Duration::from_millis(1)).await?;
        assert_eq!(receipt(&run), Some(Receipt { items: items([("lamp", 2)]), checked_out: false }));
        Ok(())
    }
}
