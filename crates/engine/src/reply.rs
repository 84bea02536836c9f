//! What the engine answers.

use crate::event::Told;
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
    /// Status after a cancel or terminate: CANCELLED, or still open while the workflow cleans up.
    Cancelled {
        status: ExecutionStatus,
    },
    /// What was done with the execution that a key names.
    ByKey {
        execution_id: ExecutionId,
        reply: Box<Reply>,
    },
    Claimed(Claimed),
    Submitted {
        status: ExecutionStatus,
        repeated: bool,
    },
    /// It was held back; its status now.
    Released {
        status: ExecutionStatus,
    },
    TaskCreated(TaskCreated),
    TasksCreated(Vec<TaskCreated>),
    /// After a report on a task. `repeated`: this report had been accepted before.
    TaskReported {
        status: TaskStatus,
        repeated: bool,
    },
    /// A task's success was accepted, and with it the next step of its workflow. Where only the former was, the answer is
    /// [`Reply::TaskReported`].
    Continued {
        execution: ExecutionStatus,
    },
    /// `next_within_ms`: how long the next heartbeat may take at most without being missed.
    Heartbeat {
        cancel_requested: bool,
        next_within_ms: i64,
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
    /// What was found to have no live cause, in words.
    Looked {
        orphans: Vec<String>,
    },
    /// What was done, in order; nothing where all was well.
    Mended(Vec<Mended>),
    Tenant(Tenant),
    WorkerToken(WorkerToken),
    Registered {
        worker_id: WorkerId,
    },
    Quota(Quota),
    /// The tenant may send as many requests as it likes.
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
    /// A new execution was made.
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
    /// There was more, locked by another transaction just then.
    pub passed_over: bool,
    /// Tasks of workflows that have finished were taken out of the line: what stands behind them may not have been looked at.
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

/// A workflow to go on with.
#[derive(Debug, Clone, PartialEq)]
pub struct Activation {
    pub execution: Execution,
    pub token: i64,
    /// Events after the accepted base, where this batch holds them all; otherwise they are to be read.
    pub new_events: Option<Vec<Told>>,
    /// Its start is written together with its first step.
    pub provisional: bool,
}

/// A task to run.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskDelivery {
    pub task: Task,
    pub token: i64,
}

/// What became of a due row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fired {
    /// It was no longer there, or not yet due: nothing happened.
    Stale,
    /// It did what it was for. How late, on its own clock.
    Acted { late_ms: i64 },
    /// Its subject had moved on; it was set to a later time or dropped.
    Rearmed,
}

/// What was done about an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mended {
    /// It can be claimed again.
    Queued,
    /// The alarm that it waits for was set.
    Armed,
    /// A claim without a lease got one that has run out: the next look at it queues it again.
    LeaseEnded,
    /// What is left to do after its end or its deletion was put on the list again.
    FollowedUp,
    /// A row of the search tables that was about nothing was removed.
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
