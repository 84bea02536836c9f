//! The test lists of seed 001, "synchronous scheduling", line by line.
//!
//! Unit
//! - sequence numbers assigned synchronously: `numbers_are_given_when_it_is_asked`
//! - deterministic UUID generation: `numbers_are_given_when_it_is_asked`, `replay::ids` in the crate
//! - command queuing: `nothing_is_sent_before_it_waits`
//! - replay matching works with client ids: `properties::a_history_cut_anywhere_goes_on_as_it_did`
//!
//! Integration
//! - single task: `sdk::workflows::timers_children_promises_signals_state_and_steps`, `corpus` (`task`)
//! - parallel, `join!`: `join_and_join_all`
//! - dynamic parallelism, `join_all`: `join_and_join_all`,
//!   `sdk::workflows::tasks_run_side_by_side_and_their_results_come_back`
//! - task cancellation: `sdk::worker::a_cancelled_task_is_told_to_stop`, `pitfalls::p32_cancel_cancels`
//! - replay with client-generated ids: `corpus`, `pitfalls::p28_ids_go_on_counting_after_a_replay`
//!
//! End to end
//! - full workflow with parallel tasks: `sdk::workflows::tasks_run_side_by_side_and_their_results_come_back`
//! - resume after suspension: the same with `cache_size(0)`
//! - server restart during parallel execution: `sdk::parallel::a_restart_in_the_middle_of_parallel_tasks`

use flovyn_sdk::testing::Replay;
use flovyn_sdk::{Result, WorkflowContext, join_all};
use serde_json::{Value, json};

use crate::runs::environment_in_order;

fn started() -> Value {
    json!([{ "sequence": 1, "eventType": "WORKFLOW_STARTED", "data": {} }])
}

#[tokio::test]
async fn numbers_are_given_when_it_is_asked() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let tasks: Vec<_> = (0..3).map(|n| context.schedule_raw("t", json!(n))).collect();
        let ids: Vec<String> = tasks.iter().map(|task| task.task_id().to_string()).collect();
        // Awaited in a different order than scheduled.
        for task in tasks.into_iter().rev() {
            futures::poll!(Box::pin(task)).is_pending().then_some(()).ok_or("it cannot be ready")?;
        }
        context.set_state("ids", &ids)?;
        context.wait_for_signal("go").await
    };
    let asked = Replay::new("w", workflow, &started()).unwrap().strict().feed(1).await.unwrap();
    let ids: Vec<String> =
        asked[..3].iter().map(|task| task.split("with id ").nth(1).unwrap()[..36].to_owned()).collect();
    for (number, task) in asked[..3].iter().enumerate() {
        assert!(task.ends_with(&format!("and input {number}")), "{task}");
    }
    assert_eq!(asked[3], format!("set state \"ids\" and input {}", json!(ids)));
    let again = Replay::new("w", workflow, &started()).unwrap().strict().feed(1).await.unwrap();
    assert_eq!(asked, again);
}

#[tokio::test]
async fn nothing_is_sent_before_it_waits() {
    let workflow = |context: WorkflowContext, input: Value| async move {
        let first = context.schedule_raw("t", json!(1));
        let second = context.schedule_raw("t", json!(2));
        if input["fails"] == true {
            panic!("before it waits");
        }
        first.await?;
        second.await
    };
    let mut run = environment_in_order().start_fn("w", workflow, json!({ "fails": true }));
    run.settle().await.unwrap_err();
    assert_eq!((run.commands().len(), run.history().len()), (0, 1));
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.settle().await.unwrap();
    // Both in one batch.
    assert_eq!((run.commands().len(), run.history().len()), (2, 3));
}

#[tokio::test]
async fn join_and_join_all() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let task = |n: u32| context.schedule_raw("good", json!(n));
        let (a, b, c) = tokio::join!(task(1), task(2), task(3));
        let (d, e) = futures::join!(task(4), task(5));
        let rest: Result<Vec<Value>> = join_all((6..10).map(task)).await.into_iter().collect();
        Ok(json!([[a?, b?, c?, d?, e?], rest?]))
    };
    for seed in 0..20 {
        let mut run = environment_in_order().shuffle(seed).start_fn("w", workflow, Value::Null);
        run.finish().await.unwrap();
        assert_eq!(run.output(), Some(&json!([[1, 2, 3, 4, 5], [6, 7, 8, 9]])));
    }
}
