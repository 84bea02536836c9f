//! The test kit itself: real tasks, retries in virtual time, the state of a run, and the comparison of a replay.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use flovyn_sdk::task::LogLevel;
use flovyn_sdk::testing::{Replay, TestEnvironment, TestTask, replay, replay_fn};
use flovyn_sdk::{
    Error, PromiseOptions, Result, RetryPolicy, TaskContext, TaskOptions, WorkflowContext, task, tasks,
    workflow,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

struct Bank {
    calls: Arc<AtomicU32>,
}

#[tasks]
impl Bank {
    /// Succeeds on the third attempt, with a value that the second attempt stored.
    #[task(max_retries = 5, retry_initial_ms = 1_000, retry_factor = 3, retry_cap_ms = 60_000)]
    async fn pay(&self, ctx: TaskContext, cents: u32) -> Result<u32> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        ctx.extension::<String>()?;
        let before: u32 = ctx.last_heartbeat()?.unwrap_or_default();
        ctx.heartbeat(&(before + 1))?;
        match ctx.attempt() {
            1 => Err("the bank is slow".into()),
            2 => panic!("out of memory"),
            _ => Ok(cents + before),
        }
    }

    #[task]
    async fn refuse(&self, _: TaskContext, _: ()) -> Result<()> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Err(Error::NonRetryable("no such account".into()))
    }

    #[task(max_retries = 2, retry_initial_ms = 500)]
    async fn fail(&self, _: TaskContext, _: ()) -> Result<()> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Err("always".into())
    }
}

#[workflow]
async fn shopping(ctx: WorkflowContext, cents: u32) -> Result<u32> {
    ctx.set_state("step", "paying")?;
    let paid = ctx.schedule::<Pay>(cents).await?;
    ctx.clear_state("step");
    ctx.wait_for_signal::<()>("shipped").await?;
    Ok(paid)
}

fn environment() -> (TestEnvironment, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let environment = TestEnvironment::new().tasks(Bank { calls: calls.clone() });
    (environment.extension("pool".to_owned()), calls)
}

#[tokio::test]
async fn a_real_task_is_retried_in_virtual_time() {
    let (environment, calls) = environment();
    for environment in
        [environment.clone(), environment.clone().evict_always(), environment.clone().shuffle(7)]
    {
        calls.store(0, Ordering::SeqCst);
        let mut run = environment.start(Shopping, 250);
        run.settle().await.unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        let first = "task \"pay\": attempt 1 failed: the bank is slow; next attempt in 1s";
        assert_eq!(run.waiting_on(), [first]);
        assert_eq!(run.state::<String>("step").unwrap().as_deref(), Some("paying"));
        assert!(run.state::<u32>("step").is_err(), "it is no number");
        run.advance(SECOND).await.unwrap();
        let second = "task \"pay\": attempt 2 failed: panicked: out of memory; next attempt in 3s";
        assert_eq!(run.waiting_on(), [second]);
        run.finish().await.unwrap();
        assert_eq!((calls.load(Ordering::SeqCst), run.elapsed()), (3, 4 * SECOND));
        assert_eq!(run.waiting_on(), ["signal \"shipped\""]);
        assert_eq!(run.state::<String>("step").unwrap(), None);
        run.signal("shipped", &()).await.unwrap();
        assert_eq!(run.output(), Some(&json!(252)), "with the heartbeats of both attempts before");
        assert_eq!(run.waiting_on(), [""; 0]);
    }
}

#[tokio::test]
async fn attempts_end_where_the_policy_says() {
    let (environment, calls) = environment();
    let workflow = |ctx: WorkflowContext, _: Value| async move {
        let refused = ctx.schedule::<Refuse>(()).await.unwrap_err().to_string();
        let failed = ctx.schedule::<Fail>(()).await.unwrap_err().to_string();
        let retry = RetryPolicy { initial: 10 * SECOND, factor: 2.0, cap: 15 * SECOND };
        let options = TaskOptions { max_retries: Some(4), retry: Some(retry), ..TaskOptions::default() };
        let other = ctx.schedule_with_options::<Fail>((), options).await.unwrap_err().to_string();
        Ok(json!([refused, failed, other]))
    };
    let mut run = environment.start_fn("w", workflow, Value::Null);
    run.finish().await.unwrap();
    assert_eq!(run.output(), Some(&json!(["no such account", "always", "always"])));
    assert_eq!(calls.load(Ordering::SeqCst), 1 + 2 + 4);
    assert_eq!(run.elapsed(), SECOND / 2 + 10 * SECOND + 15 * SECOND + 15 * SECOND);
}

