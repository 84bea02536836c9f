//! A client of the public protocol, built from its field numbers alone: no token, no base sequence, no field that
//! Flovyn added.
//!
//! Existing SDKs rely on everything that is tested here. `messages` and `client` are the client; the other files are
//! tests, one topic per file.

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
