//! How workers use their connection and their slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flovyn_sdk::worker::WorkerHandle;
use flovyn_sdk::{StartOptions, TaskContext, TaskOptions, WorkflowContext};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(
    slow_tasks_do_not_wait_for_each_other,
    a_restart_of_the_server_loses_nothing_and_burns_no_attempt,
    heartbeat_details_reach_the_next_attempt_and_state_is_kept,
    a_cancelled_task_is_told_to_stop,
    a_worker_that_stops_finishes_what_it_has,
    an_aborted_worker_holds_on_to_nothing,
    a_worker_goes_on_with_what_its_own_tasks_came_to,
    steps_and_the_time_wait_for_the_log,
    what_happens_meanwhile_is_not_overlooked,
);

/// A worker with this workflow and a task that returns its input.
fn with_echo<F, R>(server: &TestServer, workflow: F) -> WorkerHandle
where
    F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
    R: Future<Output = flovyn_sdk::Result<Value>> + Send + 'static,
{
    let echo = |_: TaskContext, input: Value| async move { Ok(input) };
    server.worker().workflow_fn("w", workflow).task_fn("echo", echo).build().unwrap().start()
}

async fn run(server: &TestServer) -> (Value, Vec<String>) {
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    let output = handle.result(PATIENCE).await.unwrap();
    let history = handle.history().await.unwrap();
    (output, history.into_iter().map(|event| event.kind).collect())
}

async fn a_worker_goes_on_with_what_its_own_tasks_came_to(server: TestServer) {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let mut sum = 0;
        for number in 1..=20 {
            sum += context.schedule_raw("echo", json!(number)).await?.as_i64().unwrap_or_default();
            context.set_state("sum", &sum)?;
        }
        // Several at a time, and then one again.
        let both = [context.schedule_raw("echo", json!(1)), context.schedule_raw("echo", json!(2))];
        for task in both {
            sum += task.await?.as_i64().unwrap_or_default();
        }
        context.schedule_raw("echo", json!(sum)).await
    };
    let worker = with_echo(&server, workflow);
    let (output, kinds) = run(&server).await;
    assert_eq!(output, json!(213));
    let step = ["TASK_COMPLETED", "STATE_SET", "TASK_SCHEDULED"];
    assert_eq!(kinds[2..2 + 3 * 20], step.repeat(20), "one step after the other");
    let metrics = worker.metrics();
    assert!(metrics.cold_starts() < 3, "it stays in memory: {}", metrics.cold_starts());
    assert!(metrics.continued() >= 20, "{}", metrics.continued());
    worker.stop().await;
}

async fn steps_and_the_time_wait_for_the_log(server: TestServer) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counts = runs.clone();
    let workflow = move |context: WorkflowContext, _: Value| {
        let counts = counts.clone();
        async move {
            context.schedule_raw("echo", json!(1)).await?;
            let step = move || counts.fetch_add(1, Ordering::SeqCst);
            let number = context.run("count", step).await?;
            context.schedule_raw("echo", json!(2)).await?;
            Ok(json!({ "step": number, "time": context.current_time_millis() }))
        }
    };
    let worker = with_echo(&server, workflow);
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    let output = handle.result(PATIENCE).await.unwrap();
    let history = handle.history().await.unwrap();
    let last = history.iter().rfind(|event| event.kind == "TASK_COMPLETED").unwrap();
    assert_eq!(output, json!({ "step": 0, "time": last.time_ms }), "the time is the log's");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    worker.stop().await;
}

async fn what_happens_meanwhile_is_not_overlooked(server: TestServer) {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, awaited) = (begun.clone(), go.clone());
    let slow = move |_: TaskContext, _: Value| {
        let (told, awaited) = (told.clone(), awaited.clone());
        async move {
            told.notify_one();
            awaited.notified().await;
            Ok(json!("done"))
        }
    };
    let workflow = |context: WorkflowContext, _: Value| async move {
        let output = context.schedule_raw("slow", Value::Null).await?;
        // The signal was sent first, so the log has it, whichever worker continues the workflow.
        Ok(json!([output, context.has_signal("stop")]))
    };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("slow", slow).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    begun.notified().await;
    handle.signal("stop", &Value::Null).await.unwrap();
    go.notify_one();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!(["done", true]));
    worker.stop().await;
}

async fn slow_tasks_do_not_wait_for_each_other(server: TestServer) {
    const TASKS: usize = 20;
    // The tasks wait for each other: with fewer slots than tasks this would never end.
    let all = Arc::new(Barrier::new(TASKS));
    let slow = move |_: TaskContext, _: Value| {
        let all = all.clone();
        async move {
            all.wait().await;
            Ok(Value::Null)
        }
    };
    let workflow = |context: WorkflowContext, _: Value| async move {
        let tasks: Vec<_> = (0..TASKS).map(|_| context.schedule_raw("slow", Value::Null)).collect();
        for task in tasks {
            task.await?;
        }
        Ok(json!(TASKS))
    };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("slow", slow).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!(TASKS));
    worker.stop().await;
}