#[tokio::test]
async fn failures_have_kind_details_and_attempts_in_the_kit_too() {
    #[task(max_retries = 4)]
    async fn charge(ctx: TaskContext, again: bool) -> Result<()> {
        let error = Error::application("BUSY", format!("attempt {}", ctx.attempt())).details(&ctx.attempt());
        Err(error.retryable(again).retry_after(30 * SECOND))?
    }
    let tell = |error: Error| {
        let details: Option<Value> = error.details().unwrap();
        json!([error.kind(), details, error.is_retryable(), error.attempts()])
    };
    let workflow = move |ctx: WorkflowContext, _: Value| async move {
        let exhausted = tell(ctx.schedule::<Charge>(true).await.unwrap_err());
        let gave_up = tell(ctx.schedule::<Charge>(false).await.unwrap_err());
        let mocked = tell(ctx.schedule_raw("mocked", Value::Null).await.unwrap_err());
        let plain = tell(ctx.schedule_raw("plain", Value::Null).await.unwrap_err());
        let child = tell(ctx.schedule_workflow_raw("kid", "child", Value::Null).await.unwrap_err());
        ctx.set_state("seen", &json!([exhausted, gave_up, mocked, plain, child]))?;
        Err(Error::application("END", "over").details(&1))?
    };
    let mock = |_| Err(Error::application("MOCKED", "no").details(&2).into());
    let environment = TestEnvironment::new().task(Charge).mock_task("mocked", mock).mock_child("child", mock);
    let environment = environment.mock_task("plain", |_| Err("no".into()));
    for environment in [environment.clone(), environment.evict_always()] {
        let mut run = environment.start_fn("w", workflow, Value::Null);
        run.finish().await.unwrap();
        let expected = json!([
            ["BUSY", 4, true, 4],
            ["BUSY", 1, false, 1],
            ["MOCKED", 2, true, 3],
            ["TASK_FAILED", null, true, 3],
            ["MOCKED", 2, true, null]
        ]);
        assert_eq!(run.state::<Value>("seen").unwrap(), Some(expected));
        assert_eq!(run.elapsed(), 3 * 30 * SECOND, "as the task says, not as its policy does");
        assert_eq!(tell(run.error().unwrap()), json!(["END", 1, true, null]));
        let last = run.history().pop().unwrap().data;
        assert_eq!((&last["failureType"], &last["failureDetails"]), (&json!("END"), &json!(1)));
    }
}

#[tokio::test]
async fn a_cancelled_task_has_no_further_attempt_and_a_mock_goes_first() {
    let (environment, calls) = environment();
    let workflow = |ctx: WorkflowContext, _: Value| async move {
        let result = flovyn_sdk::with_timeout(&ctx, SECOND / 2, ctx.schedule::<Pay>(1)).await;
        ctx.sleep(60 * SECOND).await?;
        Ok(json!(format!("{result:?}")))
    };
    let mut run = environment.start_fn("w", workflow, Value::Null);
    run.finish().await.unwrap();
    assert_eq!((run.output(), calls.load(Ordering::SeqCst)), (Some(&json!("Err(Elapsed(500ms))")), 1));
    let mut run = environment.mock::<Pay>(Ok).start_fn("w", workflow, Value::Null);
    run.finish().await.unwrap();
    assert_eq!((run.output(), calls.load(Ordering::SeqCst)), (Some(&json!("Ok(1)")), 1));
}

