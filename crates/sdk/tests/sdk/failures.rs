//! A failure has the same kind and details everywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use flovyn_sdk::testing::Replay;
use flovyn_sdk::{Error, Result, RetryPolicy, StartOptions, TaskContext, TaskOptions, WorkflowContext};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(
    a_kind_and_details_reach_the_workflow_its_parent_and_the_client,
    a_failed_task_says_whether_it_gave_up_and_how_often_it_ran,
    an_error_of_another_library_keeps_its_causes,
    the_task_says_when_it_wants_to_be_tried_again,
    details_that_are_too_long_are_left_out_and_the_task_ends,
    a_history_of_a_server_replays_also_with_other_ids,
);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Declined {
    limit: u32,
}

fn quickly(max_retries: u32) -> TaskOptions {
    let millisecond = Duration::from_millis(1);
    let retry = RetryPolicy { initial: millisecond, factor: 1.0, cap: millisecond };
    TaskOptions { max_retries: Some(max_retries), retry: Some(retry), ..TaskOptions::default() }
}

async fn charge(_: TaskContext, input: Value) -> Result<Value> {
    let declined = Error::application("DECLINED", "no funds").details(&Declined { limit: 7 });
    Err(declined.retryable(input != json!("give up")).into())
}

fn is_declined(error: &Error) {
    assert_eq!(error.kind(), "DECLINED", "{error:?}");
    assert_eq!(error.details::<Declined>(), Ok(Some(Declined { limit: 7 })));
    assert!(error.details::<String>().is_err(), "it is no text");
}

async fn a_kind_and_details_reach_the_workflow_its_parent_and_the_client(server: TestServer) {
    let parent = |ctx: WorkflowContext, _: Value| async move {
        let error = ctx.schedule_workflow_raw("payment", "child", Value::Null).await.unwrap_err();
        is_declined(&error);
        assert!(matches!(&error, Error::ChildFailed { name, .. } if name == "payment"), "{error:?}");
        Err(error)
    };
    let child = |ctx: WorkflowContext, _: Value| async move {
        let error = ctx.schedule_with_options_raw("charge", Value::Null, quickly(2)).await.unwrap_err();
        is_declined(&error);
        Err(error)
    };
    let builder = server.worker().workflow_fn("parent", parent).workflow_fn("child", child);
    let worker = builder.task_fn("charge", charge).build().unwrap().start();
    let client = server.client();
    let handle = client.start_raw("parent", Value::Null, StartOptions::default()).await.unwrap();
    let error = handle.result(PATIENCE).await.unwrap_err();
    is_declined(&error);
    assert_eq!(error.to_string(), "child workflow payment failed: no funds");
    // Also over the execute stream.
    let executed = client.execute_raw("parent", Value::Null, StartOptions::default(), PATIENCE).await;
    assert_eq!(executed.unwrap_err(), error);
    let described = handle.describe().await.unwrap();
    assert_eq!(described.failure.kind.as_deref(), Some("DECLINED"));
    assert_eq!(described.failure.details, Some(json!({ "limit": 7 })));
    let history = handle.history().await.unwrap();
    let last = &history.last().unwrap().data;
    assert_eq!((&last["failureType"], &last["failureDetails"]), (&json!("DECLINED"), &json!({ "limit": 7 })));
    worker.stop().await;
}

async fn a_failed_task_says_whether_it_gave_up_and_how_often_it_ran(server: TestServer) {
    let workflow = |ctx: WorkflowContext, input: Value| async move {
        let error = ctx.schedule_with_options_raw("charge", input, quickly(3)).await.unwrap_err();
        Ok(json!([error.is_retryable(), error.attempts()]))
    };
    let builder = server.worker().workflow_fn("w", workflow).task_fn("charge", charge);
    let worker = builder.build().unwrap().start();
    let client = server.client();
    for (input, expected) in [(Value::Null, json!([true, 3])), (json!("give up"), json!([false, 1]))] {
        let ran = client.execute_raw("w", input.clone(), StartOptions::default(), PATIENCE).await;
        assert_eq!(ran, Ok(expected.clone()));
        // A standalone task reports the same failure.
        let task = client.submit_task_raw("charge", input, quickly(3)).await.unwrap();
        let error = client.task::<Value>(task).result(PATIENCE).await.unwrap_err();
        is_declined(&error);
        assert!(matches!(&error, Error::TaskFailed { task_type, .. } if task_type == "charge"), "{error:?}");
        assert_eq!(json!([error.is_retryable(), error.attempts()]), expected);
    }
    worker.stop().await;
}

