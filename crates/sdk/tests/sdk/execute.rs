//! Start and wait in one call, over one stream.

use std::sync::Arc;
use std::time::Duration;

use flovyn_sdk::{Error, StartOptions, TaskContext, TaskOptions, WorkflowContext, join_all};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(
    everybody_gets_the_result_of_their_own,
    large_starts_at_once_all_come_through,
    failures_and_refusals_come_back_as_errors,
    a_result_outlives_the_stream,
    many_tasks_at_once_and_the_result_of_one,
);

fn double(input: &Value) -> Value {
    json!(2 * input.as_i64().unwrap_or_default())
}

async fn everybody_gets_the_result_of_their_own(server: TestServer) {
    let worker = server.worker().workflow_fn("double", |_, input| async move { Ok(double(&input)) });
    let worker = worker.build().unwrap().start();
    let client = server.client();
    let run = |n: i32| client.execute_raw("double", json!(n), StartOptions::default(), PATIENCE);
    let results: Vec<Value> = join_all((0..500).map(run)).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(results, (0..500).map(|n| json!(2 * n)).collect::<Vec<_>>());
    worker.stop().await;
}

/// Together these starts exceed one message. A start that exceeds a message by itself must not affect the others.
async fn large_starts_at_once_all_come_through(server: TestServer) {
    let worker = server
        .worker()
        .workflow_fn("length", |_, input: Value| async move { Ok(json!(input.as_str().map(str::len))) });
    let worker = worker.build().unwrap().start();
    let client = server.client();
    let run =
        |bytes| client.execute_raw("length", json!("x".repeat(bytes)), StartOptions::default(), PATIENCE);
    let sizes: Vec<usize> = (0..60).map(|n| 150_000 + n).chain([5 << 20]).collect();
    let mut results = join_all(sizes.iter().map(|bytes| run(*bytes))).await;
    let too_large = results.pop().unwrap();
    assert!(matches!(&too_large, Err(Error::Server { code, .. }) if code == "FLV0020"), "{too_large:?}");
    let results: Vec<Value> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(results, sizes[..60].iter().map(|bytes| json!(bytes)).collect::<Vec<_>>());
    worker.stop().await;
}

async fn failures_and_refusals_come_back_as_errors(server: TestServer) {
    let worker = server.worker().workflow_fn("fails", |_, _| async { Err(Error::failed("out of stock")) });
    let worker = worker.build().unwrap().start();
    let client = server.client();
    let failed = client.execute_raw("fails", Value::Null, StartOptions::default(), PATIENCE).await;
    assert!(
        matches!(&failed, Err(Error::WorkflowFailed { message: why, .. }) if why.contains("out of stock")),
        "{failed:?}"
    );
    let refused = client.execute_raw("", Value::Null, StartOptions::default(), PATIENCE).await;
    assert!(matches!(&refused, Err(Error::Server { code, .. }) if code == "FLV0003"), "{refused:?}");
    let nobody = StartOptions { queue: Some("empty".into()), ..StartOptions::default() };
    let late = client.execute_raw("fails", Value::Null, nobody, Duration::from_millis(50)).await;
    assert!(matches!(late, Err(Error::Timeout(_))), "{late:?}");
    worker.stop().await;
}

/// The server restart breaks the stream, but the execution continues and its result arrives.
async fn a_result_outlives_the_stream(server: TestServer) {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, awaited) = (begun.clone(), go.clone());
    let task = move |_: TaskContext, _: Value| {
        let (told, awaited) = (told.clone(), awaited.clone());
        async move {
            told.notify_one();
            awaited.notified().await;
            Ok(json!("late but there"))
        }
    };
    let workflow =
        |context: WorkflowContext, _: Value| async move { context.schedule_raw("long", Value::Null).await };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("long", task);
    let worker = worker.workflow_fn("quick", |_, input| async { Ok(input) }).build().unwrap().start();
    let client = server.client();
    let running = tokio::spawn({
        let client = client.clone();
        async move { client.execute_raw("w", Value::Null, StartOptions::default(), PATIENCE).await }
    });
    begun.notified().await;
    // The worker may receive the execution before the client knows its id. A later answer on the stream shows that
    // the id has arrived.
    let quick = client.execute_raw("quick", Value::Null, StartOptions::default(), PATIENCE).await;
    assert_eq!(quick.unwrap(), Value::Null);
    let _server = server.restart().await;
    go.notify_one();
    assert_eq!(running.await.unwrap().unwrap(), json!("late but there"));
    // The next call opens a new stream.
    go.notify_one();
    let again = client.execute_raw("w", Value::Null, StartOptions::default(), PATIENCE).await;
    assert_eq!(again.unwrap(), json!("late but there"));
    worker.stop().await;
}

async fn many_tasks_at_once_and_the_result_of_one(server: TestServer) {
    let worker = server.worker().task_fn("double", |_, input| async move { Ok(double(&input)) });
    let worker = worker.build().unwrap().start();
    let client = server.client();
    let inputs = (0..100).map(|n| json!(n)).collect();
    let ids = client.submit_tasks_raw("double", inputs, TaskOptions::default()).await.unwrap();
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(client.task::<i64>(id).result(PATIENCE).await.unwrap(), 2 * n as i64);
    }
    worker.stop().await;
}
