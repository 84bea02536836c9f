//! A workflow execution and the small rows that belong to it.
//!
//! ```text
//! PENDING --claim--> RUNNING --suspend, nothing new--> WAITING --external event--> PENDING
//!    ^                  |--suspend, unseen event--> PENDING
//!    |                  |--activation failed or refused--> PENDING, held back until `not_before`
//!    |                  |--lease expired, claim released--> PENDING
//!    '------------------'
//! RUNNING --complete--> COMPLETED    RUNNING --fail--> FAILED    any open --cancel, terminate--> CANCELLED
//! any open --execution timeout--> FAILED    RUNNING --too many equal refusals--> FAILED
//! ```

use crate::ids::{ExecutionId, TenantId, Text, WorkerId};
use crate::state::small_enum;
use crate::state::{Lane, Ready, WorkClass};
use crate::table::Row;

small_enum! {
    ExecutionStatus {
        Pending = 0 "PENDING",
        Running = 1 "RUNNING",
        Waiting = 2 "WAITING",
        Completed = 3 "COMPLETED",
        Failed = 4 "FAILED",
        Cancelled = 5 "CANCELLED",
    }
}

impl ExecutionStatus {
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// One run of a workflow. Input, output and error are in its first and last event, not here: this row is rewritten at
/// every step, so it stays small.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub tenant_id: TenantId,
    pub id: ExecutionId,
    pub version: i64,

    // Fixed at start.
    pub kind: Text,
    pub queue: Text,
    /// Only workers that registered this version of the kind may run it. `None`: any version.
    pub workflow_version: Option<Text>,
    pub priority_seconds: i64,
    pub parent_id: Option<ExecutionId>,
    /// The name under which its parent started it. `None`: it has no parent.
    pub parent_name: Option<Text>,
    pub retry_of: Option<ExecutionId>,
    pub idempotency_key: Option<Text>,
    pub traceparent: Option<Text>,
    pub created_ms: i64,
    pub scheduled_ms: Option<i64>,
    /// The time at which the execution timeout expires. `None`: no timeout.
    pub deadline_ms: Option<i64>,
    /// Counted in its tenant's quota as open until it ends.
    pub counted: bool,

    pub status: ExecutionStatus,
    pub started_ms: Option<i64>,
    pub finished_ms: Option<i64>,

    // The log.
    pub last_sequence: i64,
    pub last_external_sequence: i64,
    /// The last event that the worker had seen at its last accepted submit.
    pub base_sequence: i64,
    pub last_event_ms: i64,
    pub history_bytes: i64,
    /// The history no longer fits into one reply of the plain public protocol.
    pub large: bool,

    // The claim. Worker and session are kept after it ends: the next activation prefers the same session.
    /// Number of the current or last claim: the fencing token.
    pub epoch: i64,
    /// The claim whose submit was accepted last. A repeated batch has this number.
    pub accepted_epoch: i64,
    pub worker: Option<Text>,
    pub session: Option<WorkerId>,
    /// Claimed by a client of the plain public protocol: no token, no base.
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
    /// An external event arrived since the claim.
    pub marked: bool,
    /// The worker of the last claim handles cancel requests itself.
    pub cooperative: bool,
    pub cancel_requested_ms: Option<i64>,
    /// The total time for clean-up after a cancel request. `None`: no limit while it makes progress
    /// (`lifecycle/clean_up.rs`).
    pub cancel_grace_ms: Option<i64>,
    /// When it is force-stopped after a cancel request. `None`: there is no request, or the time does not run now.
    pub clean_up_until_ms: Option<i64>,
    /// How much time is left after a cancel request, while the time does not run.
    pub clean_up_left_ms: Option<i64>,

    // Delayed start, or held back after failed activations.
    pub not_before_ms: Option<i64>,
    pub activation_failures: i64,
    pub failure_code: Option<Text>,
    pub failure_message: Option<Text>,
    /// Builds that have failed on it since its last accepted activation (`lifecycle/held_back.rs`). `None`: none known.
    pub failure_build: Option<Text>,
    /// How often in a row the server refused an activation with `failure_code`. 0: none.
    pub equal_refusals: i64,

    // Counts of open items, for limits and for the answer to what it waits for.
    pub open_tasks: i64,
    pub open_timers: i64,
    pub open_promises: i64,
    pub open_children: i64,
    /// `buffered_signals`: signals that no accepted activation has seen. `delivered_signals`: signals that the current
    /// claim delivered.
    pub buffered_signals: i64,
    pub delivered_signals: i64,
    pub state_keys: i64,
    /// Sequence of the newest signal. 0: none.
    pub last_signal_sequence: i64,
    /// How many activations in a row were not carried out and made the workflow run again: an end over an unseen
    /// signal, or a suspend that may lack events.
    pub runs_again: i64,

    /// When its rows in `due` fire, on the product's clock and on the clock of leases. `None`: there is no such row.
    pub alarm_ms: Option<i64>,
    pub lease_alarm_ms: Option<i64>,
    /// Deleted; its rows are being removed.
    pub purging: bool,
}

impl Execution {
    /// Its place in its lane: older first; priority shifts it in time.
    pub fn sort_ms(&self) -> i64 {
        self.scheduled_ms
            .unwrap_or(self.created_ms)
            .saturating_add(self.priority_seconds.saturating_mul(1_000))
    }

    pub fn lane(&self, class: WorkClass) -> Lane {
        Lane {
            tenant_id: self.tenant_id,
            class,
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            version: self.workflow_version.clone().unwrap_or_default(),
        }
    }

    /// Its row in the ready table while it is PENDING: claimable, or held back after a failed activation.
    pub fn ready(&self) -> Ready {
        let class = match self.large {
            _ if self.activation_failures > 0 && self.not_before_ms.is_some() => WorkClass::HeldBack,
            true => WorkClass::LargeWorkflow,
            false => WorkClass::Workflow,
        };
        Ready { lane: self.lane(class), sort_ms: self.sort_ms(), id: self.id }
    }

    /// Whether it has a row in the ready table. A delayed start has none until its alarm fires.
    pub fn is_in_ready(&self) -> bool {
        self.status == ExecutionStatus::Pending
            && (self.not_before_ms.is_none() || self.activation_failures > 0)
    }

    pub fn key(&self) -> (TenantId, ExecutionId) {
        (self.tenant_id, self.id)
    }
}

impl Row for Execution {
    type Key = (TenantId, ExecutionId);
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

/// A label of an execution, for searching.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    pub tenant_id: TenantId,
    pub execution_id: ExecutionId,
    pub name: Text,
    pub value: Text,
    /// Creation time of the execution, because listings by label are also in order of creation.
    pub created_ms: i64,
}

impl Row for Label {
    type Key = (TenantId, ExecutionId, Text);
    const BLIND: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.execution_id, self.name.clone())
    }
}

/// The place of a state key's value: the payload of the event with this sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct StateEntry {
    pub tenant_id: TenantId,
    pub execution_id: ExecutionId,
    pub name: Text,
    pub sequence: i64,
}

impl Row for StateEntry {
    type Key = (TenantId, ExecutionId, Text);
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.execution_id, self.name.clone())
    }
}
