//! The shapes of work: the program that a worker runs for each, and the expected result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{Error, PromiseOptions, Result, RetryPolicy, TaskOptions, WorkflowContext, join_all};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::outcomes::{self, Content};
use crate::runs;

/// The only task: it adds one.
pub(crate) const STEP: &str = "step";
/// A task that kills its worker.
pub(crate) const POISON: &str = "poison";
pub(crate) const CHAIN: u64 = 3;
pub(crate) const FAN_OUT: u64 = 5;
/// Attempts of a task.
pub(crate) const PATIENCE: u32 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Noop,
    /// Tasks in sequence.
    Chain,
    /// Tasks in parallel.
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

    /// The workflow kind.
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

    /// Whether it ends without a signal or an answer.
    pub(crate) fn ends_alone(self) -> bool {
        !matches!(self, Shape::Signal | Shape::Promise)
    }

    /// The expected result of work with this number.
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

/// The value of the signal, or the answer to the promise, for work with this number.
pub(crate) fn answer(number: u64) -> u64 {
    Shape::Signal.expected(number)
}

pub(crate) fn promise_key(number: u64) -> String {
    format!("answer-{number}")
}

/// Many attempts with short delays: crashes use up attempts of the task without its fault.
pub(crate) fn patient() -> TaskOptions {
    TaskOptions { max_retries: Some(PATIENCE), retry: Some(soon()), ..TaskOptions::default() }
}

pub(crate) fn soon() -> RetryPolicy {
    let soon = Duration::from_millis(100);
    RetryPolicy { initial: soon, factor: 1.0, cap: soon }
}

/// The input of a task of a workflow with this input.
pub(crate) fn step_input(number: u64, input: &Value) -> Value {
    json!({ "number": number, "work_ms": input["work_ms"], "failures": input["failures"] })
}

/// One attempt of a task, in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// From 1.
    pub(crate) number: u32,
    pub(crate) token: i64,
}

/// The outcome of an attempt. It contains the claim and the worker, so no two outcomes are equal.
pub(crate) fn outcome(input: &Value, attempt: Attempt) -> std::result::Result<Value, String> {
    let (worker, token) = (std::process::id(), attempt.token);
    if u64::from(attempt.number) <= input["failures"].as_u64().unwrap_or_default() {
        return Err(failure(worker, token));
    }
    Ok(json!({ "number": number_of(input) + 1, "token": token, "worker": worker }))
}

/// The error of a failed attempt.
pub(crate) fn failure(worker: u32, token: i64) -> String {
    format!("not yet (claim {token} of worker {worker})")
}

pub(crate) fn number_of(value: &Value) -> u64 {
    value["number"].as_u64().unwrap_or_default()
}

/// Runs a task, which takes as long as the input says and returns its number plus one.
async fn step(ctx: &WorkflowContext, number: u64, input: &Value) -> Result<u64> {
    Ok(number_of(&ctx.schedule_with_options_raw(STEP, step_input(number, input), patient()).await?))
}

pub(crate) fn register(
    builder: WorkerBuilder,
    runs: runs::Recorder,
    outcomes: outcomes::Recorder,
) -> WorkerBuilder {
    let reported = Arc::new(Mutex::new(HashMap::<(Uuid, i64), Content>::new()));
    let acknowledged = reported.clone();
    crate::entities::register(builder)
        .on_task_acknowledged(move |task, token| {
            let content = acknowledged.lock().unwrap_or_else(PoisonError::into_inner).remove(&(task, token));
            if let Some(content) = content {
                // If the process cannot write any more, the outcome is not checked; that causes no false finding.
                let _ = outcomes.record(task, token, content);
            }
        })
        .task_fn(STEP, move |ctx, input: Value| {
            let (runs, reported) = (runs.clone(), reported.clone());
            async move {
                let token = ctx.fencing_token();
                runs.record(ctx.task_id(), token)?;
                tokio::time::sleep(Duration::from_millis(input["work_ms"].as_u64().unwrap_or_default()))
                    .await;
                let outcome = outcome(&input, Attempt { number: ctx.attempt(), token });
                let content = if outcome.is_ok() { Content::Success } else { Content::Failure };
                reported
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert((ctx.task_id(), token), content);
                outcome.map_err(Error::failed)
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
