//! Combined cases: cancellation, drops, several events in one activation.

use std::time::Duration;

use flovyn_sdk::testing::Replay;
use flovyn_sdk::{Error, WorkflowContext, with_timeout};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};

use crate::runs::{block_on, environment_in_order, replay_strictly};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn with_timeout_of_a_cancelled_workflow_is_cancelled_and_not_late() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let task = context.schedule_raw("endless", Value::Null);
        let first = with_timeout(&context, SECOND, task).await.unwrap_err();
        // After the request a call fails at once, but a result that is ready is still returned.
        let second = with_timeout(&context, SECOND, std::future::pending::<flovyn_sdk::Result<()>>()).await;
        let third = with_timeout(&context, SECOND, async { Ok(1) }).await;
        let shielded = context.shielded();
        let fourth = with_timeout(&shielded, SECOND, shielded.schedule_raw("good", json!(4))).await;
        Ok(json!([first.is_cancelled(), second.unwrap_err().is_cancelled(), third?, fourth?]))
    };
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.settle().await.unwrap();
    run.cancel("enough").await.unwrap();
    assert_eq!(run.output(), Some(&json!([true, true, 1, 4])));
    assert_eq!(run.commands().iter().filter(|command| command.starts_with("cancel")).count(), 1);
    replay_strictly("w", workflow, &run.recording()).await.unwrap();
}

/// A shielded future goes on after a cancel request. If it is given up then, it is cancelled like every loser.
#[tokio::test]
async fn with_timeout_cancels_a_shielded_future_that_it_gives_up() {
    let by_value = |context: WorkflowContext, _: Value| async move {
        let task = context.shielded().schedule_raw("endless", Value::Null);
        with_timeout(&context, SECOND, task).await.map(drop).or(Ok::<_, Error>(()))?;
        Ok(Value::Null)
    };
    let by_reference = |context: WorkflowContext, _: Value| async move {
        let mut task = context.shielded().schedule_raw("endless", Value::Null);
        with_timeout(&context, SECOND, &mut task).await.map(drop).or(Ok::<_, Error>(()))?;
        context.shielded().sleep(SECOND).await?;
        Ok(Value::Null)
    };
    let mut cancels = Vec::new();
    for environment in [environment_in_order(), environment_in_order().evict_always()] {
        for mut run in [
            environment.start_fn("w", by_value, Value::Null),
            environment.start_fn("w", by_reference, Value::Null),
        ] {
            run.settle().await.unwrap();
            run.cancel("enough").await.unwrap();
            run.finish().await.unwrap();
            let of_task = run.commands().iter().filter(|command| command.starts_with("cancel of task"));
            cancels.push(of_task.count());
        }
    }
    assert_eq!(cancels, [1, 0, 1, 0]);
}

#[tokio::test]
async fn what_is_never_polled_is_asked_for_all_the_same() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let unpolled =
            (context.schedule_raw("good", json!(1)), context.sleep(SECOND), context.run("step", || 1));
        context.wait_for_signal::<Value>("go").await?;
        drop(unpolled);
        Ok(Value::Null)
    };
    let mut run = environment_in_order().evict_always().start_fn("w", workflow, Value::Null);
    run.finish().await.unwrap();
    assert_eq!(run.commands().len(), 3);
    run.signal("go", &1).await.unwrap();
    assert_eq!(run.output(), Some(&Value::Null));
}

#[tokio::test]
async fn a_resolved_future_ignores_what_comes_later() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let task = context.schedule_raw("endless", json!(1));
        context.wait_for_signal::<Value>("go").await?;
        task.cancel();
        // The result is in the log after the cancel request; the workflow must not see it.
        context.wait_for_signal::<Value>("more").await?;
        Ok(json!(task.await.is_err()))
    };
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.settle().await.unwrap();
    run.signal("go", &1).await.unwrap();
    let mut history = run.recording();
    let id = history["events"][1]["data"]["taskExecutionId"].clone();
    let events = history["events"].as_array_mut().unwrap();
    events.push(json!({ "sequence": 5, "eventType": "TASK_COMPLETED", "data": { "taskExecutionId": id, "output": 1 } }));
    events.push(json!({ "sequence": 6, "eventType": "SIGNAL_RECEIVED", "data": { "signalName": "more" } }));
    let mut replay = Replay::new("w", workflow, &history).unwrap().strict();
    assert_eq!(replay.feed(9).await.unwrap(), Vec::<String>::new());
    assert_eq!(replay.ended(), Some(Ok(json!(true))));
}

/// A signal goes to the oldest open waiter. When that waiter is dropped or cancelled, the next one is woken.
#[tokio::test]
async fn the_next_waiter_gets_the_signal_of_one_that_went_away() {
    for how in ["drop", "cancel"] {
        let workflow = move |context: WorkflowContext, _: Value| async move {
            let older = context.wait_for_signal::<i32>("s");
            let mut younger: FuturesUnordered<_> =
                [context.wait_for_signal::<i32>("s")].into_iter().collect();
            // It was polled once, and is polled again only after a wake.
            assert!(futures::poll!(younger.next()).is_pending());
            context.sleep(SECOND).await?;
            if how == "drop" {
                drop(older)
            } else {
                older.cancel()
            }
            younger.next().await.unwrap().map(Value::from)
        };
        let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
        run.settle().await.unwrap();
        run.signal("s", &7).await.unwrap();
        run.finish().await.unwrap();
        assert_eq!(run.output(), Some(&json!(7)), "{how}");
    }
}

