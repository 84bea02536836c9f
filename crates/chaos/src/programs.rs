//! The shapes of work: what a worker runs for each, and what must come out of it.

use std::time::Duration;

use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{PromiseOptions, Result, RetryPolicy, TaskOptions, WorkflowContext, join_all};
use serde_json::{Value, json};

use crate::runs::Recorder;

/// The one task: it adds one.
pub(crate) const STEP: &str = "step";
/// A task that takes its worker with it.
pub(crate) const POISON: &str = "poison";
const CHAIN: u64 = 3;
const FAN_OUT: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Noop,
    /// Tasks one after the other.
    Chain,
    /// Tasks side by side.
    FanOut,
    Timer,
    /// Waits for a signal.
    Signal,
    /// Waits for a promise that is answered by its key.
    Promise,
    /// A workflow with a child that has a task.
    Parent,
    /// A chain that two clients start at the same time under one idempotency key.
    Keyed,
    /// A task on its own.
    Task,
}

impl Shape {
    pub(crate) const ALL: [Shape; 9] = [
        Shape::Noop,
        Shape::Chain,
        Shape::FanOut,
        Shape::Timer,
        Shape::Signal,
        Shape::Promise,
        Shape::Parent,
        Shape::Keyed,
        Shape::Task,
    ];

    /// The kind of its workflow.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Shape::Noop => "noop",
            Shape::Chain | Shape::Keyed => "chain",
            Shape::FanOut => "fanout",
            Shape::Timer => "timer",
            Shape::Signal => "signal",
            Shape::Promise => "promise",
            Shape::Parent => "parent",
            Shape::Task => STEP,
        }
    }

    /// Whether it ends without anybody's help.
    pub(crate) fn ends_alone(self) -> bool {
        !matches!(self, Shape::Signal | Shape::Promise)
    }

    /// What work with this number must come to.
    pub(crate) fn expected(self, number: u64) -> u64 {
        match self {
            Shape::Noop | Shape::Timer => number,
            Shape::Chain | Shape::Keyed => number + CHAIN,
            Shape::FanOut => (0..FAN_OUT).map(|index| number + index + 1).sum(),
            Shape::Signal | Shape::Promise => number + 7,
            Shape::Parent | Shape::Task => number + 1,
        }
    }
}

/// What is sent from outside to work with this number, as a signal or as the answer to its promise.
pub(crate) fn answer(number: u64) -> u64 {
    Shape::Signal.expected(number)
}

pub(crate) fn promise_key(number: u64) -> String {
    format!("answer-{number}")
}

/// A crash is no fault of the task: it is tried until somebody finishes it, and soon.
pub(crate) fn patient() -> TaskOptions {
    let soon = Duration::from_millis(100);
    TaskOptions {
        max_retries: Some(1_000),
        retry: Some(RetryPolicy { initial: soon, factor: 1.0, cap: soon }),
        ..TaskOptions::default()
    }
}

fn number_of(value: &Value) -> u64 {
    value["number"].as_u64().unwrap_or_default()
}

/// A task, which takes as long as the input says, and comes to its number plus one.
async fn step(ctx: &WorkflowContext, number: u64, input: &Value) -> Result<u64> {
    let input = json!({ "number": number, "work_ms": input["work_ms"] });
    Ok(number_of(&ctx.schedule_with_options_raw(STEP, input, patient()).await?))
}

pub(crate) fn register(builder: WorkerBuilder, runs: Recorder) -> WorkerBuilder {
    builder
        .task_fn(STEP, move |ctx, input: Value| {
            let runs = runs.clone();
            async move {
                let token = ctx.fencing_token();
                runs.record(ctx.task_id(), token)?;
                tokio::time::sleep(Duration::from_millis(input["work_ms"].as_u64().unwrap_or_default()))
                    .await;
                Ok(json!({ "number": number_of(&input) + 1, "token": token }))
            }
        })
        .task_fn(POISON, |_, _: Value| async move { std::process::abort() })
        .workflow_fn("noop", |_, input| async move { Ok(json!(number_of(&input))) })
        .workflow_fn("chain", |ctx, input| async move {
            let mut number = number_of(&input);
            for _ in 0..CHAIN {
                number = step(&ctx, number, &input).await?;
            }
            Ok(json!(number))
        })
        .workflow_fn("fanout", |ctx, input| async move {
            let steps = (0..FAN_OUT).map(|index| step(&ctx, number_of(&input) + index, &input));
            let numbers = join_all(steps).await.into_iter().collect::<Result<Vec<u64>>>()?;
            Ok(json!(numbers.iter().sum::<u64>()))
        })
        .workflow_fn("timer", |ctx, input| async move {
            ctx.sleep(Duration::from_millis(input["work_ms"].as_u64().unwrap_or_default() + 50)).await?;
            Ok(json!(number_of(&input)))
        })
        .workflow_fn("signal", |ctx, _| async move { Ok(json!(ctx.wait_for_signal::<u64>("go").await?)) })
        .workflow_fn("promise", |ctx, input| async move {
            let key = Some(promise_key(number_of(&input)));
            let options = PromiseOptions { key, ..PromiseOptions::default() };
            Ok(json!(ctx.promise_with_options::<u64>("answer", options).await?))
        })
        .workflow_fn("parent", |ctx, input| async move {
            ctx.schedule_workflow_raw("child", "child", input).await
        })
        .workflow_fn(
            "child",
            |ctx, input| async move { Ok(json!(step(&ctx, number_of(&input), &input).await?)) },
        )
}
