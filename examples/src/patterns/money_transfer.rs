//! Money transfer: withdraw, then deposit, and refund if the deposit is impossible.
//!
//! Both tasks pass their idempotency key to the bank, because an attempt that seems to fail may have moved the money.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use flovyn_sdk::{Error, Result, TaskContext, WorkflowContext, tasks, workflow};
use serde::{Deserialize, Serialize};

use crate::{Connection, PATIENCE};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Transfer {
    pub from: String,
    pub to: String,
    pub cents: i64,
}

/// An in-memory bank. It carries out a request once, however often it is repeated.
#[derive(Debug, Clone, Default)]
pub struct Bank(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    balances: HashMap<String, i64>,
    done: HashSet<String>,
}

impl Bank {
    fn with(balances: &[(&str, i64)]) -> Self {
        let balances = balances.iter().map(|(account, cents)| ((*account).to_owned(), *cents)).collect();
        Self(Arc::new(Mutex::new(Books { balances, done: HashSet::new() })))
    }

    fn balance(&self, account: &str) -> Option<i64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).balances.get(account).copied()
    }

    fn book(&self, ctx: &TaskContext, account: &str, cents: i64) -> Result<()> {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if books.done.contains(ctx.idempotency_key()) {
            return Ok(());
        }
        let no_account = || Error::NonRetryable(format!("there is no account {account}"));
        let balance = books.balances.get_mut(account).ok_or_else(no_account)?;
        if *balance + cents < 0 {
            return Err(Error::NonRetryable(format!("{account} has only {balance} cents")));
        }
        *balance += cents;
        books.done.insert(ctx.idempotency_key().to_owned());
        // The money has moved, but the answer is lost: the next attempt must not move it again.
        if ctx.attempt() == 1 { Err(Error::failed("the bank does not answer")) } else { Ok(()) }
    }
}

#[tasks]
impl Bank {
    #[task(retry_initial_ms = 100)]
    async fn withdraw(&self, ctx: TaskContext, transfer: Transfer) -> Result<()> {
        self.book(&ctx, &transfer.from, -transfer.cents)
    }

    #[task(retry_initial_ms = 100)]
    async fn deposit(&self, ctx: TaskContext, transfer: Transfer) -> Result<()> {
        self.book(&ctx, &transfer.to, transfer.cents)
    }

    /// Refunds the money. It is retried until it succeeds.
    #[task(max_retries = 1_000, retry_initial_ms = 100)]
    async fn refund(&self, ctx: TaskContext, transfer: Transfer) -> Result<()> {
        self.book(&ctx, &transfer.from, transfer.cents)
    }
}

#[workflow]
pub async fn transfer_money(ctx: WorkflowContext, transfer: Transfer) -> Result<String> {
    ctx.schedule::<Withdraw>(transfer.clone()).await?;
    if let Err(error) = ctx.schedule::<Deposit>(transfer.clone()).await {
        // Shielded, so that it also runs if the transfer was cancelled.
        ctx.shielded().schedule::<Refund>(transfer).await?;
        return Err(error);
    }
    Ok(format!("{} cents from {} to {}", transfer.cents, transfer.from, transfer.to))
}

pub async fn example(server: Connection) -> Result<()> {
    let bank = Bank::with(&[("Ada", 1_000), ("Grace", 0)]);
    let worker = server.worker().workflow(TransferMoney).tasks(bank.clone()).build()?.start();
    let client = server.client()?;
    for to in ["Grace", "Nobody"] {
        let transfer = Transfer { from: "Ada".into(), to: to.into(), cents: 300 };
        println!("started   300 cents from Ada to {to}");
        match client.start::<TransferMoney>(transfer).await?.result(PATIENCE).await {
            Ok(done) => println!("result    {done}"),
            Err(error) => println!("result    {error}"),
        }
    }
    println!("balances  Ada {:?}, Grace {:?}", bank.balance("Ada"), bank.balance("Grace"));
    worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::testing::TestEnvironment;

    use super::*;

    async fn transferred(to: &str, cents: i64) -> (Bank, Option<Error>) {
        let bank = Bank::with(&[("Ada", 1_000), ("Grace", 0)]);
        let transfer = Transfer { from: "Ada".into(), to: to.into(), cents };
        let mut run =
            TestEnvironment::new().tasks(bank.clone()).evict_always().start(TransferMoney, transfer);
        run.finish().await.expect("no activation fails");
        (bank, run.error())
    }

    #[tokio::test]
    async fn money_moves_once_although_each_task_is_tried_twice() {
        let (bank, error) = transferred("Grace", 300).await;
        assert_eq!((error, bank.balance("Ada"), bank.balance("Grace")), (None, Some(700), Some(300)));
    }

    #[tokio::test]
    async fn what_cannot_be_deposited_goes_back() {
        let (bank, error) = transferred("Nobody", 300).await;
        assert!(error.expect("it failed").to_string().contains("no account Nobody"));
        assert_eq!(bank.balance("Ada"), Some(1_000));
    }

    #[tokio::test]
    async fn what_is_not_there_cannot_be_withdrawn() {
        let (bank, error) = transferred("Grace", 3_000).await;
        assert!(error.expect("it failed").to_string().contains("has only 1000"));
        assert_eq!((bank.balance("Ada"), bank.balance("Grace")), (Some(1_000), Some(0)));
    }
}