async fn a_restart_of_the_server_loses_nothing_and_burns_no_attempt(server: TestServer) {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, awaited) = (begun.clone(), go.clone());
    let long = move |context: TaskContext, _: Value| {
        let (told, awaited) = (told.clone(), awaited.clone());
        async move {
            told.notify_one();
            awaited.notified().await;
            Ok(json!(context.attempt()))
        }
    };
    let workflow = |context: WorkflowContext, _: Value| async move {
        let options = TaskOptions { max_retries: Some(1), ..TaskOptions::default() };
        context.schedule_with_options_raw("long", Value::Null, options).await
    };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("long", long).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    begun.notified().await;
    // A client that waits for the result keeps waiting.
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.result(PATIENCE).await }
    });
    let _server = server.restart().await;
    go.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap(), json!(1));
    assert!(worker.metrics().connections() >= 2);
    worker.stop().await;
}

async fn heartbeat_details_reach_the_next_attempt_and_state_is_kept(server: TestServer) {
    let task = |context: TaskContext, _: Value| async move {
        if let Some(done) = context.last_heartbeat::<u32>()? {
            let kept: Option<String> = context.get_state("file").await?;
            return Ok(json!({ "from": done, "file": kept, "token": context.fencing_token() }));
        }
        context.set_state("file", "part-1").await?;
        context.report_progress(0.5, "half").await;
        context.log(flovyn_sdk::task::LogLevel::Info, "half way").await;
        context.stream(&json!({ "row": 1 })).await?;
        context.heartbeat(&50)?;
        Err("lost power".into())
    };
    let workflow = |context: WorkflowContext, _: Value| async move {
        let retry = flovyn_sdk::RetryPolicy {
            initial: Duration::from_millis(1),
            factor: 1.0,
            cap: Duration::from_millis(1),
        };
        let options = TaskOptions { retry: Some(retry), ..TaskOptions::default() };
        context.schedule_with_options_raw("t", Value::Null, options).await
    };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("t", task).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    let output = handle.result(PATIENCE).await.unwrap();
    assert_eq!(output, json!({ "from": 50, "file": "part-1", "token": 2 }));
    worker.stop().await;
}

async fn a_cancelled_task_is_told_to_stop(server: TestServer) {
    let begun = Arc::new(Notify::new());
    let told = begun.clone();
    let endless = move |context: TaskContext, _: Value| {
        let told = told.clone();
        async move {
            told.notify_one();
            context.cancelled().await;
            Err("stopped".into())
        }
    };
    let workflow = |context: WorkflowContext, _: Value| async move {
        let task = context.schedule_raw("endless", Value::Null);
        context.wait_for_signal::<Value>("enough").await?;
        task.cancel();
        Ok(json!(task.await.is_err()))
    };
    let worker =
        server.worker().workflow_fn("w", workflow).task_fn("endless", endless).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    begun.notified().await;
    handle.signal("enough", &Value::Null).await.unwrap();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!(true));
    // Ends only if the task has ended.
    worker.stop().await;
}

async fn a_worker_that_stops_finishes_what_it_has(server: TestServer) {
    let begun = Arc::new(Notify::new());
    let told = begun.clone();
    let task = move |_: TaskContext, _: Value| {
        let told = told.clone();
        async move {
            told.notify_one();
            tokio::task::yield_now().await;
            Ok(json!("finished"))
        }
    };
    let worker = server.worker().task_fn("t", task).build().unwrap().start();
    let client = server.client();
    let workflow =
        |context: WorkflowContext, _: Value| async move { context.schedule_raw("t", Value::Null).await };
    let other = server.worker().workflow_fn("w", workflow).build().unwrap().start();
    let handle = client.start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    begun.notified().await;
    worker.stop().await;
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!("finished"));
    assert_eq!(
        handle.history().await.unwrap().iter().filter(|event| event.kind == "TASK_SCHEDULED").count(),
        1
    );
    other.stop().await;
}

async fn an_aborted_worker_holds_on_to_nothing(server: TestServer) {
    let workflow = |context: WorkflowContext, _: Value| async move {
        context.set_state("step", "waiting")?;
        context.wait_for_signal::<Value>("go").await
    };
    let worker = || server.worker().workflow_fn("w", workflow).build().unwrap().start();
    let first = worker();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    while handle.query::<String>("step").await.unwrap().is_none() {}
    first.abort();
    // The server may consider the first worker alive for a while, but not as long as it would with heartbeats.
    handle.signal("go", &json!("on")).await.unwrap();
    let second = worker();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!("on"));
    second.stop().await;
}
