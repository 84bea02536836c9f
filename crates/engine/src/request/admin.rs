//! Requests of background loops and of administrators.

use uuid::Uuid;

use crate::ids::{ExecutionId, Payload, TaskId, Text, WorkerId};
use crate::invariants::Subject;
use crate::state::{Due, WorkClass};

/// Fires a row of the due table whose time has come.
#[derive(Debug, Clone, PartialEq)]
pub struct FireDue {
    pub due: Due,
}

/// Repairs an orphan that a checker found: it restores the orphan's live cause, or removes a row of the search tables
/// that has no subject. If the subject is sound, nothing changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Mend {
    pub subject: Subject,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CleanIdempotencyKeys {
    /// Search among the keys that expire until this time. Only keys that have expired are removed.
    pub until_ms: i64,
    pub max: usize,
}

/// Checks whether an open execution or task has a live cause. Changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckOrphans {
    pub subject: Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// The execution, with its open timers and tasks.
    Execution(ExecutionId),
    Task(TaskId),
}

/// Removes audit log entries that are older than `before_ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanAudit {
    pub before_ms: i64,
    pub max: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateTenant {
    /// `None`: the engine creates the id.
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
    /// SHA-256 of the token. The token itself never reaches the engine.
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
    /// JSON Schemas of its input and output, for people and forms.
    pub input_schema: Option<Payload>,
    pub output_schema: Option<Payload>,
}

/// Registers the capabilities of a worker. If the request names workflows, they replace all workflows known before;
/// likewise for tasks. A class that the request does not mention keeps its capabilities.
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
    /// True for a session of the worker stream: its claims live as long as its heartbeats arrive.
    pub session: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatWorker {
    pub worker_id: WorkerId,
}

/// A worker showed life by something else than a heartbeat: a poll or a report.
#[derive(Debug, Clone, PartialEq)]
pub struct SeeWorker {
    pub worker_id: WorkerId,
}

/// Removes workers that have shown no life since `before_ms`.
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

/// Sets the quota of the tenant. `None`: that limit is removed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetQuota {
    pub monthly_workflow_runs: Option<i64>,
    pub concurrent_workflows: Option<i64>,
    pub requests_per_second: Option<i64>,
    pub burst: Option<i64>,
}

/// Takes tokens from the tenant's rate-limit bucket, so that a process may admit that many requests.
#[derive(Debug, Clone, PartialEq)]
pub struct TakeRequests {
    pub most: i64,
}
