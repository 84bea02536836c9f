//! Helpers for tests against real components: a PostgreSQL database per test, a proxy that loses a COMMIT or
//! its reply, and the server as a process that can be killed. This crate knows no table and no rule.

mod database;
mod pin;
mod process;
mod proxy;

pub use database::{TestDatabase, fresh_database};
pub use pin::Pin;
pub use process::{ServerProcess, free_address, send_signal};
pub use proxy::{CommitFault, Fault, Proxy};
