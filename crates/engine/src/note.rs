//! What happened in a batch that no row and no reply tells: for figures that are counted once it is durable.
//!
//! Notes decide nothing. Those of a request that was refused are taken back with everything else it did, unless its refusal
//! has an effect of its own.

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
    /// Work took an idempotency key.
    KeyTaken,
    /// An idempotency key was freed because its work failed or was cancelled.
    KeyCleared,
    TaskSubmitted {
        task_type: Text,
        queue: Text,
    },
    /// An execution did not end, because a signal had come that its activation had not seen.
    EndDeferred,
    /// What the holder of a claim reported was refused, and the claim has ended with it.
    ReportRefused {
        class: WorkClass,
        code: Code,
    },
    /// An execution has ended with so many signals that it had received and not read.
    SignalsUnread {
        count: i64,
    },
    /// The success of a task was accepted after its claim was lost.
    LateResult,
    /// An execution was made, also a child or a retry.
    WorkflowStarted,
    /// An execution or a task has ended, so long after it was made or, if it was to begin later, after that.
    Finished {
        class: WorkClass,
        /// Name of its last status.
        status: &'static str,
        took_ms: i64,
    },
    /// Work was handed to a worker, so long after it could have been. Of a task only the first attempt is noted, as
    /// for its schedule-to-start timeout.
    Handed {
        class: WorkClass,
        queue: Text,
        waited_ms: i64,
    },
}
