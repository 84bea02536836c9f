//! The rows of the product, as data. Their rules are in `rules` and `lifecycle`.

mod audit;
mod execution;
mod identity;
mod item;
mod quota;
mod schedule;
mod small;
mod task;

pub use crate::event::{Event, EventKind, Origin};
pub use audit::{AuditAction, AuditEntry, CredentialKind};
pub use execution::{Execution, ExecutionStatus, Label, StateEntry};
pub use identity::{PausedQueue, Tenant, Worker, WorkerCapability, WorkerToken};
pub use item::{HolderClass, IdempotencyKey, KeySpace, Promise, PromiseStatus, Timer, TimerStatus};
pub use quota::{Quota, Taken, month_of, next_month_ms};
pub use schedule::{ClockKind, Due, DueClass, Lane, PlaceInLane, Ready, WorkClass};
pub use small::SmallEnum;
pub(crate) use small::small_enum;
pub use task::{Attempt, AttemptStatus, LogLevel, RetryPolicy, Task, TaskLog, TaskState, TaskStatus};
