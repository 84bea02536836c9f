//! Every limit of the product, in one place. A request that exceeds a limit is refused with a code and changes nothing.

/// Rows of each table that one step of a follow-up (cascade, clean-up, purge) may touch.
pub const FOLLOW_UP_ROWS: usize = 200;
/// Held-back executions of a lane that one claim examines.
pub const HELD_BACK_ROWS: usize = 1_000;
/// State keys that one task may hold.
pub const TASK_STATE_KEYS: usize = 1_000;

/// The largest count that a tenant's quota can have.
pub const QUOTA_MAX: i64 = 1_000_000_000_000;
/// The largest rate (requests per second) and the largest burst that a tenant's quota can have.
pub const RATE_MAX: i64 = 1_000_000;

/// The limits of a server, for all its tenants. `Default` has the values that the documentation states.
#[derive(Debug, Clone)]
pub struct Limits {
    /// A single payload: input, output, signal value, state value, promise value.
    pub payload_bytes: usize,
    /// Kinds, queues, keys and other names, in characters.
    pub name_chars: usize,
    /// Versions of workflow kinds, in bytes: a version has to fit into an index entry beside a queue and a kind.
    pub version_bytes: usize,
    /// Free text: errors, reasons, log lines, stack traces.
    pub text_bytes: usize,
    /// Details of a failure. They are kept with the task, with its attempt and in histories.
    pub failure_details_bytes: usize,
    pub labels: usize,
    pub label_chars: usize,
    pub history_events: i64,
    pub buffered_signals: i64,
    /// How often in a row an end may be deferred because of new signals. After that, signals are refused while an
    /// activation is running.
    pub deferred_ends: i64,
    pub pending_tasks: i64,
    pub state_keys: i64,
    /// Commands in one activation.
    pub commands: usize,
    /// Items in a bulk start or bulk task creation.
    pub bulk_items: usize,
    /// Items one claim may ask for.
    pub claim_items: usize,
    /// Lanes one claim may name: kinds, and each version of a kind.
    pub claim_lanes: usize,
    pub paused_queues: usize,
    pub capabilities: usize,
    /// Attempts that a retry policy may ask for.
    pub max_retries: i64,
    pub log_lines: i64,
    pub ttl_min_ms: i64,
    pub ttl_max_ms: i64,
    pub ttl_default_ms: i64,
    /// Timers, timeouts and delays.
    pub duration_max_ms: i64,
    /// How long a workflow may wait without progress after a cancel request, if it has no grace time of its own.
    pub cancel_grace_ms: i64,
    /// Back-off of failed activations: first delay and cap.
    pub activation_backoff_ms: i64,
    pub activation_backoff_max_ms: i64,
    /// After this many refusals in a row with one code that a retry cannot cure, an execution fails. At least 2.
    pub equal_refusals: i64,
    /// How long a worker of the plain public protocol may be silent before it counts as dead.
    pub worker_silence_ms: i64,
    /// Lease of a claim made over the worker stream; its session renews it.
    pub session_lease_ms: i64,
    /// Lease of a workflow claim without a token.
    pub workflow_lease_ms: i64,
    /// Lease of a task claim without a token, if neither the task nor the worker has a timeout.
    pub task_lease_ms: i64,
    /// How long a workflow's task that was created ahead of its command waits for the command. Then it is dropped.
    pub announce_within_ms: i64,
    /// The largest history that fits into one unary reply of the public protocol.
    pub unary_history_bytes: i64,
}

impl Limits {
    /// How much longer a task's claim holds when its client shows life and cannot renew it. Never longer than the lease
    /// of a new claim.
    pub fn task_extension_ms(&self) -> i64 {
        self.worker_silence_ms.min(self.task_lease_ms)
    }
}

const SECOND: i64 = 1_000;
const DAY: i64 = 24 * 60 * 60 * SECOND;

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes: 1 << 20,
            name_chars: 255,
            version_bytes: 512,
            text_bytes: 64 << 10,
            failure_details_bytes: 64 << 10,
            labels: 20,
            label_chars: 128,
            history_events: 100_000,
            buffered_signals: 10_000,
            deferred_ends: 20,
            pending_tasks: 100_000,
            state_keys: 10_000,
            commands: 10_000,
            bulk_items: 1_000,
            claim_items: 1_000,
            claim_lanes: 1_000,
            paused_queues: 10_000,
            capabilities: 1_000,
            max_retries: 1_000,
            log_lines: 10_000,
            ttl_min_ms: SECOND,
            ttl_max_ms: 30 * DAY,
            ttl_default_ms: DAY,
            duration_max_ms: 3_653 * DAY,
            cancel_grace_ms: 60 * SECOND,
            activation_backoff_ms: SECOND,
            activation_backoff_max_ms: 300 * SECOND,
            equal_refusals: 5,
            worker_silence_ms: 90 * SECOND,
            session_lease_ms: 30 * SECOND,
            workflow_lease_ms: 60 * SECOND,
            task_lease_ms: 330 * SECOND,
            announce_within_ms: DAY,
            unary_history_bytes: 3_500 << 10,
        }
    }
}
