//! The rules of Flovyn as pure functions: requests and rows go in, row changes and replies come out.
//!
//! This crate does no I/O. It reads no clock, draws no random number, logs nothing and knows no runtime, network or
//! database: time, ids and limits are arguments. Every rule of the product is here, and only here.

pub mod batch;
pub mod code;
pub mod cure;
pub mod event;
pub mod failure;
pub mod ids;
pub mod invariants;
pub mod limits;
pub mod note;
pub mod planted;
pub mod reply;
pub mod request;
pub mod snapshot;
pub mod state;
pub mod table;
pub mod why;
pub mod working_set;

mod audit;
mod check;
mod digest;
mod lifecycle;
mod rules;

pub use batch::{Batch, BatchStep, Decided};
pub use code::{Class, Code, Exceeded, Refusal};
pub use cure::{Cure, Report};
pub use ids::{Ids, Now};
pub use lifecycle::held_back::{has_failed, may_try};
pub use lifecycle::lease::longest_timeout;
pub use lifecycle::task::{backoff_ms, may_report};
pub use limits::Limits;
pub use note::{Note, Noted};
pub use reply::Reply;
pub use request::{Op, Request};
pub use rules::claim::INLINE_EVENTS;
pub use rules::worker::live_processes;
pub use table::{Change, Row};
pub use working_set::{Busy, Loaded, Mutations, Scan, Wants, WorkingSet};
