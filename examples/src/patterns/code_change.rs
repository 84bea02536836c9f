//! Changing the code of open executions: the worker has both versions until the last execution of the old version has
//! ended.
//!
//! Patches inside one workflow function are not supported yet. If the order of tasks, timers or children changes, add
//! a new version. A change inside a task needs no new version.

use flovyn_sdk::{Result, TaskContext, WorkflowContext, task, workflow};

use crate::{Connection, PATIENCE, until_state};

#[task]
pub async fn pack(_: TaskContext, order: String) -> Result<String> {
    Ok(format!("{order} packed"))
}

/// New in version 2: fragile items are wrapped first.
#[task]
pub async fn wrap(_: TaskContext, order: String) -> Result<String> {
    Ok(format!("{order} wrapped"))
}

#[workflow(kind = "fulfil", version = "1", name = FulfilV1)]
pub async fn fulfil_v1(ctx: WorkflowContext, order: String) -> Result<String> {
    ctx.set_state("step", "waiting for payment")?;
    ctx.wait_for_signal::<()>("paid").await?;
    ctx.schedule::<Pack>(order).await
}

#[workflow(kind = "fulfil", version = "2", name = FulfilV2)]
pub async fn fulfil_v2(ctx: WorkflowContext, order: String) -> Result<String> {
    let order = ctx.schedule::<Wrap>(order).await?;
    ctx.set_state("step", "waiting for payment")?;
    ctx.wait_for_signal::<()>("paid").await?;
    ctx.schedule::<Pack>(order).await
}

pub async fn example(server: Connection) -> Result<()> {
    let client = server.client()?;
    let old_worker = server.worker().build_id("1").workflow(FulfilV1).task(Pack).build()?.start();
    let old = client.start::<FulfilV1>("a vase".into()).await?;
    until_state(&old, "step", "waiting for payment").await?;
    old_worker.stop().await;

    println!("deployed  version 2, with version 1 for what is open");
    let new_worker =
        server.worker().build_id("2").workflow(FulfilV1).workflow(FulfilV2).task(Pack).task(Wrap);
    let new_worker = new_worker.build()?.start();
    let new = client.start::<FulfilV2>("a glass".into()).await?;
    until_state(&new, "step", "waiting for payment").await?;
    for handle in [&old, &new] {
        handle.signal("paid", &()).await?;
        println!("result    {}", handle.result(PATIENCE).await?);
    }
    new_worker.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flovyn_sdk::Error;
    use flovyn_sdk::testing::{TestEnvironment, replay};
    use serde_json::Value;

    use super::*;

    /// The history of an open execution of version 1, as exported by `flovyn workflow export` or recorded by the test
    /// kit.
    async fn recorded() -> Result<Value> {
        let mut run = TestEnvironment::new().task(Pack).start(FulfilV1, "a vase".into());
        run.signal("paid", &()).await?;
        Ok(run.recording())
    }

    #[tokio::test]
    async fn an_open_execution_goes_on_with_the_code_that_began_it() -> Result<()> {
        replay(FulfilV1, &recorded().await?).await
    }

    #[tokio::test]
    async fn the_new_code_does_not_fit_the_old_history_which_is_why_it_has_a_version() -> Result<()> {
        let refused = replay(FulfilV2, &recorded().await?).await;
        assert!(matches!(refused, Err(Error::DeterminismViolation(_))), "{refused:?}");
        Ok(())
    }
}
