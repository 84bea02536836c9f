//! What workers do with their connection and their slots.

use std::sync::Arc;
use std::time::Duration;

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
);

async fn slow_tasks_do_not_wait_for_each_other(server: TestServer) {
    const TASKS: usize = 20;
    // Nobody passes before all have come: with fewer slots than tasks this would never end.
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
    // Somebody who waits for the result waits on.
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
    while handle.query::<String>("step").await.is_err() {}
    first.abort();
    // The server may think for a moment that the first one is there, but not for as long as somebody sends heartbeats for it.
    handle.signal("go", &json!("on")).await.unwrap();
    let second = worker();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!("on"));
    second.stop().await;
}
