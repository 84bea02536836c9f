//! REST over real sockets, on both databases.
//!
//! - `trigger`, `keys`, `limits`, `batches`: starting workflows.
//! - `executions`, `by_key`, `actions`, `promises`, `follow`: looking at executions, acting on them, following them.
//! - `tasks`, `task_life`, `polled_tasks`: standalone tasks.
//! - `metrics`: what a scraper sees of all that.
//! - `admin`, `quotas`, `rates`: tenants, worker tokens, queues, workers; what a tenant may use.
//! - `audit`: who changed what.
//! - `tries`: credentials that are not valid, again and again.
//! - `jwks`, `api_keys`, `cors`: who is let in, with which credential, from which page.
//! - `ids`: the one spelling of ids and of times.
//! - `openapi`, `docs`, `problems`: the document of it all, who may read it, and refusals as RFC 9457 wants them.
//! - `access`, `bad_input`: every route, with whoever may not and with whatever is wrong; `outside`: the paths beside them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails right there")]

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
