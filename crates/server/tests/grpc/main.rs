//! gRPC over real sockets, on both databases.
//!
//! - `plain`: a client of the public protocol, built from its field numbers alone.
//! - `access`: access rights, and bad input.
//! - `stream`: the worker stream and the client service.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue fails at that line")]

mod access;
mod common;
mod plain;
mod stream;
