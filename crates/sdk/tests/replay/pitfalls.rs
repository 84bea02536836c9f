//! One test for each known pitfall of this kind of engine, by number. Elsewhere: 28 and 29
//! `properties::a_history_cut_anywhere_goes_on_as_it_did`; 34 and 35 `golden`; against a real server: 36
//! `sdk::worker::slow_tasks_do_not_wait_for_each_other`, 37
//! `sdk::worker::heartbeat_details_reach_the_next_attempt_and_state_is_kept`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flovyn_sdk::testing::{Replay, TestEnvironment};
use flovyn_sdk::{Error, WorkflowContext};
use serde_json::{Value, json};

use crate::runs::{environment_in_order, replay_strictly};

const SECOND: Duration = Duration::from_secs(1);

/// 27e: on replay the results of steps are known at once, but must be delivered in the same order. A step whose
/// future was dropped counts too.
#[tokio::test]
async fn p27e_steps_are_delivered_at_rest_also_on_replay() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        drop(context.run("dropped", || 0));
        let slow = context.run("slow", || "slow".to_owned());
        let quick = context.run("quick", || "quick".to_owned());
        let order = std::sync::Mutex::new(Vec::new());
        let told = |future: flovyn_sdk::context::OperationFuture<String>| {
            let (context, order) = (&context, &order);
            async move {
                // No result is delivered before the workflow has waited once.
                let name = future.await?;
                order.lock().unwrap().push(name.clone());
                context.schedule_raw("good", json!(name)).await
            }
        };
        let (first, second) = tokio::join!(told(quick), told(slow));
        let order = order.into_inner().unwrap();
        Ok(json!([first?, second?, order]))
    };
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.finish().await.unwrap();
    assert_eq!(run.output(), Some(&json!(["quick", "slow", ["slow", "quick"]])));
    let steps: Vec<_> = run.commands().iter().filter(|command| command.starts_with("operation")).collect();
    assert_eq!(steps, [r#"operation "dropped""#, r#"operation "slow""#, r#"operation "quick""#]);
    replay_strictly("w", workflow, &run.recording()).await.unwrap();
}

/// 28: each kind of command has its own counter, also after a replay.
#[tokio::test]
async fn p28_ids_go_on_counting_after_a_replay() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 {
            seen.insert(context.random_uuid());
            let (task, child) = (
                context.schedule_raw("good", Value::Null),
                context.schedule_workflow_raw("kid", "good", Value::Null),
            );
            seen.extend([task.task_id(), child.execution_id()]);
            task.await?;
            child.await?;
        }
        Ok(json!(seen.len()))
    };
    for environment in [environment_in_order(), environment_in_order().evict_always()] {
        let mut run = environment.start_fn("w", workflow, Value::Null);
        run.finish().await.unwrap();
        assert_eq!(run.output(), Some(&json!(9)));
    }
}

/// 29: on replay the workflow sees no more events than live.
#[tokio::test]
async fn p29_nothing_of_the_future_is_seen() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let before =
            (context.has_signal("go"), context.get_state::<i32>("n")?, context.current_time_millis());
        let timer = context.sleep(SECOND);
        let signal = context.wait_for_signal::<i32>("go");
        let won = flovyn_sdk::select! { _ = timer => "timer", _ = signal => "signal" };
        context.set_state("n", &1)?;
        let after = (context.has_signal("go"), context.get_state::<i32>("n")?, context.current_time_millis());
        Ok(json!([before, won, after]))
    };
    let mut run = environment_in_order().evict_always().start_fn("w", workflow, Value::Null);
    run.advance(SECOND / 2).await.unwrap();
    run.signal("go", &1).await.unwrap();
    let start = 1_700_000_000_000_i64;
    assert_eq!(run.output(), Some(&json!([[false, null, start], "signal", [false, 1, start + 500]])));
    replay_strictly("w", workflow, &run.recording()).await.unwrap();
}

/// 30: waiting is not an error that the workflow could catch.
#[tokio::test]
async fn p30_a_workflow_that_swallows_every_error_waits() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        match context.schedule_raw("endless", Value::Null).await {
            Ok(value) => Ok(value),
            Err(_) => Ok(json!("swallowed")),
        }
    };
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.finish().await.unwrap();
    assert!(run.is_waiting());
}

/// 31: a future from outside the context is reported: alone, beside a task, and when another thread wakes it.
#[tokio::test]
async fn p31_a_foreign_await_is_named() {
    let alone = |_: WorkflowContext, _: Value| async { std::future::pending().await };
    let error = environment_in_order().start_fn("w", alone, Value::Null).finish().await.unwrap_err();
    assert!(error.to_string().contains("FOREIGN_AWAIT at event 1: the workflow awaits a future"), "{error}");
    let beside = |context: WorkflowContext, _: Value| async move {
        let (answer, answered) = tokio::sync::oneshot::channel::<()>();
        let task = context.schedule_raw("good", Value::Null);
        // The step ends long after the workflow waits. Its answer wakes the workflow from outside the driver.
        let step = context.run_async("step", move || async move {
            tokio::task::yield_now().await;
            let _ = answer.send(());
        });
        let _ = tokio::join!(task, step, answered);
        Ok(Value::Null)
    };
    let error = environment_in_order().start_fn("w", beside, Value::Null).finish().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("FOREIGN_AWAIT at event 1: something outside the workflow's context woke the workflow"),
        "{error}"
    );
}

