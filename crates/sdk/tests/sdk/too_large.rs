//! Data that exceeds the server's limits: each case fails with a code, the worker reports why, and other work
//! continues.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flovyn_sdk::worker::{WorkerBuilder, WorkerEvent};
use flovyn_sdk::{Error, Result, StartOptions, TaskContext, WorkflowContext, WorkflowHandle, join_all};
use serde_json::{Value, json};

use crate::common::{Database, PATIENCE, TestServer};

/// Runs each test on both databases, with short delays after refusals.
macro_rules! on_both_quick {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(super::quick(super::Database::Sqlite).await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(super::quick(super::Database::Postgres).await).await;
            })*
        }
    };
}

on_both_quick!(
    a_state_of_2_mib_is_an_error_at_the_call,
    an_input_of_2_mib_is_an_error_of_its_future,
    the_error_at_the_call_is_the_same_in_every_replay,
    an_output_of_2_mib,
    a_result_of_an_operation_of_2_mib,
    too_many_tasks_at_once,
    an_activation_that_no_frame_takes,
    a_tasks_output_of_2_mib,
    failures_that_are_too_long_are_cut,
    a_heartbeat_of_2_mib_is_an_error_at_the_call,
);

async fn quick(database: Database) -> TestServer {
    TestServer::start_limited(database, |limits| limits.activation_backoff_ms = 1).await
}

fn large() -> String {
    "x".repeat(2 << 20)
}

type Heard = Arc<Mutex<Vec<WorkerEvent>>>;

fn listening(builder: WorkerBuilder) -> (WorkerBuilder, Heard) {
    let heard = Heard::default();
    let hears = heard.clone();
    (builder.on_event(move |event| hears.lock().unwrap().push(event.clone())), heard)
}

async fn start(server: &TestServer, kind: &str) -> WorkflowHandle<Value> {
    server.client().start_raw(kind, json!(null), StartOptions::default()).await.unwrap()
}

/// The failure in the history and in the client's result.
async fn failure(handle: &WorkflowHandle<Value>, code: &str) -> String {
    let error = handle.result(PATIENCE).await.unwrap_err().to_string();
    assert!(error.contains(&format!("{code}: ")), "{error}");
    let history = handle.history().await.unwrap();
    let end = history.last().unwrap();
    assert_eq!(end.data["failureType"], code, "{}", end.data);
    error
}

/// A workflow that is refused on every retry: five times, and the worker reports each.
async fn fails_after_refusals<F, R>(server: TestServer, workflow: F, code: &str, what: &str)
where
    F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value>> + Send + 'static,
{
    let other = |context: WorkflowContext, _| async move {
        context.wait_for_signal::<Value>("go").await?;
        Ok(json!("gone"))
    };
    let (worker, heard) = listening(server.worker().workflow_fn("w", workflow).workflow_fn("other", other));
    let worker = worker.build().unwrap().start();
    let beside = start(&server, "other").await;
    let handle = start(&server, "w").await;
    let error = failure(&handle, code).await;
    assert!(error.contains(what), "{error}");
    // Other work on the same connection was not affected.
    beside.signal("go", &1).await.unwrap();
    assert_eq!(beside.result(PATIENCE).await, Ok(json!("gone")));
    assert_eq!(worker.metrics().connections(), 1);
    worker.stop().await;
    let heard = heard.lock().unwrap();
    let said = heard.iter().filter(|event| match event {
        WorkerEvent::ActivationFailed { execution_id, code: said, message }
        | WorkerEvent::ActivationRefused { execution_id, code: said, message, .. } => {
            *execution_id == handle.id() && said == code && message.contains(what)
        }
        _ => false,
    });
    assert_eq!(said.count(), 5, "{heard:?}");
}

