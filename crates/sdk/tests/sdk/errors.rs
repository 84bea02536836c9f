//! Workflows that fail wait in a visible state with an error code, and continue when a fixed build connects.

use std::time::Duration;

use flovyn_sdk::{Error, StartOptions, TaskContext, TaskOptions, WorkflowContext};
use serde_json::{Value, json};

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(
    a_foreign_await_is_named,
    a_panic_is_named,
    a_workflow_that_swallows_every_error_still_waits,
    code_that_changed_under_a_workflow_is_a_named_violation,
    a_task_that_panics_fails_with_its_message_and_is_tried_again,
    a_kind_that_no_worker_has_says_so,
);

/// Runs `broken` until the server reports `code`, then lets `fixed` finish the same execution.
async fn held_back_then_fixed<F, R>(server: TestServer, code: &str, broken: F)
where
    F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
    R: Future<Output = flovyn_sdk::Result<Value>> + Send + 'static,
{
    let worker = server.worker().build_id("broken").workflow_fn("w", broken).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    let waiting = loop {
        let waiting = handle.describe().await.unwrap().waiting_on;
        if waiting.iter().any(|message| message.contains(code)) {
            break waiting;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    worker.stop().await;
    let fixed = |_: WorkflowContext, _: Value| async move { Ok(json!("fixed")) };
    let worker = server.worker().build_id("fixed").workflow_fn("w", fixed).build().unwrap().start();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!("fixed"));
    worker.stop().await;
}

async fn a_foreign_await_is_named(server: TestServer) {
    held_back_then_fixed(server, "FOREIGN_AWAIT", |_, _| async {
        std::future::pending::<()>().await;
        Ok(Value::Null)
    })
    .await;
}

async fn a_panic_is_named(server: TestServer) {
    held_back_then_fixed(server, "PANIC", |_, _| async { panic!("out of cheese") }).await;
}

async fn a_workflow_that_swallows_every_error_still_waits(server: TestServer) {
    let swallows = |context: WorkflowContext, _: Value| async move {
        match context.schedule_raw("slow", Value::Null).await {
            Ok(value) => Ok(value),
            Err(_) => Ok(json!("swallowed")),
        }
    };
    let slow = |_: TaskContext, _: Value| async { Ok(json!("done")) };
    let worker = server.worker().workflow_fn("w", swallows).task_fn("slow", slow).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!("done"));
    worker.stop().await;
}

async fn code_that_changed_under_a_workflow_is_a_named_violation(server: TestServer) {
    let first = |context: WorkflowContext, _: Value| async move {
        context.schedule_raw("a", Value::Null).await?;
        context.wait_for_signal::<Value>("go").await
    };
    let changed = |context: WorkflowContext, _: Value| async move {
        context.schedule_raw("b", Value::Null).await?;
        context.wait_for_signal::<Value>("go").await
    };
    let done = |_: TaskContext, _: Value| async { Ok(Value::Null) };
    let builder = server.worker().build_id("1").workflow_fn("w", first).task_fn("a", done);
    let worker = builder.build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    while handle.history().await.unwrap().len() < 3 || handle.describe().await.unwrap().status != "WAITING" {
        tokio::task::yield_now().await;
    }
    worker.stop().await;
    let worker = server.worker().build_id("2").workflow_fn("w", changed).build().unwrap().start();
    handle.signal("go", &1).await.unwrap();
    let waiting = loop {
        let waiting = handle.describe().await.unwrap().waiting_on;
        if waiting[0].contains("DETERMINISM_VIOLATION") {
            break waiting;
        }
        tokio::task::yield_now().await;
    };
    assert!(waiting[0].contains("at event 2: the history has task \"a\""), "{waiting:?}");
    worker.stop().await;
    let builder = server.worker().build_id("3").workflow_fn("w", first).task_fn("a", done);
    let worker = builder.build().unwrap().start();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!(1));
    worker.stop().await;
}

async fn a_task_that_panics_fails_with_its_message_and_is_tried_again(server: TestServer) {
    let workflow = |context: WorkflowContext, _: Value| async move {
        let options = TaskOptions {
            max_retries: Some(2),
            retry: Some(flovyn_sdk::RetryPolicy {
                initial: Duration::from_millis(1),
                factor: 1.0,
                cap: Duration::from_millis(1),
            }),
            ..TaskOptions::default()
        };
        context.schedule_with_options_raw("bad", Value::Null, options).await
    };
    let bad = |context: TaskContext, _: Value| async move {
        assert!(context.attempt() > 2, "attempt {} broke", context.attempt());
        Ok(Value::Null)
    };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("bad", bad).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    let error = handle.result(PATIENCE).await.unwrap_err();
    assert_eq!(error.to_string(), "panicked: attempt 2 broke");
    assert!(matches!(&error, Error::WorkflowFailed { .. }), "{error:?}");
    assert_eq!(error.kind(), "PANIC");
    worker.stop().await;
}

async fn a_kind_that_no_worker_has_says_so(server: TestServer) {
    let handle = server.client().start_raw("nobody", Value::Null, StartOptions::default()).await.unwrap();
    let waiting = handle.describe().await.unwrap().waiting_on;
    assert!(waiting[0].contains("no live worker has nobody"), "{waiting:?}");
    // It is not lost: the first worker that implements it runs it.
    let late = |_: WorkflowContext, _: Value| async { Ok(json!("at last")) };
    let worker = server.worker().workflow_fn("nobody", late).build().unwrap().start();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!("at last"));
    worker.stop().await;
}
