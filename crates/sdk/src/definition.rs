//! The traits that define workflows and tasks.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::WorkflowContext;
use crate::error::{Error, Result};
use crate::replay::TaskOptions;
use crate::task::TaskContext;

/// A workflow: an async function whose progress survives crashes. Usually implemented with
/// [`#[workflow]`](macro@crate::workflow).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a workflow definition",
    label = "use the type that `#[workflow]` generates from the function",
    note = "for `#[workflow] async fn check_out(...)`, that is `CheckOut`: write `.workflow(CheckOut)` or `start::<CheckOut>(input)`"
)]
pub trait WorkflowDefinition: Send + Sync + 'static {
    type Input: Serialize + DeserializeOwned + Send + 'static;
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The name under which the workflow is started.
    const KIND: &'static str;
    /// The version of this definition. An execution that names a version runs only on a definition with the
    /// same version. A typed start names the version of its definition. `None`: the definition has no version.
    const VERSION: Option<&'static str> = None;
    /// Total time for clean-up after a cancel request, if the start sets none. `None`: no limit while clean-up
    /// makes progress.
    const CANCEL_GRACE: Option<Duration> = None;

    /// JSON Schemas of input and output, shown in the user interface to people who start it: see [`schemas`].
    fn schemas() -> Schemas {
        Schemas::default()
    }

    fn run(
        &self,
        context: WorkflowContext,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output>> + Send;
}

/// A task: a unit of work with retries. A task may do I/O and call other systems. Usually implemented with
/// [`#[task]`](macro@crate::task).
///
/// The function with the attribute is not the definition itself. If you pass the function, the compiler names
/// the type to use:
///
/// ```compile_fail,E0277
/// # use flovyn_sdk::{Result, TaskContext, Worker, task};
/// #[task]
/// async fn charge_card(_: TaskContext, cents: u32) -> Result<u32> {
///     Ok(cents)
/// }
///
/// // Correct: `.task(ChargeCard)`.
/// let worker = Worker::builder("http://localhost:9090", "token").task(charge_card);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a task definition",
    label = "use the type that `#[task]` generates from the function",
    note = "for `#[task] async fn charge_card(...)`, that is `ChargeCard`: write `ctx.schedule::<ChargeCard>(input)` or `.task(ChargeCard)`"
)]
pub trait TaskDefinition: Send + Sync + 'static {
    type Input: Serialize + DeserializeOwned + Send + 'static;
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The name under which the task is scheduled.
    const KIND: &'static str;

    /// JSON Schemas of input and output, shown in the user interface to people who submit it: see [`schemas`].
    fn schemas() -> Schemas {
        Schemas::default()
    }

    /// Default options of the task. The workflow can override them.
    fn options() -> TaskOptions {
        TaskOptions::default()
    }

    fn run(
        &self,
        context: TaskContext,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output>> + Send;
}

/// A set of tasks that share a dependency, such as a database pool. [`#[tasks]`](macro@crate::tasks) implements
/// this trait for an impl block.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of tasks",
    label = "write `#[tasks]` on its impl block, and `#[task]` on the methods that are tasks",
    note = "a single task is registered with `.task(...)`"
)]
pub trait TaskSet: Send + Sync + 'static {
    /// One entry for each task.
    fn tasks(self: Arc<Self>) -> Vec<TaskEntry>;
}

/// A task definition of any type, ready to be registered with a worker.
pub struct TaskEntry {
    pub(crate) kind: &'static str,
    pub(crate) schemas: Schemas,
    pub(crate) definition: Arc<dyn AnyTask>,
}

impl TaskEntry {
    pub fn new<T: TaskDefinition>(task: T) -> Self {
        Self { kind: T::KIND, schemas: T::schemas(), definition: Arc::new(task) }
    }
}

impl std::fmt::Debug for TaskEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskEntry").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// JSON Schemas of the input and output of a definition. `None`: not known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schemas {
    pub input: Option<Value>,
    pub output: Option<Value>,
}

