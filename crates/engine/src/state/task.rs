//! A task, inside a workflow or standalone, with its attempts, log lines and state.
//!
//! ```text
//! PENDING --claim--> RUNNING --complete--> COMPLETED
//!    ^                  |--fail, timeout, lease expired; attempts left--> PENDING (after a delay)
//!    '------------------|--fail, timeout, lease expired; none left------> FAILED --manual retry--> PENDING
//! PENDING --late success of a lost claim--> COMPLETED
//! PENDING --cancel--> CANCELLED    RUNNING --stops after a cancel request, or its execution ends--> CANCELLED
//! PENDING --schedule-to-start, total timeout--> FAILED
//! ```

use crate::ids::{ExecutionId, Payload, TaskId, TenantId, Text, WorkerId};
use crate::state::small_enum;
use crate::state::{Lane, Ready, WorkClass};
use crate::table::Row;

small_enum! {
    TaskStatus {
        Pending = 0 "PENDING",
        Running = 1 "RUNNING",
        Completed = 2 "COMPLETED",
        Failed = 3 "FAILED",
        Cancelled = 4 "CANCELLED",
    }
}

impl TaskStatus {
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

small_enum! {
    AttemptStatus {
        Completed = 0 "COMPLETED",
        Failed = 1 "FAILED",
        Timeout = 2 "TIMEOUT",
        Cancelled = 3 "CANCELLED",
    }
}

small_enum! {
    LogLevel {
        Debug = 0 "DEBUG",
        Info = 1 "INFO",
        Warn = 2 "WARN",
        Error = 3 "ERROR",
    }
}

/// The delays between attempts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    pub initial_ms: i64,
    pub factor: f64,
    pub cap_ms: i64,
}

impl std::hash::Hash for RetryPolicy {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.initial_ms, self.factor.to_bits(), self.cap_ms).hash(state);
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { initial_ms: 1_000, factor: 2.0, cap_ms: 60_000 }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub tenant_id: TenantId,
    pub id: TaskId,
    pub version: i64,

    // Fixed when created.
    /// `None`: a standalone task.
    pub execution_id: Option<ExecutionId>,
    pub task_type: Text,
    pub queue: Text,
    pub priority_seconds: i64,
    pub input: Payload,
    pub max_retries: i64,
    pub retry_initial_ms: i64,
    pub retry_factor: f64,
    pub retry_cap_ms: i64,
    pub schedule_to_start_ms: Option<i64>,
    pub start_to_close_ms: Option<i64>,
    pub total_ms: Option<i64>,
    pub heartbeat_ms: Option<i64>,
    pub idempotency_key: Option<Text>,
    pub traceparent: Option<Text>,
    pub created_ms: i64,
    pub scheduled_ms: Option<i64>,

    pub status: TaskStatus,
    /// Its TASK_SCHEDULED event is in the log. Before that, it may not be claimed. A standalone task is always
    /// announced.
    pub announced: bool,
    /// Number of the current or last attempt; counted when delivered.
    pub execution_count: i64,
    /// `execution_count` at the last manual retry: the retry policy counts from there.
    pub retry_base: i64,
    /// Waits until this time: `scheduled_at`, or the end of the retry delay. `None`: it does not wait for a time.
    pub not_before_ms: Option<i64>,
    pub started_ms: Option<i64>,
    pub finished_ms: Option<i64>,
    pub output: Option<Payload>,
    pub error: Option<Text>,
    /// The other parts of the failure: see [`StoredFailure`](crate::failure::StoredFailure). `None`: there are none.
    pub failure: Option<Payload>,

    pub epoch: i64,
    pub accepted_epoch: i64,
    pub worker: Option<Text>,
    pub session: Option<WorkerId>,
    pub plain: bool,
    /// Fingerprint of the last accepted content of a plain client. `None`: nothing was accepted yet, or a worker with
    /// tokens sent it.
    pub accepted_digest: Option<i64>,
    /// The credential of the plain client that made the current or last claim (see `Peer`). `None`: not known.
    pub claim_credential: Option<i64>,
    pub claim_connection: Option<i64>,
    /// When a plain client's claim last ended without a report, on the clock of leases. Its worker may still report.
    pub claim_lost_ms: Option<i64>,
    pub lease_until_ms: Option<i64>,
    pub cancel_requested: bool,
    pub last_heartbeat_ms: Option<i64>,
    pub heartbeat_details: Option<Payload>,
    pub progress: f64,
    pub progress_details: Option<Text>,
    pub log_lines: i64,

    pub alarm_ms: Option<i64>,
    pub lease_alarm_ms: Option<i64>,
    pub purging: bool,
}

