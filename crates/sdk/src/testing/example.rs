//! Runs the examples of the documentation in a test environment with fixed answers.

use std::future::Future;

use serde_json::{Value, json};

use super::TestEnvironment;
use crate::context::WorkflowContext;
use crate::error::Result;

/// Runs a workflow to its end. Tasks and children are answered with their input, and the promise `approval` with
/// `true`. A signal `go` with the value 1 is sent when the workflow waits.
///
/// # Panics
/// Panics if the workflow does not complete.
#[doc(hidden)]
pub fn example<F, R>(workflow: F)
where
    F: Fn(WorkflowContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<()>> + Send + 'static,
{
    let environment = TestEnvironment::new()
        .mock_task("charge", Ok)
        .mock_task("refund", Ok)
        .mock_task("book", Ok)
        .mock_child("shipping", Ok);
    let run = move |context: WorkflowContext, _: Value| {
        let workflow = workflow(context);
        async move { workflow.await.map(|()| Value::Null) }
    };
    let mut run = environment.start_fn("example", run, Value::Null);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("an example has a runtime").block_on(async {
        run.finish().await.expect("an example replays");
        if run.is_waiting() && run.resolve_promise("approval", &true).await.is_err() {
            run.signal("go", &json!(1)).await.expect("an example replays");
        }
        if run.is_waiting() {
            run.cancel("the example is over").await.expect("an example replays");
        }
        run.finish().await.expect("an example replays");
    });
    assert!(run.output().is_some(), "an example completes: {:?}", run.error());
}
