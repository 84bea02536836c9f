//! Write durable workflows as ordinary async Rust.
//!
//! A *workflow* is an async function whose progress the server stores. A workflow survives crashes, restarts
//! and deployments, and can sleep for months. A *task* is a unit of work with retries. A workflow schedules
//! tasks; a client can also submit a standalone task.
//!
//! - [`#[workflow]`](macro@workflow) and [`#[task]`](macro@task) turn an async function into a workflow or a
//!   task. Without the macros, implement [`WorkflowDefinition`] and [`TaskDefinition`].
//!   [`#[tasks]`](macro@tasks) defines tasks that share a dependency such as a database pool.
//! - [`WorkflowContext`]: the API inside a workflow. [`TaskContext`]: the API inside a task.
//! - [`Worker`]: runs workflows and tasks. [`Client`]: starts workflows, submits tasks, sends signals and reads
//!   results.
//! - [`testing`]: runs workflows and tasks in-process, with virtual time.
//!
//! ```
//! use flovyn_sdk::{Result, TaskContext, WorkflowContext, task, workflow};
//!
//! /// Makes a greeting. A task may do whatever it likes.
//! #[task(max_retries = 5, timeout_secs = 30)]
//! async fn compose_greeting(_: TaskContext, name: String) -> Result<String> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! /// Greets somebody, whatever crashes meanwhile.
//! #[workflow]
//! async fn greet(ctx: WorkflowContext, name: String) -> Result<String> {
//!     ctx.schedule::<ComposeGreeting>(name).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let worker = flovyn_sdk::Worker::builder("http://127.0.0.1:9090", "the worker token")
//!     .workflow(Greet)
//!     .task(ComposeGreeting)
//!     .build()?;
//! # Ok(())
//! # }
//! ```

mod backoff;
pub mod client;
pub mod context;
pub mod definition;
pub mod error;
mod reason;
mod replay;
mod size;
pub mod task;
pub mod testing;
mod tls;
mod wire;
pub mod worker;

pub use crate::client::{Client, ListOptions, StartOptions, TaskHandle, WorkflowHandle};
pub use crate::context::{Either, PromiseOptions, WorkflowContext, select, with_timeout};
pub use crate::definition::{TaskDefinition, TaskSet, WorkflowDefinition};
pub use crate::error::{ApplicationError, Error, Result};
pub use crate::replay::{ChildOptions, RetryPolicy, TaskOptions};
pub use crate::task::TaskContext;
pub use crate::tls::Tls;
pub use crate::worker::{Worker, WorkerHandle};
pub use flovyn_sdk_macros::{task, tasks, workflow};
pub use futures::future::join_all;

/// Compiles and runs the example programs of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/sdk.md")]
struct Guide;

/// Items that the macros use in the code they generate.
#[doc(hidden)]
pub mod export {
    pub use tokio::select as tokio_select;

    pub use crate::context::{Branch, Race};

    /// The return type of a workflow or task. The macros use this trait to name the output type, because they
    /// see only how the return type is spelled.
    #[diagnostic::on_unimplemented(
        message = "a workflow or task returns `flovyn_sdk::Result<Output>`, not `{Self}`",
        label = "write `flovyn_sdk::Result<...>`"
    )]
    pub trait Outcome {
        type Output;
    }

    impl<T> Outcome for crate::Result<T> {
        type Output = T;
    }
}
