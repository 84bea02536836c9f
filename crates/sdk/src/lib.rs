//! Write durable workflows as ordinary async Rust.
//!
//! A *workflow* is an async function whose progress the server keeps: it survives crashes, restarts and deployments, and can
//! sleep for months. A *task* is a unit of work with retries that a workflow schedules, or that stands on its own.
//!
//! - [`WorkflowDefinition`] and [`TaskDefinition`]: what you write.
//! - [`WorkflowContext`]: what a workflow can do. [`TaskContext`]: what a task can do.
//! - [`Worker`]: runs them. [`Client`]: starts them and talks to them.
//! - [`testing`]: runs a workflow in-process, with virtual time.

pub mod client;
pub mod context;
pub mod definition;
pub mod error;
mod replay;
pub mod task;
pub mod testing;
mod wire;
pub mod worker;

pub use crate::client::{Client, StartOptions, WorkflowHandle};
pub use crate::context::{ChildOptions, PromiseOptions, WorkflowContext, with_timeout};
pub use crate::definition::{TaskDefinition, WorkflowDefinition};
pub use crate::error::{Error, Result};
pub use crate::replay::{RetryPolicy, TaskOptions};
pub use crate::task::TaskContext;
pub use crate::worker::{Worker, WorkerHandle};
pub use futures::future::{join_all, select};

/// What the macros need.
#[doc(hidden)]
pub mod export {
    pub use tokio::select as tokio_select;
}