#[tokio::test]
async fn a_shielded_waiter_gets_the_signal_of_one_that_was_cancelled() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let _older = context.wait_for_signal::<i32>("s");
        let younger = context.shielded().wait_for_signal::<i32>("s");
        younger.await.map(Value::from)
    };
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.settle().await.unwrap();
    run.signal("s", &7).await.unwrap();
    assert!(run.is_waiting());
    run.cancel("enough").await.unwrap();
    assert_eq!(run.output(), Some(&json!(7)));
}

#[tokio::test]
async fn a_request_to_cancel_wakes_in_order_of_creation() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let all: FuturesUnordered<futures::future::BoxFuture<'static, &str>> = FuturesUnordered::new();
        let first = context.schedule_raw("endless", Value::Null);
        let (second, third) = (context.cancellation(), context.sleep(SECOND));
        all.push(Box::pin(async { third.await.map_or("third", |()| "") }));
        all.push(Box::pin(async { first.await.map_or("first", |_| "") }));
        all.push(Box::pin(async {
            second.await;
            "second"
        }));
        let order: Vec<&str> = all.collect().await;
        Ok(json!(order))
    };
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.settle().await.unwrap();
    run.cancel("enough").await.unwrap();
    assert_eq!(run.output(), Some(&json!(["first", "second", "third"])));
}

#[tokio::test]
async fn cancellation_races_with_others_and_the_shield_holds() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let shielded = context.shielded();
        let rescue = shielded.schedule_raw("endless", json!(0));
        let mut task = context.schedule_raw("endless", json!(1));
        let won = flovyn_sdk::select! {
            reason = context.cancellation() => reason,
            _ = &mut task => "task".to_owned(),
        };
        let open = futures::poll!(Box::pin(rescue)).is_pending();
        let refused = context.schedule_raw("good", json!(2)).await.unwrap_err().is_cancelled();
        let cleaned = shielded.schedule_raw("good", json!(3)).await?;
        Ok(json!([won, task.await.unwrap_err().is_cancelled(), open, refused, cleaned]))
    };
    for environment in [environment_in_order(), environment_in_order().evict_always()] {
        let mut run = environment.start_fn("w", workflow, Value::Null);
        run.settle().await.unwrap();
        run.cancel("enough").await.unwrap();
        assert_eq!(run.output(), Some(&json!(["enough", true, true, true, 3])));
    }
}

/// The workflow ends at the first of several events. Later events change nothing, also after the end.
#[tokio::test]
async fn it_may_end_in_the_middle_of_several_events() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        context.wait_for_signal::<i32>("s").await.map(Value::from)
    };
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.settle().await.unwrap();
    run.signal_meanwhile("s", &2).unwrap();
    run.cancel_meanwhile("too late");
    run.signal("s", &1).await.unwrap();
    assert_eq!(run.output(), Some(&json!(1)));
    assert_eq!(run.signal("s", &3).await, Err(Error::failed("the workflow has finished")));
    let mut history = run.recording();
    replay_strictly("w", workflow, &history).await.unwrap();
    let late = json!({ "sequence": 9, "eventType": "SIGNAL_RECEIVED", "data": { "signalName": "s", "signalValue": 4 } });
    history["events"].as_array_mut().unwrap().push(late);
    replay_strictly("w", workflow, &history).await.unwrap();
    let other = |_: WorkflowContext, _: Value| async { Ok(json!(4)) };
    let error = replay_strictly("w", other, &history).await.unwrap_err();
    assert!(
        error.to_string().contains("completed with 1, but with this code the workflow completed with 4"),
        "{error}"
    );
}

/// A command that is emitted later than in the history could miss its result, because the result precedes it in the
/// log.
#[tokio::test]
async fn a_command_that_comes_too_late_is_named() {
    let recorded = |context: WorkflowContext, _: Value| async move {
        context.sleep(SECOND).await?;
        context.sleep(SECOND).await?;
        context.wait_for_signal::<Value>("go").await?;
        context.wait_for_signal("never").await
    };
    let late = |context: WorkflowContext, _: Value| async move {
        context.sleep(SECOND).await?;
        context.wait_for_signal::<Value>("go").await?;
        context.sleep(SECOND).await?;
        context.wait_for_signal("never").await
    };
    let mut run = environment_in_order().start_fn("w", recorded, Value::Null);
    run.finish().await.unwrap();
    run.signal("go", &1).await.unwrap();
    let error = replay_strictly("w", late, &run.recording()).await.unwrap_err();
    let expected = "DETERMINISM_VIOLATION at event 4: the history has timer \"timer-2\", which the workflow code no longer requests: it requested nothing instead";
    assert_eq!(error.to_string(), expected);
}

/// The result of a step is the same number when it is read from the log.
#[test]
fn floats_survive_the_log() {
    use proptest::prelude::*;
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }, |(bits in any::<f64>())| {
        block_on(async {
            let workflow = move |context: WorkflowContext, _: Value| async move {
                let number = context.run("step", move || bits).await?;
                context.schedule_raw("endless", json!(f64::to_bits(number))).await
            };
            let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
            run.settle().await.unwrap();
            let history = serde_json::from_str(&run.recording().to_string()).unwrap();
            replay_strictly("w", workflow, &history).await.unwrap();
        });
    });
}
