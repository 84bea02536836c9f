//! What tests over HTTP and in a browser begin with: a server on a database of its own, somebody who calls it, and a worker.
//!
//! A test binary takes what it needs into its root, where the modules here look for each other:
//! `use set_up::{app, common, http, worker, world};`

#[path = "../grpc/stream/app.rs"]
pub(crate) mod app;
#[path = "../grpc/common.rs"]
pub(crate) mod common;
pub(crate) mod hostile;
#[path = "../rest/http.rs"]
pub(crate) mod http;
#[path = "../grpc/stream/worker.rs"]
pub(crate) mod worker;
#[path = "../rest/world.rs"]
pub(crate) mod world;
