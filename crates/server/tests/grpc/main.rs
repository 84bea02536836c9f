//! gRPC over real sockets, on both databases.
//!
//! - `plain`: a client of the public protocol, from its field numbers alone.
//! - `access`: who may do what, and bad input.
//! - `stream`: the worker stream and the client service.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]

mod access;
mod common;
mod plain;
mod stream;
