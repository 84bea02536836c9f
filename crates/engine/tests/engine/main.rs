//! The rules on the memory tables, one rule or promise per file: no clock, no thread, no database.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails there")]

mod audit;
mod backoff;
mod bad_input;
mod bad_state;
mod clock;
mod continuations;
mod damage;
mod endings;
mod failures;
mod fencing;
mod keys;
mod large_history;
mod limits;
mod orphans;
mod quotas;
mod refusals;
mod retries;
mod scene;
mod suspends;
mod tenants;
mod wake_ups;
mod world;