async fn an_error_of_another_library_keeps_its_causes(server: TestServer) {
    fn read() -> anyhow::Result<u8> {
        let read: std::result::Result<u8, _> = "x".parse();
        anyhow::Context::context(read, "cannot read the amount")
    }
    let task = |_: TaskContext, _: Value| async { Ok(json!(read()?)) };
    let workflow = |ctx: WorkflowContext, _: Value| async move {
        ctx.schedule_with_options_raw("read", Value::Null, quickly(1)).await
    };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("read", task).build().unwrap().start();
    let ran = server.client().execute_raw("w", Value::Null, StartOptions::default(), PATIENCE).await;
    let error = ran.unwrap_err();
    assert_eq!(error.to_string(), "cannot read the amount: invalid digit found in string");
    assert_eq!((error.kind(), error.details::<Value>()), ("TASK_FAILED", Ok(None)));
    worker.stop().await;
}

/// The policy has a delay of days; the task overrides it.
async fn the_task_says_when_it_wants_to_be_tried_again(server: TestServer) {
    let calls = Arc::new(AtomicU32::new(0));
    let counts = calls.clone();
    let task = move |_: TaskContext, _: Value| {
        let number = counts.fetch_add(1, Ordering::SeqCst);
        async move {
            match number {
                0 => Err(Error::application("BUSY", "come again").retry_after(Duration::ZERO))?,
                _ => Ok(json!(number)),
            }
        }
    };
    let worker = server.worker().task_fn("t", task).build().unwrap().start();
    let day = Duration::from_secs(24 * 3_600);
    let options = TaskOptions {
        retry: Some(RetryPolicy { initial: day, factor: 1.0, cap: day }),
        ..TaskOptions::default()
    };
    let client = server.client();
    let task = client.submit_task_raw("t", Value::Null, options).await.unwrap();
    assert_eq!(client.task::<u32>(task).result(PATIENCE).await, Ok(1));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    worker.stop().await;
}

async fn details_that_are_too_long_are_left_out_and_the_task_ends(server: TestServer) {
    let task = |_: TaskContext, _: Value| async {
        Err(Error::application("é".repeat(400), "too much").details(&"x".repeat(1 << 20)))?
    };
    let worker = server.worker().task_fn("t", task).build().unwrap().start();
    let client = server.client();
    let task = client.submit_task_raw("t", Value::Null, quickly(1)).await.unwrap();
    let error = client.task::<Value>(task).result(PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), "é".repeat(255));
    let details: Value = error.details().unwrap().unwrap();
    assert!(details["omitted"].as_str().unwrap().contains("the limit is 65536"), "{details}");
    worker.stop().await;
}

async fn a_history_of_a_server_replays_also_with_other_ids(server: TestServer) {
    let workflow = |ctx: WorkflowContext, _: Value| async move {
        let failed = ctx.schedule_with_options_raw("charge", Value::Null, quickly(1)).await.unwrap_err();
        ctx.sleep(Duration::from_millis(1)).await?;
        let kid = ctx.schedule_workflow_raw("kid", "child", json!(1)).await?;
        Ok(json!([failed.kind(), kid]))
    };
    let child = |_: WorkflowContext, input: Value| async move { Ok(input) };
    let builder = server.worker().workflow_fn("w", workflow).workflow_fn("child", child);
    let worker = builder.task_fn("charge", charge).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    assert_eq!(handle.result(PATIENCE).await, Ok(json!(["DECLINED", 1])));
    let history = handle.history().await.unwrap();
    let events = history.iter().map(|event| {
        json!({ "sequence": event.sequence, "eventType": event.kind, "timestampMs": event.time_ms, "data": event.data })
    });
    let own = json!({ "execution": { "id": handle.id().to_string() }, "events": events.collect::<Vec<_>>() });
    let mut text = own.to_string();
    let first = |kind: &str, key: &str| {
        let event = history.iter().find(|event| event.kind == kind).unwrap();
        event.data[key].as_str().unwrap().to_owned()
    };
    let ids = [("TASK_SCHEDULED", "taskExecutionId"), ("CHILD_WORKFLOW_INITIATED", "childExecutionId")];
    for (number, (kind, key)) in ids.into_iter().enumerate() {
        text = text.replace(&first(kind, key), &format!("f0e1d2c3-0000-4000-8000-00000000000{number}"));
    }
    text = text.replace(&first("TIMER_STARTED", "timerId"), "sleep-0");
    let foreign: Value = serde_json::from_str(&text).unwrap();
    assert_ne!(foreign, own);
    for history in [own, foreign] {
        Replay::new("w", workflow, &history).unwrap().strict().to_the_end().await.unwrap();
    }
    worker.stop().await;
}
