//! Helpers for tests against real components: a PostgreSQL database per test, and a network that loses the one
//! message that matters. Knows no table and no rule.

mod database;
mod proxy;

pub use database::{TestDatabase, fresh_database};
pub use proxy::{CommitFault, Fault, Proxy};
