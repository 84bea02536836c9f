//! Workflows and tasks that are plain functions.

use std::time::Duration;

use flovyn_sdk::testing::TestEnvironment;
use flovyn_sdk::{
    Error, Result, TaskContext, TaskDefinition, TaskOptions, WorkflowContext, WorkflowDefinition, task,
    workflow,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(functions_run_on_a_server,);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Charge {
    cents: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Receipt {
    charged: u32,
    attempt: u32,
}

/// Its definition has another name than its input type.
#[task(kind = "charge-the-card", name = ChargeCard, max_retries = 5, timeout_secs = 30, queue = "bank")]
async fn charge(ctx: TaskContext, Charge { cents }: Charge) -> Result<Receipt> {
    Ok(Receipt { charged: cents, attempt: ctx.attempt() })
}

#[task]
async fn send_mail(_: TaskContext, text: String) -> flovyn_sdk::Result<(), Error> {
    if text.is_empty() { Err("nothing to send".into()) } else { Ok(()) }
}

#[workflow(version = "2")]
async fn checkout(ctx: WorkflowContext, order: Charge) -> Result<Receipt> {
    let options = TaskOptions { queue: None, ..ChargeCard::options() };
    let receipt = ctx.schedule_with_options::<ChargeCard>(order, options).await?;
    ctx.schedule::<SendMail>("thank you".into()).await?;
    Ok(receipt)
}

/// Another workflow calls this function directly, because it stays a normal function.
#[workflow(kind = "check-out-twice", name = Twice)]
async fn input(ctx: WorkflowContext, order: Charge) -> Result<Vec<Receipt>> {
    Ok(vec![checkout(ctx.clone(), order.clone()).await?, checkout(ctx, order).await?])
}

mod elsewhere {
    use flovyn_sdk::WorkflowContext;

    #[flovyn_sdk::workflow]
    pub(crate) async fn nothing_at_all(
        _: WorkflowContext,
        _: (),
    ) -> std::result::Result<(), flovyn_sdk::Error> {
        Ok(())
    }
}

#[test]
fn options_and_names_are_as_written() {
    assert_eq!(ChargeCard::KIND, "charge-the-card");
    let expected = TaskOptions {
        queue: Some("bank".into()),
        max_retries: Some(5),
        timeout: Some(Duration::from_secs(30)),
        ..TaskOptions::default()
    };
    assert_eq!(ChargeCard::options(), expected);
    assert_eq!((SendMail::KIND, SendMail::options()), ("send-mail", TaskOptions::default()));
    assert_eq!((Checkout::KIND, Checkout::VERSION), ("checkout", Some("2")));
    assert_eq!((Twice::KIND, Twice::VERSION), ("check-out-twice", None));
    assert_eq!(elsewhere::NothingAtAll::KIND, "nothing-at-all");
}

async fn functions_run_on_a_server(server: TestServer) {
    let worker = server.worker().workflow(Checkout).workflow(Twice).workflow(elsewhere::NothingAtAll);
    let worker = worker.task(ChargeCard).task(SendMail).build().unwrap().start();
    let client = server.client();
    let receipt = Receipt { charged: 250, attempt: 1 };
    let handle = client.start::<Checkout>(Charge { cents: 250 }).await.unwrap();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), receipt);
    let handle = client.start::<Twice>(Charge { cents: 250 }).await.unwrap();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), [receipt.clone(), receipt]);
    client.start::<elsewhere::NothingAtAll>(()).await.unwrap().result(PATIENCE).await.unwrap();
    worker.stop().await;
}

#[tokio::test]
async fn functions_run_in_the_test_kit() {
    let environment = TestEnvironment::new()
        .mock::<ChargeCard>(|charge| Ok(Receipt { charged: charge.cents, attempt: 7 }))
        .mock::<SendMail>(|_| Ok(()));
    let mut run = environment.start(Checkout, Charge { cents: 1 });
    run.finish().await.unwrap();
    assert_eq!(run.output(), Some(&json!({ "charged": 1, "attempt": 7 })));
}
