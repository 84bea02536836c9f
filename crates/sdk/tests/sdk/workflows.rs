//! The features of workflows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flovyn_sdk::{
    Error, PromiseOptions, StartOptions, TaskContext, TaskDefinition, WorkflowContext, WorkflowDefinition,
    join_all, with_timeout,
};
use serde_json::{Value, json};

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(
    tasks_run_side_by_side_and_their_results_come_back,
    timers_children_promises_signals_state_and_steps,
    a_cancelled_workflow_cleans_up_behind_its_shield,
    a_timeout_wins_over_a_task_that_nobody_runs,
);

struct Double;

impl TaskDefinition for Double {
    type Input = i64;
    type Output = i64;
    const KIND: &'static str = "double";

    async fn run(&self, _context: TaskContext, input: i64) -> flovyn_sdk::Result<i64> {
        Ok(input * 2)
    }
}

struct Sum;

impl WorkflowDefinition for Sum {
    type Input = Vec<i64>;
    type Output = i64;
    const KIND: &'static str = "sum-of-doubles";

    async fn run(&self, context: WorkflowContext, input: Vec<i64>) -> flovyn_sdk::Result<i64> {
        let doubled = join_all(input.into_iter().map(|number| context.schedule::<Double>(number))).await;
        doubled.into_iter().sum()
    }
}

async fn tasks_run_side_by_side_and_their_results_come_back(server: TestServer) {
    for cached in [0, 100] {
        let worker = server.worker().workflow(Sum).task(Double).cache_size(cached).build().unwrap().start();
        let handle = server.client().start::<Sum>((1..=20).collect()).await.unwrap();
        assert_eq!(handle.result(PATIENCE).await.unwrap(), 420);
        let history = handle.history().await.unwrap();
        assert_eq!(history.iter().filter(|event| event.kind == "TASK_SCHEDULED").count(), 20);
        assert_eq!(history.last().unwrap().kind, "WORKFLOW_COMPLETED");
        worker.stop().await;
    }
}

async fn timers_children_promises_signals_state_and_steps(server: TestServer) {
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = steps.clone();
    let parent = move |context: WorkflowContext, _: Value| {
        let counted = counted.clone();
        async move {
            context.set_state("phase", "sleeping")?;
            context.sleep(Duration::from_millis(20)).await?;
            let stamp: u32 = context
                .run("stamp", move || {
                    counted.fetch_add(1, Ordering::SeqCst);
                    7
                })
                .await?;
            let child = context.schedule_workflow_raw("kid", "child", json!(stamp)).await?;
            context.set_state("phase", "asking")?;
            let options = PromiseOptions { key: Some("the-answer".into()), ..PromiseOptions::default() };
            let answer: i64 = context.promise_with_options("answer", options).await?;
            let name: String = context.wait_for_signal("name").await?;
            Ok(
                json!({ "child": child, "answer": answer, "name": name, "id": context.random_uuid().to_string() }),
            )
        }
    };
    let child = |_: WorkflowContext, input: Value| async move { Ok(json!({ "got": input })) };
    let builder = server.worker().workflow_fn("parent", parent).workflow_fn("child", child).cache_size(0);
    let worker = builder.build().unwrap().start();
    let client = server.client();
    let handle = client.start_raw("parent", Value::Null, StartOptions::default()).await.unwrap();
    handle.signal("name", "Ada").await.unwrap();
    while client.resolve_promise("key:the-answer", &42).await.is_err() {
        tokio::task::yield_now().await;
    }
    let output = handle.result(PATIENCE).await.unwrap();
    assert_eq!(
        (&output["child"], &output["answer"], &output["name"]),
        (&json!({"got": 7}), &json!(42), &json!("Ada"))
    );
    assert_eq!(handle.query::<String>("phase").await.unwrap().as_deref(), Some("asking"));
    assert_eq!(handle.query::<String>("never set").await, Ok(None));
    let nobody = client.handle::<Value>(uuid::Uuid::from_u128(7));
    assert!(matches!(nobody.query::<String>("phase").await, Err(Error::Server { .. })));
    // Replayed from the start at every step, but the step ran once.
    assert_eq!(steps.load(Ordering::SeqCst), 1);
    assert!(worker.metrics().cold_starts() > 3);
    worker.stop().await;
}

async fn a_cancelled_workflow_cleans_up_behind_its_shield(server: TestServer) {
    let saga = |context: WorkflowContext, _: Value| async move {
        let booked = context.schedule_raw("book", json!(1)).await?;
        let waited = context.wait_for_signal::<Value>("go").await;
        if waited.is_err() {
            context.shielded().schedule_raw("unbook", booked).await?;
        }
        waited
    };
    let book = |_: TaskContext, input: Value| async move { Ok(input) };
    let builder = server.worker().workflow_fn("saga", saga).task_fn("book", book).task_fn("unbook", book);
    let worker = builder.build().unwrap().start();
    let client = server.client();
    let handle = client.start_raw("saga", Value::Null, StartOptions::default()).await.unwrap();
    while handle.describe().await.unwrap().status != "WAITING" || handle.history().await.unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    handle.cancel("too expensive").await.unwrap();
    let error = handle.result(PATIENCE).await.unwrap_err();
    assert_eq!(error, Error::Cancelled("too expensive".into()));
    let kinds: Vec<String> = handle.history().await.unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "TASK_COMPLETED").count(), 2, "{kinds:?}");
    assert_eq!(kinds.last().unwrap(), "WORKFLOW_CANCELLED");
    worker.stop().await;
}

async fn a_timeout_wins_over_a_task_that_nobody_runs(server: TestServer) {
    let impatient = |context: WorkflowContext, _: Value| async move {
        let never = context.schedule_raw("nobody-has-it", Value::Null);
        match with_timeout(&context, Duration::from_millis(20), never).await {
            Err(Error::Elapsed(_)) => Ok(json!("gave up")),
            other => Ok(json!(format!("{other:?}"))),
        }
    };
    let worker = server.worker().workflow_fn("impatient", impatient).build().unwrap().start();
    let handle = server.client().start_raw("impatient", Value::Null, StartOptions::default()).await.unwrap();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!("gave up"));
    let kinds: Vec<String> = handle.history().await.unwrap().into_iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&"TASK_CANCEL_REQUESTED".to_owned()), "{kinds:?}");
    worker.stop().await;
}
