//! The workflows of the corpus, by name: those that produced the histories, and those that no longer match them.

use std::time::Duration;

use flovyn_sdk::{Error, PromiseOptions, Result, WorkflowContext};
use futures::future::BoxFuture;
use serde_json::{Value, json};

pub(crate) type Workflow = fn(WorkflowContext, Value) -> BoxFuture<'static, Result<Value>>;

macro_rules! workflows {
    ($($name:literal: |$context:ident| $body:block)*) => {
        /// The names of all workflows.
        pub(crate) const WORKFLOWS: &[(&str, Workflow)] = &[$(($name, |$context, _| Box::pin(async move $body))),*];
    };
}

pub(crate) fn find(name: &str) -> Option<Workflow> {
    WORKFLOWS.iter().find(|(known, _)| *known == name).map(|(_, workflow)| *workflow)
}

const SECOND: Duration = Duration::from_secs(1);

async fn rounds(context: WorkflowContext, count: u32) -> Result<Value> {
    for round in 0..count {
        context.schedule_raw("good", json!(round)).await?;
    }
    Ok(json!(count))
}

workflows! {
    "operation": |context| { context.run("a", || json!(1)).await }
    "operation-renamed": |context| { context.run("b", || json!(1)).await }
    "operation-dropped-at-the-end": |context| {
        drop(context.run("a", || json!(1)));
        Ok(json!("done"))
    }
    "state": |context| {
        context.set_state("a", &1)?;
        context.clear_state("a");
        context.wait_for_signal("go").await
    }
    "state-other-key": |context| {
        context.set_state("b", &1)?;
        context.clear_state("a");
        context.wait_for_signal("go").await
    }
    "state-other-value": |context| {
        context.set_state("a", &2)?;
        context.clear_state("a");
        context.wait_for_signal("go").await
    }
    "state-cleared-first": |context| {
        context.clear_state("a");
        context.set_state("a", &1)?;
        context.wait_for_signal("go").await
    }
    "task": |context| { context.schedule_raw("good", json!(1)).await }
    "task-other-type": |context| { context.schedule_raw("bad", json!(1)).await }
    "task-other-input": |context| { context.schedule_raw("good", json!(2)).await }
    "task-removed": |_context| { Ok(json!(1)) }
    "task-added-before": |context| {
        drop(context.schedule_raw("good", json!(0)));
        context.schedule_raw("good", json!(1)).await
    }
    "task-added-behind": |context| {
        let output = context.schedule_raw("good", json!(1)).await?;
        drop(context.schedule_raw("good", json!(2)));
        Ok(output)
    }
    "task-other-output": |context| {
        context.schedule_raw("good", json!(1)).await?;
        Ok(json!("another"))
    }
    "task-waits-on": |context| {
        context.schedule_raw("good", json!(1)).await?;
        context.wait_for_signal("never").await
    }
    "task-fails": |context| {
        context.schedule_raw("good", json!(1)).await?;
        Err(Error::failed("changed its mind"))
    }
    "task-panics": |context| {
        context.schedule_raw("good", json!(1)).await?;
        panic!("out of cheese")
    }
    "task-awaits-something-else": |context| {
        context.schedule_raw("good", json!(1)).await?;
        futures::future::pending().await
    }
    "failing-task": |context| { context.schedule_raw("bad", json!(1)).await }
    "task-cancelled": |context| {
        let task = context.schedule_raw("endless", json!(1));
        context.wait_for_signal::<Value>("go").await?;
        task.cancel();
        Ok(json!(task.await.unwrap_err().to_string()))
    }
    "task-not-cancelled": |context| {
        let task = context.schedule_raw("endless", json!(1));
        context.wait_for_signal::<Value>("go").await?;
        drop(task);
        Ok(json!("cancelled: cancelled by the workflow"))
    }
    "timer": |context| {
        context.sleep(SECOND).await?;
        context.sleep(2 * SECOND).await?;
        Ok(json!(context.current_time_millis()))
    }
    "timer-other-time": |context| {
        context.sleep(SECOND).await?;
        context.sleep(3 * SECOND).await?;
        Ok(json!(context.current_time_millis()))
    }
    "timer-late": |context| {
        context.sleep(SECOND).await?;
        context.wait_for_signal::<Value>("never").await?;
        context.sleep(2 * SECOND).await?;
        Ok(json!(context.current_time_millis()))
    }
    "timers-together": |context| {
        let (first, second) = (context.sleep(SECOND), context.sleep(2 * SECOND));
        first.await?;
        second.await?;
        Ok(json!(context.current_time_millis()))
    }
    "timer-cancelled": |context| {
        let timer = context.sleep(SECOND);
        context.wait_for_signal::<Value>("go").await?;
        timer.cancel();
        Ok(json!(timer.await.is_err()))
    }
    "promise": |context| {
        let options = PromiseOptions { timeout: Some(SECOND), key: None };
        context.promise_with_options("p", options).await
    }
    "promise-renamed": |context| { context.promise_raw("q").await }
    "promise-other-timeout": |context| {
        let options = PromiseOptions { timeout: Some(2 * SECOND), key: None };
        context.promise_with_options("p", options).await
    }
    "child": |context| { context.schedule_workflow_raw("kid", "good", json!(1)).await }
    "child-renamed": |context| { context.schedule_workflow_raw("son", "good", json!(1)).await }
    "child-other-kind": |context| { context.schedule_workflow_raw("kid", "bad", json!(1)).await }
    "child-cancelled": |context| {
        let child = context.schedule_workflow_raw("kid", "endless", json!(1));
        context.wait_for_signal::<Value>("go").await?;
        child.cancel();
        Ok(json!(child.await.is_err()))
    }
    "cancelled": |context| {
        let waited = context.wait_for_signal::<Value>("never").await;
        context.shielded().schedule_raw("good", json!("clean up")).await?;
        waited
    }
    "mix": |context| {
        context.set_state("phase", "both")?;
        let (mut task, mut timer) = (context.schedule_raw("endless", json!(1)), context.sleep(SECOND));
        let stamp: u32 = context.run("stamp", || 7).await?;
        let won = flovyn_sdk::select! {
            _ = &mut task => "task",
            _ = &mut timer => "timer",
            _ = context.wait_for_signal::<Value>("go") => "signal",
        };
        task.cancel();
        let kid = context.schedule_workflow_raw("kid", "good", json!([won, stamp])).await?;
        let answer = context.promise_raw("p").await?;
        Ok(json!([kid, answer, context.random_uuid().to_string(), context.random()]))
    }
    "loop": |context| { rounds(context, 3).await }
    "loop-shortened": |context| { rounds(context, 2).await }
    "loop-lengthened": |context| { rounds(context, 4).await }
}
