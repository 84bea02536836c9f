//! Requests of loops and administrators.

use uuid::Uuid;

use crate::ids::{ExecutionId, Payload, TaskId, Text, WorkerId};
use crate::invariants::Subject;
use crate::state::{Due, WorkClass};

/// A row of the due table whose time has come.
#[derive(Debug, Clone, PartialEq)]
pub struct FireDue {
    pub due: Due,
}

/// Gives something that a checker found to be an orphan its live cause back, or removes a row of the search tables
/// that is about nothing. What is sound stays as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Mend {
    pub subject: Subject,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CleanIdempotencyKeys {
    /// Where to look: keys that expire until then. Only those that have expired are removed.
    pub until_ms: i64,
    pub max: usize,
}

/// Looks whether something that is open has a live cause. Changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct LookForOrphans {
    pub subject: Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// With its open timers and tasks.
    Execution(ExecutionId),
    Task(TaskId),
}

/// Removes what was written into the audit log before a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanAudit {
    pub before_ms: i64,
    pub max: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateTenant {
    /// `None`: made here.
    pub id: Option<Uuid>,
    pub slug: Text,
    pub name: Text,
    pub retention_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct UpdateTenant {
    pub name: Text,
    pub retention_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateWorkerToken {
    pub name: Text,
    /// SHA-256 of the token; the token itself never comes here.
    pub hash: Payload,
    pub expires_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RevokeWorkerToken {
    pub token_id: Uuid,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Capability {
    pub class: WorkClass,
    pub kind: Text,
    pub version: Option<Text>,
    pub timeout_ms: Option<i64>,
    /// JSON Schema of what it takes and of what it gives, for people and forms.
    pub input_schema: Option<Payload>,
    pub output_schema: Option<Payload>,
}

/// A worker says what it can do. What it says about workflows replaces what was known about workflows, and the
/// same for tasks; a half it says nothing about stays.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisterWorker {
    /// `None`: derived from the name, the host and the process, so that a process that registers again finds its row.
    pub id: Option<WorkerId>,
    pub name: Text,
    pub build_id: Text,
    pub host: Text,
    pub process_id: Text,
    pub queue: Option<Text>,
    pub capabilities: Vec<Capability>,
    /// A stream session, whose claims live as long as its heartbeats.
    pub session: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatWorker {
    pub worker_id: WorkerId,
}

/// A worker shows life by something else than a heartbeat: it polls or reports.
#[derive(Debug, Clone, PartialEq)]
pub struct SeeWorker {
    pub worker_id: WorkerId,
}

/// Removes workers that have not been heard of for long.
#[derive(Debug, Clone, PartialEq)]
pub struct ForgetWorkers {
    /// On the clock of leases.
    pub before_ms: i64,
    pub max: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PauseQueue {
    pub queue: Text,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResumeQueue {
    pub queue: Text,
}

/// What the tenant may use from now on; `None`: as much as it likes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetQuota {
    pub monthly_workflow_runs: Option<i64>,
    pub concurrent_workflows: Option<i64>,
    pub requests_per_second: Option<i64>,
    pub burst: Option<i64>,
}

/// Takes requests out of the tenant's bucket, for a process to let in.
#[derive(Debug, Clone, PartialEq)]
pub struct TakeRequests {
    pub most: i64,
}
