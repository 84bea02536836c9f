//! Requests in, replies out: the batch loop, the waiting pollers, the background loops. No rule stands here.
//!
//! Nothing is acknowledged before its batch is durable. No timer delays a batch: the next one is whatever arrived
//! while the last one was being committed, or, on a database that can carry out both, begins beside it.

mod answer;
mod backlog;
mod batcher;
mod chatter;
mod dispatch;
pub mod doctor;
mod driver;
mod follow;
mod job;
pub mod loops;
pub mod metrics;
mod pace;
mod provisional;
mod service;
mod side_by_side;
mod stats;
mod tails;
mod transaction;
mod turns;
mod under_way;
mod waiting;
mod watch;

pub use follow::{Ended, Follower, Outcome, Starter};
pub use service::{Options, Service, TaskCancel};
pub use side_by_side::SideBySideFrom;
pub use stats::{Figures, Stats};
pub use watch::Watch;
