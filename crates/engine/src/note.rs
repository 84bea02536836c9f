//! Notes: facts about a batch that are in no row and no reply. They are counted in metrics once the batch is durable.
//!
//! No rule reads notes. If a request is refused, its notes are undone with its other effects, unless the refusal
//! itself has an effect.

use crate::code::Code;
use crate::ids::{TenantId, Text};
use crate::state::WorkClass;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub tenant_id: TenantId,
    pub what: Noted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// A request was answered with the work that its idempotency key already had.
    KeyHit,
    /// New work took an idempotency key.
    KeyTaken,
    /// An idempotency key was freed because its work failed or was cancelled.
    KeyCleared,
    TaskSubmitted {
        task_type: Text,
        queue: Text,
    },
    /// The end of an execution was deferred, because a signal had arrived that its activation had not seen.
    EndDeferred,
    /// A report of the claim's holder was refused, and the refusal ended the claim.
    ReportRefused {
        class: WorkClass,
        code: Code,
    },
    /// An execution ended with this number of signals that it had received and not read.
    SignalsUnread {
        count: i64,
    },
    /// The success of a task was accepted after its claim was lost.
    LateResult,
    /// An execution was created, by a start, as a child or as a retry.
    WorkflowStarted,
    /// An execution or a task has ended. `took_ms` counts from its creation, or from its scheduled time if that is
    /// later.
    Finished {
        class: WorkClass,
        /// The name of its terminal status.
        status: &'static str,
        took_ms: i64,
    },
    /// Work was handed to a worker. `waited_ms` is the time since it became claimable. For a task, only the first
    /// attempt is noted, as for its schedule-to-start timeout.
    Handed {
        class: WorkClass,
        queue: Text,
        waited_ms: i64,
    },
}