async fn a_state_of_2_mib_is_an_error_at_the_call(server: TestServer) {
    let workflow = |context: WorkflowContext, _| async move {
        context.set_state("k", &large())?;
        Ok(json!(null))
    };
    let worker = server.worker().workflow_fn("w", workflow).build().unwrap().start();
    let handle = start(&server, "w").await;
    let error = failure(&handle, "FLV0020").await;
    assert!(error.contains("the state \"k\" has 2097154 bytes, the limit is 1048576"), "{error}");
    // Only the workflow itself has failed.
    assert_eq!((worker.metrics().activations(), worker.metrics().activations_refused()), (1, 0));
    worker.stop().await;
}

async fn an_input_of_2_mib_is_an_error_of_its_future(server: TestServer) {
    let workflow = |context: WorkflowContext, _| async move {
        let task = context.schedule_raw("t", json!(large())).await.unwrap_err();
        let child = context.schedule_workflow_raw("c", "w", json!(large())).await.unwrap_err();
        Ok(json!([task.to_string(), child.to_string()]))
    };
    let worker = server.worker().workflow_fn("w", workflow).build().unwrap().start();
    let handle = start(&server, "w").await;
    let expected = json!([
        "FLV0020: the input of the task \"t\" has 2097154 bytes, the limit is 1048576",
        "FLV0020: the input of the child workflow \"c\" has 2097154 bytes, the limit is 1048576",
    ]);
    assert_eq!(handle.result(PATIENCE).await, Ok(expected));
    assert_eq!(handle.history().await.unwrap().len(), 2, "nothing was asked for");
    worker.stop().await;
}

async fn the_error_at_the_call_is_the_same_in_every_replay(server: TestServer) {
    let workflow = |context: WorkflowContext, _| async move {
        let refused = context.set_state("k", &large()).is_err();
        let input = if refused { json!("small") } else { json!("large") };
        let task = context.schedule_raw("t", json!(large())).await.is_err();
        let one = context.schedule_raw("t", input).await?;
        context.sleep(Duration::from_millis(1)).await?;
        context.set_state("k", &one)?;
        context.sleep(Duration::from_millis(1)).await?;
        Ok(json!([refused, task, context.get_state::<Value>("k")?]))
    };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("t", |_, input| async { Ok(input) });
    // Each step is replayed from the beginning.
    let (worker, heard) = listening(worker.cache_size(0));
    let worker = worker.build().unwrap().start();
    let handle = start(&server, "w").await;
    assert_eq!(handle.result(PATIENCE).await, Ok(json!([true, true, "small"])));
    assert!(worker.metrics().cold_starts() >= 4);
    worker.stop().await;
    let failed = |event: &WorkerEvent| matches!(event, WorkerEvent::ActivationFailed { .. });
    assert!(!heard.lock().unwrap().iter().any(failed));
}

async fn an_output_of_2_mib(server: TestServer) {
    let workflow = |_, _| async { Ok(json!(large())) };
    let what = "output has 2097154 bytes, the limit is 1048576";
    fails_after_refusals(server, workflow, "FLV0020", what).await;
}

async fn a_result_of_an_operation_of_2_mib(server: TestServer) {
    let workflow = |context: WorkflowContext, _| async move {
        let read: String = context.run("read", large).await?;
        Ok(json!(read.len()))
    };
    let what = "the result of the operation \"read\" has 2097154 bytes";
    fails_after_refusals(server, workflow, "FLV0020", what).await;
}

async fn too_many_tasks_at_once(server: TestServer) {
    let workflow = |context: WorkflowContext, _| async move {
        let all = (0..20_000).map(|number| context.schedule_raw("t", json!(number)));
        let done = join_all(all.collect::<Vec<_>>()).await;
        Ok(json!(done.len()))
    };
    let what = "20000 commands in one activation, the limit is 10000";
    fails_after_refusals(server, workflow, "FLV0008", what).await;
}

async fn an_activation_that_no_frame_takes(server: TestServer) {
    let workflow = |context: WorkflowContext, _| async move {
        for number in 0..6 {
            context.set_state(&format!("part {number}"), &"x".repeat(900 << 10))?;
        }
        context.wait_for_signal::<Value>("go").await
    };
    fails_after_refusals(server, workflow, "FLV0020", "the activation has 5").await;
}