/// 31: a wake from another thread while the workflow is polled is foreign too.
#[tokio::test]
async fn p31_a_wake_of_another_thread_during_a_poll_is_foreign() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let task = context.schedule_raw("good", Value::Null);
        let mut woken = false;
        let other = std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut woken, true) {
                return std::task::Poll::Ready(());
            }
            let waker = cx.waker().clone();
            std::thread::spawn(move || waker.wake()).join().unwrap();
            std::task::Poll::Pending
        });
        let (task, ()) = futures::join!(task, other);
        task
    };
    let error = environment_in_order().start_fn("w", workflow, Value::Null).finish().await.unwrap_err();
    assert!(error.to_string().contains("FOREIGN_AWAIT"), "{error}");
}

/// 32: a recorded step does not run again, even if the workflow did not await it and ended at once.
#[tokio::test]
async fn p32_a_recorded_step_does_not_run_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let workflow = move |context: WorkflowContext, _: Value| {
        let (first, second) = (counted.clone(), counted.clone());
        async move {
            context.run("first", move || first.fetch_add(1, Ordering::SeqCst)).await?;
            context.sleep(SECOND).await?;
            drop(context.run("second", move || second.fetch_add(1, Ordering::SeqCst)));
            Ok(Value::Null)
        }
    };
    let mut run = environment_in_order().evict_always().start_fn("w", workflow.clone(), Value::Null);
    run.finish().await.unwrap();
    assert_eq!(run.commands().last().unwrap(), r#"operation "second""#);
    replay_strictly("w", workflow, &run.recording()).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

/// 32: `cancel()` takes effect: locally at once, and on the server by a command.
#[tokio::test]
async fn p32_cancel_cancels() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let (task, timer) = (context.schedule_raw("good", Value::Null), context.sleep(SECOND));
        let child = context.schedule_workflow_raw("kid", "good", Value::Null);
        task.cancel();
        timer.cancel();
        child.cancel();
        child.cancel();
        let cancelled = [task.await.is_err(), timer.await.is_err(), child.await.is_err()];
        context.wait_for_signal::<Value>("go").await?;
        Ok(json!(cancelled))
    };
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.settle().await.unwrap();
    assert_eq!(run.commands()[3..].iter().filter(|command| command.starts_with("cancel")).count(), 3);
    run.finish().await.unwrap();
    run.signal("go", &1).await.unwrap();
    assert_eq!(run.output(), Some(&json!([true, true, true])));
    let ends = run
        .history()
        .into_iter()
        .filter(|event| event.kind.ends_with("FIRED") || event.kind == "TASK_COMPLETED");
    assert_eq!(ends.count(), 0);
}

/// 33: timers have their own numbers, regardless of other commands and of where the history is cut.
#[tokio::test]
async fn p33_timers_keep_their_names() {
    let workflow = |context: WorkflowContext, _: Value| async move {
        for _ in 0..3 {
            context.schedule_raw("good", Value::Null).await?;
            context.sleep(SECOND).await?;
        }
        Ok(Value::Null)
    };
    let mut run = environment_in_order().evict_always().start_fn("w", workflow, Value::Null);
    run.finish().await.unwrap();
    let timers: Vec<_> = run.commands().iter().filter(|command| command.starts_with("timer")).collect();
    assert_eq!(timers, [r#"timer "timer-1""#, r#"timer "timer-2""#, r#"timer "timer-3""#]);
    let mut replay = Replay::new("w", workflow, &run.recording()).unwrap().strict();
    assert_eq!(replay.feed(5).await.unwrap()[0].split(" with").next().unwrap(), r#"task "good""#);
}

/// 38: a panic in user code is reported with its message, wherever it occurs.
#[tokio::test]
async fn p38_panics_are_named() {
    async fn fails<R: Future<Output = flovyn_sdk::Result<Value>> + Send + 'static>(
        workflow: impl Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
    ) -> String {
        let mut run = TestEnvironment::new().start_fn("w", workflow, Value::Null);
        let Err(Error::DeterminismViolation(message)) = run.finish().await else { panic!("it did not fail") };
        message
    }
    let inside = fails(|_, _| async { panic!("inside") }).await;
    assert_eq!(inside, "PANIC at event 1: inside");
    // A panic before the async block must not affect the worker either.
    let outside = fails(|_, _| {
        assert!(std::hint::black_box(false), "before");
        async { Ok(Value::Null) }
    });
    assert_eq!(outside.await, "PANIC at event 1: before");
    let step =
        fails(|context, _| async move { context.run("step", || -> Value { panic!("in a step") }).await });
    assert_eq!(step.await, r#"PANIC at event 1: operation "step": in a step"#);
}
