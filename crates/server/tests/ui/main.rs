//! The web pages over plain HTTP: what a browser is sent, and what it may send.
//!
//! - `session`: signing in and out, and what happens without it.
//! - `forgery`: changes that no page of the visitor asked for.
//! - `tenants`: one's own tenant and role, and nothing else.
//! - `pages`: every page, its headers, and payloads that would like to be more than text.
//! - `actions`: every form.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]

mod actions;
#[allow(dead_code, reason = "shared with the tests of gRPC")]
#[path = "../grpc/stream/app.rs"]
mod app;
#[allow(dead_code, unused_macros, unused_imports, reason = "shared with the tests of gRPC")]
#[path = "../grpc/common.rs"]
mod common;
mod forgery;
#[allow(dead_code, reason = "shared with the tests of REST")]
#[path = "../rest/http.rs"]
mod http;
mod pages;
mod session;
mod tenants;
mod visitor;
#[allow(dead_code, reason = "shared with the tests of gRPC")]
#[path = "../grpc/stream/worker.rs"]
mod worker;
#[allow(dead_code, unused_macros, unused_imports, reason = "shared with the tests of REST")]
#[path = "../rest/world.rs"]
mod world;
