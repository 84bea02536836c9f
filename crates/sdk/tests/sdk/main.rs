//! The SDK against a real server, over real sockets, on both databases.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]

mod common;
mod errors;
mod execute;
mod macros;
mod parallel;
mod worker;
mod workflows;
