//! Clean-up after a cancel request takes the time it needs; a workflow that ignores the request is force-stopped.

use std::time::Duration;

use flovyn_sdk::{Error, Result, StartOptions, TaskContext, WorkflowContext, WorkflowHandle, task, workflow};

use crate::common::{Database, PATIENCE, TestServer};

/// How long a workflow may ignore a cancel request in this test.
const IDLE: Duration = Duration::from_secs(2);

#[task]
async fn undo(_: TaskContext, what: String) -> Result<String> {
    Ok(what)
}

/// Each undo task takes longer than a workflow may ignore the request.
#[workflow]
async fn saga(ctx: WorkflowContext, _: ()) -> Result<()> {
    let waited = ctx.wait_for_signal("packed").await;
    if waited.is_err() {
        for what in ["charge", "reservation"] {
            ctx.shielded().sleep(IDLE + IDLE / 2).await?;
            let undone = ctx.shielded().schedule::<Undo>(what.to_owned()).await?;
            ctx.set_state(&undone, &"undone")?;
        }
    }
    waited
}

#[workflow]
async fn ignores(ctx: WorkflowContext, _: ()) -> Result<()> {
    ctx.shielded().wait_for_signal("never").await
}

/// Its clean-up would take an hour.
#[workflow(cancel_grace = "1s")]
async fn impatient(ctx: WorkflowContext, _: ()) -> Result<()> {
    let waited = ctx.wait_for_signal("never").await;
    ctx.shielded().sleep(Duration::from_secs(3_600)).await?;
    waited
}

async fn waits<T>(handle: &WorkflowHandle<T>) {
    while handle.describe().await.unwrap().status != "WAITING" {
        tokio::task::yield_now().await;
    }
}

async fn clean_up_has_the_time_it_needs(database: Database) {
    let server = TestServer::start_with(database, |config| {
        config.limits.cancel_grace_ms = Some(i64::try_from(IDLE.as_millis()).unwrap());
    })
    .await;
    let worker = server.worker().workflow(Saga).workflow(Ignores).workflow(Impatient).task(Undo);
    let worker = worker.build().unwrap().start();
    let client = server.client();
    let saga = client.start::<Saga>(()).await.unwrap();
    let ignores = client.start::<Ignores>(()).await.unwrap();
    let impatient = client.start::<Impatient>(()).await.unwrap();
    let options = StartOptions { cancel_grace: Some(Duration::ZERO), ..StartOptions::default() };
    let none = client.start_with_options::<Saga>((), options).await.unwrap();
    for handle in [&saga, &ignores, &impatient, &none] {
        waits(handle).await;
        handle.cancel("no longer wanted").await.unwrap();
    }
    assert_eq!(none.describe().await.unwrap().status, "CANCELLED", "it has no time to clean up");
    let error = ignores.result(PATIENCE).await.unwrap_err();
    assert_eq!(error.to_string(), "cancelled: force-stopped: no clean-up for 2 s after the cancel request");
    let error = impatient.result(PATIENCE).await.unwrap_err();
    assert_eq!(error.to_string(), "cancelled: force-stopped: clean-up did not end within 1 s");
    let waiting = saga.describe().await.unwrap().waiting_on;
    assert!(waiting[0].contains("with no time limit while it waits for its own work"), "{waiting:?}");
    assert_eq!(saga.result(PATIENCE).await.unwrap_err(), Error::Cancelled("no longer wanted".into()));
    for what in ["charge", "reservation"] {
        assert_eq!(saga.query::<String>(what).await.unwrap().as_deref(), Some("undone"), "{what}");
    }
    worker.stop().await;
}

mod sqlite {
    #[tokio::test(flavor = "multi_thread")]
    async fn clean_up_has_the_time_it_needs() {
        super::clean_up_has_the_time_it_needs(super::Database::Sqlite).await;
    }
}

mod postgres {
    #[tokio::test(flavor = "multi_thread")]
    async fn clean_up_has_the_time_it_needs() {
        super::clean_up_has_the_time_it_needs(super::Database::Postgres).await;
    }
}
