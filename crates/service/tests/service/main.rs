//! The service on real stores: concurrent requests, workers that die, and databases that refuse.
//!
//! Every scenario runs on the memory store and on SQLite. Scenarios with several processes also run with two services
//! on one PostgreSQL (`--skip postgres` skips them).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

#[path = "../common/mod.rs"]
mod common;

mod attempts;
mod clean_up;
mod effects;
mod endings;
mod faults;
mod idempotency;
mod late_results;
mod leases;
mod load;
mod loops;
mod onlookers;
mod order;
mod overlap;
mod pollers;
mod provisional;
mod races;
mod repeats;
mod routing;
mod tenants;
mod turns;
mod upkeep;
mod why;
mod workflow_keys;