/// Generates the schemas of an input type and an output type, for `WorkflowDefinition::schemas` and
/// `TaskDefinition::schemas`.
///
/// ```
/// # use flovyn_sdk::{Result, TaskContext, TaskDefinition};
/// # use flovyn_sdk::definition::{Schemas, schemas};
/// struct Square;
///
/// impl TaskDefinition for Square {
///     type Input = i64;
///     type Output = i64;
///     const KIND: &'static str = "square";
///
///     fn schemas() -> Schemas {
///         schemas::<i64, i64>()
///     }
///
///     async fn run(&self, _: TaskContext, input: i64) -> Result<i64> {
///         Ok(input * input)
///     }
/// }
/// assert_eq!(Square::schemas().input.unwrap()["type"], "integer");
/// ```
#[cfg(feature = "schemars")]
pub fn schemas<I: schemars::JsonSchema, O: schemars::JsonSchema>() -> Schemas {
    Schemas {
        input: Some(schemars::schema_for!(I).to_value()),
        output: Some(schemars::schema_for!(O).to_value()),
    }
}

/// A workflow of any type, with JSON values as input and output.
pub(crate) trait AnyWorkflow: Send + Sync {
    /// The time for clean-up after a cancel request, as the definition sets it.
    fn cancel_grace(&self) -> Option<Duration> {
        None
    }

    fn start(self: Arc<Self>, context: WorkflowContext, input: Value) -> BoxFuture<'static, Result<Value>>;
}

impl<W: WorkflowDefinition> AnyWorkflow for W {
    fn cancel_grace(&self) -> Option<Duration> {
        W::CANCEL_GRACE
    }

    fn start(self: Arc<Self>, context: WorkflowContext, input: Value) -> BoxFuture<'static, Result<Value>> {
        Box::pin(async move {
            let input = serde_json::from_value(input).map_err(|error| not_read("input", &error))?;
            Ok(serde_json::to_value(self.run(context, input).await?)?)
        })
    }
}

/// A task of any type, with JSON values as input and output.
pub(crate) trait AnyTask: Send + Sync {
    fn start(self: Arc<Self>, context: TaskContext, input: Value) -> BoxFuture<'static, Result<Value>>;
}

impl<T: TaskDefinition> AnyTask for T {
    fn start(self: Arc<Self>, context: TaskContext, input: Value) -> BoxFuture<'static, Result<Value>> {
        Box::pin(async move {
            let input = serde_json::from_value(input).map_err(|error| not_read("input", &error))?;
            Ok(serde_json::to_value(self.run(context, input).await?)?)
        })
    }
}

/// A workflow made from a closure, with JSON values as input and output.
pub(crate) struct Dynamic<F>(pub(crate) F);

impl<F, R> AnyWorkflow for Dynamic<F>
where
    F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value>> + Send + 'static,
{
    // The first poll calls the closure. So code of the closure before its async block is part of the workflow;
    // a panic there fails the activation.
    fn start(self: Arc<Self>, context: WorkflowContext, input: Value) -> BoxFuture<'static, Result<Value>> {
        Box::pin(async move { (self.0)(context, input).await })
    }
}

/// A task made from a closure, with JSON values as input and output.
pub(crate) struct DynamicTask<F>(pub(crate) F);

impl<F, R> AnyTask for DynamicTask<F>
where
    F: Fn(TaskContext, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value>> + Send + 'static,
{
    // The first poll calls the closure, so a panic in it is caught as a failure of the attempt.
    fn start(self: Arc<Self>, context: TaskContext, input: Value) -> BoxFuture<'static, Result<Value>> {
        Box::pin(async move { (self.0)(context, input).await })
    }
}

fn not_read(what: &str, error: &serde_json::Error) -> Error {
    Error::Payload(format!("cannot deserialize the {what}: {error}"))
}
