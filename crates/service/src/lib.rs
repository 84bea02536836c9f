//! The running system: it takes requests and returns replies. It consists of the batch loop, the waiting pollers and
//! the background loops. It contains no rule of the product; all rules are in the engine.
//!
//! No request is acknowledged before its batch is durable. docs/batching.md explains how requests become batches:
//! `batcher.rs` executes, and the pure `scheduler/` decides.

mod answer;
mod batcher;
mod caller;
mod chatter;
mod dispatch;
pub mod doctor;
mod driver;
mod follow;
mod in_flight;
mod job;
pub mod loops;
pub mod metrics;
mod onlookers;
mod pollers;
mod provisional;
mod scheduler;
mod service;
mod stats;
mod tails;
mod transaction;
mod waiting;
mod watch;

pub use caller::Caller;
pub use follow::{Ended, Follower, Outcome, Starter};
pub use onlookers::Onlooker;
pub use scheduler::{SideBySideFrom, Tricks};
pub use service::{Options, Service, TaskCancel};
pub use stats::{Figures, Stats};
pub use watch::Watch;
