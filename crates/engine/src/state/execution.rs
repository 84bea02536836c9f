//! A workflow execution and the narrow rows that belong to it.
//!
//! ```text
//! PENDING --claim--> RUNNING --suspend, nothing new--> WAITING --external event--> PENDING
//!    ^                  |--suspend, unseen event--> PENDING
//!    |                  |--activation failed or refused--> PENDING, held back until `not_before`
//!    |                  |--lease expired, given back--> PENDING
//!    '------------------'
//! RUNNING --complete--> COMPLETED    RUNNING --fail--> FAILED    any open --cancel, terminate--> CANCELLED
//! any open --execution timeout--> FAILED    RUNNING --refused again and again--> FAILED
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

/// One run of a workflow. Input, output and error live in its first and last event, not here: this row is
/// rewritten at every step and stays small.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub tenant_id: TenantId,
    pub id: ExecutionId,
    pub version: i64,

    // Fixed at start.
    pub kind: Text,
    pub queue: Text,
    /// Only workers that registered this version of the kind may run it.
    pub workflow_version: Option<Text>,
    pub priority_seconds: i64,
    pub parent_id: Option<ExecutionId>,
    /// The name the parent knows it by.
    pub parent_name: Option<Text>,
    pub retry_of: Option<ExecutionId>,
    pub idempotency_key: Option<Text>,
    pub traceparent: Option<Text>,
    pub created_ms: i64,
    pub scheduled_ms: Option<i64>,
    /// Execution timeout, as a moment.
    pub deadline_ms: Option<i64>,
    /// Counted against its tenant's quota, which gets it back when it ends.
    pub counted: bool,

    pub status: ExecutionStatus,
    pub started_ms: Option<i64>,
    pub finished_ms: Option<i64>,

    // The log.
    pub last_sequence: i64,
    pub last_external_sequence: i64,
    /// Last event that the worker had seen at its last accepted submit.
    pub base_sequence: i64,
    pub last_event_ms: i64,
    pub history_bytes: i64,
    /// The history no longer fits into one reply of the plain public protocol.
    pub large: bool,

    // The claim. Worker and session outlive it: the next activation prefers the same one.
    /// Number of the current or last claim: the fencing token.
    pub epoch: i64,
    /// Claim whose submit was accepted last: a repeated batch carries it again.
    pub accepted_epoch: i64,
    pub worker: Option<Text>,
    pub session: Option<WorkerId>,
    /// Claimed by a client of the plain public protocol: no token, no base.
    pub plain: bool,
    /// Fingerprint of the content that was accepted last, where the claim was a plain client's. `None`: nothing yet, or
    /// a worker with tokens sent it.
    pub accepted_digest: Option<i64>,
    /// Who made the current or last claim, where a plain client did (see `Peer`).
    pub claim_credential: Option<i64>,
    pub claim_connection: Option<i64>,
    /// When a claim of a plain client ended last without a report, on the clock of leases: its worker may still report.
    pub claim_lost_ms: Option<i64>,
    pub lease_until_ms: Option<i64>,
    /// An external event came in since the claim.
    pub marked: bool,
    /// The last claimer handles cancellation itself.
    pub cooperative: bool,
    pub cancel_requested_ms: Option<i64>,
    /// Time that clean-up after a cancel request may take in all. `None`: as long as it makes progress (`lifecycle/clean_up.rs`).
    pub cancel_grace_ms: Option<i64>,
    /// When it is force-stopped after a cancel request. `None`: nobody asked it to cancel, or its clean-up makes progress.
    pub clean_up_until_ms: Option<i64>,

    // Held back: delayed start, or back-off after failed activations.
    pub not_before_ms: Option<i64>,
    pub activation_failures: i64,
    pub failure_code: Option<Text>,
    pub failure_message: Option<Text>,
    /// Builds that have failed on it since its last accepted activation (`lifecycle/held_back.rs`). `None`: none is known.
    pub failure_build: Option<Text>,
    /// How often in a row an activation was refused with `failure_code`, if that is a code of this server. 0: not at all.
    pub equal_refusals: i64,

    // Counts of what is open, for limits and for saying what it waits on.
    pub open_tasks: i64,
    pub open_timers: i64,
    pub open_promises: i64,
    pub open_children: i64,
    /// Signals that no accepted activation has seen, and how many of them the current claim delivered.
    pub buffered_signals: i64,
    pub delivered_signals: i64,
    pub state_keys: i64,
    /// Sequence of the newest signal. 0: none.
    pub last_signal_sequence: i64,
    /// How many activations in a row were not carried out, so that the workflow runs again: an end because of a signal that it
    /// had not seen, or a suspend that may lack events.
    pub runs_again: i64,

    /// When its row in `due` fires, on the product's clock and on the clock of leases.
    pub alarm_ms: Option<i64>,
    pub lease_alarm_ms: Option<i64>,
    /// Deleted; its rows are being removed.
    pub purging: bool,
}

impl Execution {
    /// Position in its lane: older first, priority as an offset in time.
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

    /// Whether it has a row in the ready table. A delayed start has none: only its alarm brings it there.
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
    /// The execution's: listings by label are in order of creation too.
    pub created_ms: i64,
}

impl Row for Label {
    type Key = (TenantId, ExecutionId, Text);
    const BLIND: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.execution_id, self.name.clone())
    }
}

/// Where a state key's value is: in the payload of the event with this sequence.
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
