//! Write durable workflows as ordinary async Rust.
//!
//! A *workflow* is an async function whose progress the server keeps: it survives crashes, restarts and deployments, and can
//! sleep for months. A *task* is a unit of work with retries that a workflow schedules, or that stands on its own.
//!
//! - [`#[workflow]`](macro@workflow) and [`#[task]`](macro@task): make one of an async function. By hand, implement
//!   [`WorkflowDefinition`] and [`TaskDefinition`]. [`#[tasks]`](macro@tasks): tasks that share a database pool or the like.
//! - [`WorkflowContext`]: what a workflow can do. [`TaskContext`]: what a task can do.
//! - [`Worker`]: runs them. [`Client`]: starts them and talks to them.
//! - [`testing`]: runs a workflow in-process, with virtual time.
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

/// The programs on the guide's page compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/sdk.md")]
struct Guide;

/// What the macros need.
#[doc(hidden)]
pub mod export {
    pub use tokio::select as tokio_select;

    pub use crate::context::{Branch, Race};

    /// What a workflow or task returns. It lets the macros name the output without knowing how the type was written.
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
