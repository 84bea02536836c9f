//! Shared set-up of tests over HTTP and in a browser: a server on its own database, a client, and a worker.
//!
//! A test binary imports the parts that it needs into its root, where these modules find each other:
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
