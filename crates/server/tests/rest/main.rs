//! REST over real sockets, on both databases.
//!
//! - `trigger`, `keys`, `limits`, `batches`: starting workflows.
//! - `executions`, `by_key`, `actions`, `promises`, `follow`: read, control and follow executions.
//! - `tasks`, `task_life`, `polled_tasks`: standalone tasks.
//! - `metrics`: the metrics after all of these.
//! - `admin`, `quotas`, `rates`: tenants, worker tokens, queues, workers; the limits of a tenant.
//! - `audit`: who changed what.
//! - `tries`: repeated invalid credentials.
//! - `jwks`, `api_keys`, `cors`: which credentials and which origins are accepted.
//! - `ids`: the accepted spelling of ids and of times.
//! - `openapi`, `docs`, `problems`: the OpenAPI document, access to it, and problem details (RFC 9457).
//! - `access`, `bad_input`: every route with callers that may not use it and with invalid input; `outside`: all other
//!   paths.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue fails at that line")]

mod access;
mod actions;
mod admin;
mod api_keys;
mod audit;
mod bad_input;
mod batches;
mod by_key;
mod cors;
mod docs;
mod executions;
mod follow;
mod ids;
mod issuer;
mod jwks;
mod keys;
mod limits;
mod metrics;
mod openapi;
mod outside;
mod polled_tasks;
mod problems;
mod promises;
mod quotas;
mod rates;
#[allow(dead_code, unused_macros, unused_imports, reason = "shared with other tests")]
#[path = "../set_up/mod.rs"]
mod set_up;
mod task_life;
mod tasks;
mod tries;
mod trigger;

use set_up::{app, common, http, worker, world};