/// A workflow that returns the error of its task. The task's attempts are counted.
async fn task_fails<F, R>(server: TestServer, task: F, code: &str, what: &str)
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value>> + Send + 'static,
{
    let attempts = Arc::new(AtomicUsize::new(0));
    let counts = attempts.clone();
    let task = move |_: TaskContext, _: Value| {
        counts.fetch_add(1, Ordering::SeqCst);
        task()
    };
    let workflow = |context: WorkflowContext, _| async move {
        let error = context.schedule_raw("t", json!(null)).await.unwrap_err();
        Ok(json!([error.kind(), error.to_string()]))
    };
    let (worker, heard) = listening(server.worker().workflow_fn("w", workflow).task_fn("t", task));
    let worker = worker.build().unwrap().start();
    let handle = start(&server, "w").await;
    let error = handle.result(PATIENCE).await.unwrap();
    assert_eq!(error[0], code);
    let error = error[1].as_str().unwrap();
    assert!(error.starts_with(&format!("{code}: ")) && error.contains(what), "{error}");
    assert_eq!(attempts.load(Ordering::SeqCst), 1, "another attempt would come to the same");
    worker.stop().await;
    let heard = heard.lock().unwrap();
    let said = heard.iter().filter(|event| match event {
        WorkerEvent::TaskRefused { task_type, code: said, message, .. } => {
            task_type == "t" && said == code && message.contains(what)
        }
        _ => false,
    });
    assert_eq!(said.count(), 1, "{heard:?}");
}

async fn a_tasks_output_of_2_mib(server: TestServer) {
    let what = "output has 2097154 bytes, the limit is 1048576";
    task_fails(server, || async { Ok(json!(large())) }, "FLV0020", what).await;
}

/// The beginning of the message is kept, and the kind.
async fn failures_that_are_too_long_are_cut(server: TestServer) {
    let long = || format!("no route {}", "é".repeat(40_000));
    let cut = |text: &str| text.len() <= 65_536 && text.starts_with("no route éé") && text.ends_with('…');
    let task = move |_: TaskContext, _: Value| async move {
        Err::<Value, _>(Error::application("NO_ROUTE", long()).retryable(false).into())
    };
    let fails = |context: WorkflowContext, _| async move { context.schedule_raw("t", json!(null)).await };
    let panics = move |_: WorkflowContext, _| async move { panic!("{}", long()) };
    let worker = server.worker().workflow_fn("w", fails).workflow_fn("panics", panics).task_fn("t", task);
    let (worker, heard) = listening(worker);
    let worker = worker.build().unwrap().start();
    let error = start(&server, "w").await.result(PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), "NO_ROUTE");
    assert!(cut(&error.to_string()), "{} bytes", error.to_string().len());
    let panicking = start(&server, "panics").await;
    while worker.metrics().activations_failed() < 7 {
        tokio::task::yield_now().await;
    }
    assert!(
        !server.execution(panicking.id()).await.status.is_terminal(),
        "panics are retried without a limit"
    );
    worker.stop().await;
    let heard = heard.lock().unwrap();
    assert!(
        heard.iter().all(|event| !matches!(event, WorkerEvent::ActivationRefused { .. })),
        "{} events",
        heard.len()
    );
}

async fn a_heartbeat_of_2_mib_is_an_error_at_the_call(server: TestServer) {
    let task = |context: TaskContext, _| async move {
        let refused = context.heartbeat(&large()).unwrap_err();
        context.heartbeat(&1)?;
        Ok(json!(refused.to_string()))
    };
    let workflow = |context: WorkflowContext, _| async move { context.schedule_raw("t", json!(null)).await };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("t", task).build().unwrap().start();
    let handle = start(&server, "w").await;
    let expected = "FLV0020: a heartbeat's detail has 2097154 bytes, the limit is 1048576";
    assert_eq!(handle.result(PATIENCE).await, Ok(json!(expected)));
    worker.stop().await;
}
