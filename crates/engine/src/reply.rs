//! The engine's answers to requests.

use crate::event::DeliveredEvent;
use crate::ids::{ExecutionId, Payload, TaskId, Text, WorkerId};
use crate::state::{Execution, ExecutionStatus, Quota, Taken, Task, TaskStatus, Tenant, WorkerToken};

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Done,
    Started(Started),
    StartedMany(Vec<Started>),
    Signalled {
        execution_id: ExecutionId,
        sequence: i64,
        created: bool,
    },
    /// The status after a cancel or terminate: CANCELLED, or still open while the workflow cleans up.
    Cancelled {
        status: ExecutionStatus,
    },
    /// The result of an action on the execution that a key names.
    ByKey {
        execution_id: ExecutionId,
        reply: Box<Reply>,
    },
    Claimed(Claimed),
    Submitted {
        status: ExecutionStatus,
        repeated: bool,
    },
    /// A held-back execution was released. `status`: its status now.
    Released {
        status: ExecutionStatus,
    },
    TaskCreated(TaskCreated),
    TasksCreated(Vec<TaskCreated>),
    /// The answer to a report on a task. `repeated`: this report had been accepted before.
    TaskReported {
        status: TaskStatus,
        repeated: bool,
    },
    /// A task's success was accepted, together with the next step of its workflow. If only the success was accepted,
    /// the answer is [`Reply::TaskReported`].
    Continued {
        execution: ExecutionStatus,
    },
    /// `next_within_ms`: the next heartbeat must arrive within this time.
    Heartbeat {
        cancel_requested: bool,
        next_within_ms: i64,
    },
    /// `held`: the claim is current, and is extended if it may be.
    Extended {
        held: bool,
    },
    TaskState {
        value: Option<Payload>,
    },
    TaskStateKeys {
        names: Vec<Text>,
    },
    Fired(Fired),
    Cleaned {
        count: usize,
    },
    /// Descriptions of the orphans that were found.
    Looked {
        orphans: Vec<String>,
    },
    /// The repairs, in order. Empty: everything was sound.
    Mended(Vec<Mended>),
    Tenant(Tenant),
    WorkerToken(WorkerToken),
    Registered {
        worker_id: WorkerId,
    },
    Quota(Quota),
    /// The tenant has no rate limit.
    RequestsUnlimited,
    /// `limit`: requests per second.
    RequestsTaken {
        limit: i64,
        taken: Taken,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    pub execution_id: ExecutionId,
    pub status: ExecutionStatus,
    pub kind: Text,
    pub created_ms: i64,
    pub key_used: bool,
    /// The idempotency key is new, so a new execution was created.
    pub key_new: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskCreated {
    pub task_id: TaskId,
    pub status: TaskStatus,
    pub created_ms: i64,
    pub key_used: bool,
    pub key_new: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Claimed {
    pub workflows: Vec<Activation>,
    pub tasks: Vec<TaskDelivery>,
    /// More work was there, but another transaction had locked it.
    pub passed_over: bool,
    /// Tasks of finished workflows were removed from the queue. The work behind them may not have been examined.
    pub cleared: bool,
}

impl Claimed {
    pub fn len(&self) -> usize {
        self.workflows.len() + self.tasks.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An activation that a worker is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Activation {
    pub execution: Execution,
    pub token: i64,
    /// The events after the accepted base. `None`: this batch does not hold all of them, so they have to be read.
    pub new_events: Option<Vec<DeliveredEvent>>,
    /// The start of this execution is written together with its first step.
    pub provisional: bool,
}

/// A task to run.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskDelivery {
    pub task: Task,
    pub token: i64,
    /// Whether the claim may be extended while its client shows life: its lease is no timeout.
    pub extensible: bool,
}

/// The outcome of a due row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fired {
    /// The row no longer existed, or was not due yet: nothing happened.
    Stale,
    /// The row had its effect. `late_ms`: how late, on its own clock.
    Acted { late_ms: i64 },
    /// The subject of the row had changed: the row was moved to a later time or dropped.
    Rearmed,
}

/// The repair of an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mended {
    /// The work can be claimed again.
    Queued,
    /// The missing alarm was set.
    Armed,
    /// A claim without a lease received a lease that has expired, so that the next check requeues the work.
    LeaseEnded,
    /// The follow-up of its end or its deletion was listed again.
    FollowedUp,
    /// A row of the search tables that had no subject was removed.
    Removed,
}

impl std::fmt::Display for Mended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Queued => "queued again",
            Self::Armed => "its alarm was set again",
            Self::LeaseEnded => "its claim was ended",
            Self::FollowedUp => "its follow-up was listed again",
            Self::Removed => "the row was removed",
        })
    }
}
