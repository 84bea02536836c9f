//! What happened in a batch that no row and no reply tells: for figures that are counted once it is durable.
//!
//! Notes decide nothing. Those of a request that was refused are taken back with everything else it did.

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
    /// Work was handed to a worker, so long after it could have been. Of a task only the first attempt is noted, as
    /// for its schedule-to-start timeout.
    Handed {
        class: WorkClass,
        queue: Text,
        waited_ms: i64,
    },
}
