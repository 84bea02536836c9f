//! The answers of the REST API, as far as the command line and the web pages read them. A field that is not named here
//! is passed over, so a server may say more than its clients know.
//!
//! Moments are read as milliseconds since 1970. Lists are generic over what they list, for a client that also keeps
//! each item as it was sent.
//!
//! Nothing here asks for anything, prints anything, or knows the server's code: these are the shapes, and the one place
//! that says which statuses and events are the last ones.

mod access;
mod activity;
mod event;
mod execution;
mod moment;
mod task;
mod worker;

use serde_json::value::RawValue;

pub use access::{Audit, AuditActor, AuditEntry, Me, Tenant, WorkerToken, WorkerTokens};
pub use activity::{Activity, Sample};
pub use event::{Event, Events, Fields};
pub use execution::{Execution, Executions, Started, StatusNow, WaitingOn};
pub use task::{Attempt, Attempts, LogLine, Logs, Task, Tasks};
pub use worker::{Definition, Definitions, Queue, Queues, Worker, Workers};

/// Any JSON, as it was written.
pub type Document = Box<RawValue>;

/// Whether an execution or a task in this status stays as it is.
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
