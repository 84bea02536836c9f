//! The answers of the REST API. Clients ignore unknown fields, so a newer server may send more.
//!
//! The server serialises the same types. With the feature `openapi`, their doc comments are the texts of the OpenAPI
//! document.
//!
//! Times are milliseconds since 1970 here, and text in RFC 3339 in the answers. Lists are generic over their items, for
//! a client that also keeps each item as it was sent.
//!
//! This crate makes no calls, prints nothing and does not know the server's code. It has only these types, and the only
//! list of final statuses and events.

mod access;
mod activity;
mod event;
mod execution;
mod moment;
#[cfg(feature = "openapi")]
mod openapi;
mod task;
mod worker;

use serde_json::value::RawValue;

pub use access::{Audit, AuditActor, AuditEntry, Me, Tenant, WorkerToken, WorkerTokens};
pub use activity::{Activity, Sample};
pub use event::{Event, Events, Fields};
pub use execution::{Execution, Executions, Links, Retried, RetryLinks, Started, StatusNow, WaitingOn};
pub use moment::{iso, iso_ms};
pub use task::{Attempt, Attempts, ExecutionTasks, LogLine, Logs, Task, Tasks};
pub use worker::{Definition, Definitions, Queue, Queues, Worker, Workers};

/// Any JSON, unchanged.
pub type Document = Box<RawValue>;

/// Whether this status of an execution or a task is final.
pub fn has_ended(status: &str) -> bool {
    matches!(status, "COMPLETED" | "FAILED" | "CANCELLED")
}

#[cfg(test)]
mod tests {
    use flovyn_engine::state::{ExecutionStatus, SmallEnum, TaskStatus};

    use super::has_ended;

    #[test]
    fn the_last_statuses_are_those_of_the_engine() {
        for status in ExecutionStatus::ALL {
            assert_eq!(has_ended(status.name()), status.is_terminal(), "{status}");
        }
        for status in TaskStatus::ALL {
            assert_eq!(has_ended(status.name()), status.is_terminal(), "{status}");
        }
    }
}
