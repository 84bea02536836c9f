//! Timers, promises and idempotency keys.

use crate::ids::{ExecutionId, PromiseId, TenantId, Text};
use crate::state::{Due, DueClass, small_enum};
use crate::table::Row;

small_enum! {
    TimerStatus {
        Open = 0 "OPEN",
        Fired = 1 "FIRED",
        Cancelled = 2 "CANCELLED",
    }
}

/// A timer of an execution. Its id is unique only within the execution. The row is kept until the execution is purged,
/// so that a repeated command is recognised.
#[derive(Debug, Clone, PartialEq)]
pub struct Timer {
    pub tenant_id: TenantId,
    pub execution_id: ExecutionId,
    pub name: Text,
    pub version: i64,
    pub fire_ms: i64,
    pub status: TimerStatus,
}

impl Timer {
    /// The row in `due` that fires the timer.
    pub fn due_row(&self) -> Due {
        let mut due = Due::new(DueClass::Timer, self.fire_ms, self.tenant_id, self.execution_id);
        due.name = self.name.clone();
        due
    }
}

impl Row for Timer {
    type Key = (TenantId, ExecutionId, Text);
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.execution_id, self.name.clone())
    }
    fn version(&self) -> Option<i64> {
        Some(self.version)
    }

    fn version_mut(&mut self) -> Option<&mut i64> {
        Some(&mut self.version)
    }
}

small_enum! {
    PromiseStatus {
        Open = 0 "OPEN",
        Resolved = 1 "RESOLVED",
        Rejected = 2 "REJECTED",
        TimedOut = 3 "TIMED_OUT",
        /// Its execution finished before anyone answered.
        Abandoned = 4 "ABANDONED",
    }
}

/// A promise: an execution waits for an answer from outside. The answer is in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise {
    pub tenant_id: TenantId,
    pub id: PromiseId,
    pub version: i64,
    pub execution_id: ExecutionId,
    pub name: Text,
    /// The key by which clients may answer it. `None`: only by its id.
    pub external_key: Option<Text>,
    pub created_ms: i64,
    pub deadline_ms: Option<i64>,
    pub status: PromiseStatus,
}

impl Promise {
    /// The row in `due` that fires its timeout. `None`: it has no timeout.
    pub fn due_row(&self) -> Option<Due> {
        Some(Due::new(DueClass::PromiseTimeout, self.deadline_ms?, self.tenant_id, self.id))
    }
}

impl Row for Promise {
    type Key = (TenantId, PromiseId);
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

small_enum! {
    /// Keys of work and keys of promises are separate namespaces.
    KeySpace {
        Work = 0 "WORK",
        Promise = 1 "PROMISE",
    }
}

small_enum! {
    HolderClass {
        Workflow = 0 "WORKFLOW",
        Task = 1 "TASK",
        Promise = 2 "PROMISE",
    }
}

/// The holder of a key. The row is never locked: insert, overwrite and delete are compare-and-swap, so a busy key never
/// looks free.
#[derive(Debug, Clone, PartialEq)]
pub struct IdempotencyKey {
    pub tenant_id: TenantId,
    pub space: KeySpace,
    pub name: Text,
    pub version: i64,
    pub holder_class: HolderClass,
    pub holder_id: uuid::Uuid,
    pub created_ms: i64,
    /// When the key expires. [`IdempotencyKey::NEVER`] while `ttl_after_end_ms` is set.
    pub expires_ms: i64,
    /// For a workflow key, taken by signal-with-start: its execution holds it while it is open, and for this time after
    /// the end. `None`: an idempotency key, which is free at `expires_ms` whether or not its work has ended.
    pub ttl_after_end_ms: Option<i64>,
}

impl IdempotencyKey {
    /// An expiry that never comes. Such a key is removed with its execution, unless other work takes it before.
    pub const NEVER: i64 = i64::MAX;
}

impl Row for IdempotencyKey {
    type Key = (TenantId, KeySpace, Text);
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.space, self.name.clone())
    }
    fn version(&self) -> Option<i64> {
        Some(self.version)
    }

    fn version_mut(&mut self) -> Option<&mut i64> {
        Some(&mut self.version)
    }
}
