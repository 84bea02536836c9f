//! A client of the public protocol, written from its field numbers alone: no token, no base sequence, no field of ours.
//!
//! What works here works for the SDKs that are out there. `messages` and `client` are that client; the rest are tests,
//! one topic per file.

mod cancel;
mod children;
mod client;
mod client_task_batches;
mod client_task_ids;
mod commands;
mod dispatch;
mod dropped_polls;
mod endings;
mod large_history;
mod late_results;
mod life;
mod lost_results;
mod messages;
mod polls;
mod processes;
mod promises;
mod races;
mod restart;
mod serial;
mod signals;
mod signs_of_life;
mod state;
mod tasks;