impl Task {
    /// The time from which its timeouts count.
    pub fn scheduled_or_created_ms(&self) -> i64 {
        self.scheduled_ms.unwrap_or(self.created_ms)
    }

    pub fn sort_ms(&self) -> i64 {
        self.scheduled_or_created_ms().saturating_add(self.priority_seconds.saturating_mul(1_000))
    }

    pub fn ready(&self) -> Ready {
        let lane = Lane {
            tenant_id: self.tenant_id,
            class: WorkClass::Task,
            queue: self.queue.clone(),
            kind: self.task_type.clone(),
            version: Text::default(),
        };
        Ready { lane, sort_ms: self.sort_ms(), id: self.id }
    }

    pub fn is_in_ready(&self) -> bool {
        self.status == TaskStatus::Pending && self.not_before_ms.is_none() && self.announced
    }

    pub fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            initial_ms: self.retry_initial_ms,
            factor: self.retry_factor,
            cap_ms: self.retry_cap_ms,
        }
    }

    pub fn key(&self) -> (TenantId, TaskId) {
        (self.tenant_id, self.id)
    }

    /// All attempts that have ended, in order. `rows`: the stored attempts. The successful attempt has no row: most
    /// tasks have only that attempt, and the task's own row has all its facts.
    pub fn ended_attempts(&self, mut rows: Vec<Attempt>) -> Vec<Attempt> {
        // Databases of earlier versions have a row for the successful attempt.
        let has_row = rows.iter().any(|row| row.attempt == self.execution_count);
        if self.status == TaskStatus::Completed && !has_row {
            let finished_ms = self.finished_ms.unwrap_or(self.created_ms);
            rows.push(self.attempt(finished_ms, AttemptStatus::Completed, None));
        }
        rows
    }

    /// The latest attempt that began.
    pub(crate) fn attempt(&self, finished_ms: i64, status: AttemptStatus, error: Option<Text>) -> Attempt {
        let started_ms = self.started_ms.unwrap_or(self.created_ms);
        Attempt {
            tenant_id: self.tenant_id,
            task_id: self.id,
            attempt: self.execution_count,
            started_ms,
            finished_ms: finished_ms.max(started_ms),
            status,
            error,
            failure: None,
            worker: self.worker.clone(),
        }
    }
}

impl Row for Task {
    type Key = (TenantId, TaskId);
    const LOCKED: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.id)
    }
    fn version(&self) -> Option<i64> {
        Some(self.version)
    }

    fn version_mut(&mut self) -> Option<&mut i64> {
        Some(&mut self.version)
    }
}

/// A finished attempt of a task. The successful attempt has no row: see [`Task::ended_attempts`].
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub tenant_id: TenantId,
    pub task_id: TaskId,
    pub attempt: i64,
    pub started_ms: i64,
    pub finished_ms: i64,
    pub status: AttemptStatus,
    pub error: Option<Text>,
    /// The other parts of the failure: see [`StoredFailure`](crate::failure::StoredFailure). `None`: there are none.
    pub failure: Option<Payload>,
    pub worker: Option<Text>,
}

impl Row for Attempt {
    type Key = (TenantId, TaskId, i64);
    const BLIND: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.task_id, self.attempt)
    }
}

/// A value that a task keeps between its attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskState {
    pub tenant_id: TenantId,
    pub task_id: TaskId,
    pub name: Text,
    pub value: Payload,
}

impl Row for TaskState {
    type Key = (TenantId, TaskId, Text);
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.task_id, self.name.clone())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskLog {
    pub tenant_id: TenantId,
    pub task_id: TaskId,
    pub line: i64,
    pub time_ms: i64,
    pub level: LogLevel,
    pub message: Text,
}

impl Row for TaskLog {
    type Key = (TenantId, TaskId, i64);
    const BLIND: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.task_id, self.line)
    }
}