#[tokio::test]
async fn a_run_says_what_it_waits_for_in_the_order_in_which_it_asked() {
    let workflow = |ctx: WorkflowContext, _: Value| async move {
        let _not_waited_for = ctx.schedule_raw("unpolled", Value::Null);
        let (task, timer) = (ctx.schedule_raw("nobody", Value::Null), ctx.sleep(SECOND));
        let promise = ctx.promise_with_options::<Value>("approval", PromiseOptions::default());
        let child = ctx.schedule_workflow_raw("kid", "child", Value::Null);
        let (signal, cancel) = (ctx.wait_for_signal::<Value>("go"), ctx.cancellation());
        drop(futures::join!(task, timer, promise, child, signal, cancel));
        Ok(Value::Null)
    };
    for environment in [TestEnvironment::new(), TestEnvironment::new().evict_always()] {
        let mut run = environment.start_fn("w", workflow, Value::Null);
        assert_eq!(run.waiting_on(), [""; 0], "it was not driven yet");
        run.settle().await.unwrap();
        let all = [
            "task \"nobody\", which the test neither runs nor mocks",
            "timer \"timer-1\"",
            "promise \"approval\"",
            "child \"kid\"",
            "signal \"go\"",
            "request to cancel",
        ];
        assert_eq!(run.waiting_on(), all);
        run.advance(SECOND).await.unwrap();
        run.resolve_promise("approval", &1).await.unwrap();
        assert_eq!(run.waiting_on(), [all[0], all[3], all[4], all[5]]);
    }
}

#[tokio::test]
async fn a_task_alone_has_a_context_that_shows_what_it_said() {
    #[task]
    async fn import(ctx: TaskContext, _: ()) -> Result<bool> {
        ctx.report_progress(0.5, "half").await;
        ctx.log(LogLevel::Warn, "a row is empty").await;
        ctx.stream(&1).await?;
        let file: Option<String> = ctx.get_state("file").await?;
        ctx.set_state("rows", &(ctx.extension::<u32>()? + u32::from(file.is_some()))).await?;
        Ok(ctx.is_cancelled())
    }
    let mut task = TestTask::new().extension(7_u32);
    task.set_state("file", "a.csv").unwrap();
    assert_eq!(task.run(Import, ()).await, Ok(false));
    task.cancel();
    assert_eq!(task.run(Import, ()).await, Ok(true));
    assert_eq!((task.attempts(), task.state::<u32>("rows").unwrap()), (2, Some(8)));
    assert_eq!(task.log()[0], (LogLevel::Warn, "a row is empty".to_owned()));
    assert_eq!(
        (task.progress()[0].clone(), task.streamed()),
        ((0.5, "half".to_owned()), vec![json!(1), json!(1)])
    );
    let missing = TestTask::new().run(Import, ()).await.unwrap_err().to_string();
    assert!(missing.contains("no extension of the type `u32`"), "{missing}");
}

#[derive(Serialize, Deserialize)]
struct Old {
    id: u32,
}

/// The code after a later change.
#[derive(Serialize, Deserialize)]
struct New {
    id: u32,
    #[serde(default)]
    note: String,
}

#[workflow(kind = "order")]
async fn old_order(ctx: WorkflowContext, order: Old) -> Result<Old> {
    ctx.schedule_raw("good", json!(order)).await?;
    ctx.sleep(SECOND).await?;
    Ok(order)
}

#[workflow(kind = "order")]
async fn new_order(ctx: WorkflowContext, order: New) -> Result<New> {
    ctx.schedule_raw("good", json!(order)).await?;
    ctx.sleep(2 * SECOND).await?;
    Ok(order)
}

#[tokio::test]
async fn a_new_field_is_a_violation_only_for_the_strict() {
    let mut run = crate::runs::environment_in_order().start(OldOrder, Old { id: 1 });
    run.finish().await.unwrap();
    let history = run.recording();
    replay(NewOrder, &history).await.unwrap();
    let error = Replay::of(NewOrder, &history).unwrap().strict().to_the_end().await.unwrap_err().to_string();
    assert!(error.contains("{\"id\":1,\"note\":\"\"}"), "{error}");
    Replay::of(OldOrder, &history).unwrap().strict().to_the_end().await.unwrap();
    // Everything that a worker compares is still compared.
    let other_task = |ctx: WorkflowContext, _: Value| async move {
        ctx.schedule_raw("bad", Value::Null).await?;
        ctx.sleep(SECOND).await?;
        Ok(Value::Null)
    };
    let fails = |ctx: WorkflowContext, _: Value| async move {
        ctx.schedule_raw("good", Value::Null).await?;
        ctx.sleep(SECOND).await?;
        Err(Error::failed("now it fails"))
    };
    for (error, expected) in [
        (replay_fn("order", other_task, &history).await, "task \"bad\""),
        (replay_fn("order", fails, &history).await, "failed with \"now it fails\""),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
