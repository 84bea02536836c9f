//! Replay: a workflow is a fold over its log. Events are applied one at a time, in order, and after each event the
//! workflow runs until it waits. So it makes the same decisions live, on a worker without cache, and in a test.
//!
//! This module does not use the network: events in, commands out.

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
