//! Storage: one small port, and three implementations with the same behaviour.
//!
//! Stores apply row changes and answer reads. They contain no rule of the product: if a store file grows, a
//! rule has leaked into it. All SQL of the project is in this crate.

pub mod around;
pub mod clock;
pub mod inspect;
pub mod integrity;
pub mod memory;
pub mod open;
pub mod port;
pub mod postgres;
pub mod record;
pub mod sqlite;
pub mod value;

pub use clock::{Clock, ManualClock, SystemClock};
pub use inspect::Inspect;
pub use integrity::FileHealth;
pub use port::{
    AuditFilter, Decider, ExecutionFilter, Hint, LoggedEvent, Page, QueueDepth, SharedDecider, Step, Store,
    StoreError, StoreResult, TaskFilter, TransactOptions,
};
