//! The SDK against a real server, over real sockets, on both databases.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]

mod builds;
mod carts;
mod clean_up;
mod common;
mod entities;
mod errors;
mod execute;
mod failures;
mod macros;
mod parallel;
mod refusals;
mod tasks;
mod tls;
mod too_large;
mod versions;
mod worker;
mod workflows;
