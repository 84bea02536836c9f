//! Runs a random program with random outside events.

use flovyn_sdk::testing::{Replay, TestEnvironment, TestRun};
use flovyn_sdk::{Error, Result, WorkflowContext};
use serde_json::{Value, json};

use crate::interpreter::workflow;
use crate::program::{Outside, Program};

pub(crate) const KIND: &str = "random";

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(crate) fn environment(seed: u64) -> TestEnvironment {
    environment_in_order().shuffle(seed)
}

/// Mocks for succeeding and failing tasks. Endless tasks have none.
pub(crate) fn environment_in_order() -> TestEnvironment {
    TestEnvironment::new()
        .mock_task("good", Ok)
        .mock_task("bad", |input| Err(Error::failed(format!("task {input} broke"))))
        .mock_child("good", Ok)
        .mock_child("bad", |input| Err(Error::failed(format!("child {input} broke"))))
}

/// Runs the program as far as possible. An activation that fails fails the test.
pub(crate) async fn run(environment: &TestEnvironment, program: &Program, outside: &[Outside]) -> TestRun {
    let mut run = environment.start_fn(KIND, workflow(program), Value::Null);
    for (number, what) in outside.iter().enumerate() {
        let happened = match what {
            Outside::Signal(n) => run.signal(&format!("signal-{n}"), &number).await,
            Outside::SignalMeanwhile(n) => run.signal_meanwhile(&format!("signal-{n}"), &number),
            Outside::Answer(n, true) => run.resolve_promise(&format!("promise-{n}"), &number).await,
            Outside::Answer(n, false) => run.reject_promise(&format!("promise-{n}"), "no").await,
            Outside::Cancel => run.cancel("enough").await,
            Outside::CancelMeanwhile => {
                run.cancel_meanwhile("enough");
                Ok(())
            }
            Outside::Settle => run.settle().await,
            Outside::Finish => run.finish().await,
        };
        match happened {
            // The promise does not exist, or the workflow has finished.
            Ok(()) | Err(Error::Failed(_)) => {}
            Err(error) => panic!("{what:?}: {error}"),
        }
    }
    run.finish().await.expect("the last activations");
    run
}

/// Replays a history and compares everything, including inputs and results.
pub(crate) async fn replay_strictly<F, R>(kind: &str, workflow: F, history: &Value) -> Result<()>
where
    F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value>> + Send + 'static,
{
    Replay::new(kind, workflow, history)?.strict().to_the_end().await
}

/// The comparable parts of a run.
pub(crate) fn seen(run: &TestRun) -> Value {
    let error = run.error().map(|error| format!("{error:?}"));
    json!({ "commands": run.commands(), "output": run.output(), "error": error, "log": run.recording() })
}
