//! A workflow is a fold over its log: events are applied one at a time, in order, and the workflow runs to rest after
//! each. So it decides the same whether it runs live, on a cold worker or in a test.
//!
//! Knows nothing of networks: events in, commands out.

pub(crate) mod command;
mod core;
pub(crate) mod event;
mod ids;
mod instance;
mod operations;
mod slots;

pub(crate) use self::command::Command;
pub use self::command::{ChildOptions, RetryPolicy, TaskOptions};
pub(crate) use self::core::{Core, Shared, Waiting};
pub(crate) use self::event::{LogEvent, Origin};
pub(crate) use self::instance::{ActivationError, Instance, Outcome, WentAhead, panic_message, panicked};
pub(crate) use self::operations::Started;
pub(crate) use self::slots::SlotId;
