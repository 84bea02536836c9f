//! The tables that claims and loops search: small rows, only inserted and deleted.

use uuid::Uuid;

use crate::ids::{TenantId, Text};
use crate::state::small_enum;
use crate::table::Row;

small_enum! {
    WorkClass {
        Workflow = 0 "WORKFLOW",
        Task = 1 "TASK",
        /// Executions that are held back after a failed activation: not claimable, except by a worker of another build.
        HeldBack = 2 "HELD_BACK",
        /// Workflows whose history does not fit into one reply of the plain public protocol: only for workers on the
        /// stream.
        LargeWorkflow = 3 "LARGE_WORKFLOW",
    }
}

/// Work of one kind in one queue of one tenant. A given worker can run all of it or none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    pub tenant_id: TenantId,
    pub class: WorkClass,
    pub queue: Text,
    /// Workflow kind or task type.
    pub kind: Text,
    /// The required version of the kind. Empty means any version; an empty version is not legal.
    pub version: Text,
}

impl Lane {
    /// The lane of pollers that take any kind of work in this lane's queue. No work has an empty kind.
    pub fn of_any_kind(&self) -> Self {
        Self { kind: Text::default(), version: Text::default(), ..self.clone() }
    }

    pub fn is_any_kind(&self) -> bool {
        self.kind.is_empty()
    }
}

/// Work that can be claimed now.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    pub lane: Lane,
    pub sort_ms: i64,
    pub id: Uuid,
}

/// The place of work in its lane: by time, then by id.
pub type PlaceInLane = (i64, Uuid);

impl Ready {
    pub fn place(&self) -> PlaceInLane {
        (self.sort_ms, self.id)
    }
}

impl Row for Ready {
    type Key = (Lane, i64, Uuid);
    const BLIND: bool = true;
    fn key(&self) -> Self::Key {
        (self.lane.clone(), self.sort_ms, self.id)
    }
}

small_enum! {
    /// The clock of a due time.
    ClockKind {
        Product = 0 "PRODUCT",
        Lease = 1 "LEASE",
    }
}

small_enum! {
    DueClass {
        Timer = 0 "TIMER",
        PromiseTimeout = 1 "PROMISE_TIMEOUT",
        /// Delayed start, back-off, cancel grace, execution timeout: the earliest of them.
        ExecutionAlarm = 2 "EXECUTION_ALARM",
        /// Delayed task, retry delay, task timeouts: the earliest of them.
        TaskAlarm = 3 "TASK_ALARM",
        ExecutionLease = 4 "EXECUTION_LEASE",
        TaskLease = 5 "TASK_LEASE",
        // Follow-ups: effects too large or too distant for the transaction that caused them.
        CancelChildren = 6 "CANCEL_CHILDREN",
        CancelExecution = 7 "CANCEL_EXECUTION",
        CloseItems = 8 "CLOSE_ITEMS",
        PurgeExecution = 9 "PURGE_EXECUTION",
        PurgeTask = 10 "PURGE_TASK",
    }
}

impl DueClass {
    /// An effect of an earlier commit that is carried out page by page.
    pub fn is_follow_up(self) -> bool {
        matches!(
            self,
            Self::CancelChildren
                | Self::CancelExecution
                | Self::CloseItems
                | Self::PurgeExecution
                | Self::PurgeTask
        )
    }

    pub fn clock(self) -> ClockKind {
        match self {
            Self::ExecutionLease | Self::TaskLease => ClockKind::Lease,
            _ => ClockKind::Product,
        }
    }
}

/// Something that a loop has to do at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    pub clock: ClockKind,
    pub due_ms: i64,
    pub tenant_id: TenantId,
    pub class: DueClass,
    pub id: Uuid,
    /// The timer's name. Empty in all other classes.
    pub name: Text,
    /// For follow-ups: where to continue. `None`: at the beginning.
    pub cursor: Option<Uuid>,
    /// For follow-ups: the reason, from the request that caused it.
    pub note: Option<Text>,
}

impl Due {
    pub fn new(class: DueClass, due_ms: i64, tenant_id: TenantId, id: Uuid) -> Self {
        Self {
            clock: class.clock(),
            due_ms,
            tenant_id,
            class,
            id,
            name: Text::default(),
            cursor: None,
            note: None,
        }
    }
}

impl Row for Due {
    type Key = (ClockKind, i64, TenantId, DueClass, Uuid, Text);
    const BLIND: bool = true;
    fn key(&self) -> Self::Key {
        (self.clock, self.due_ms, self.tenant_id, self.class, self.id, self.name.clone())
    }
}
