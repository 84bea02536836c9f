//! Every limit of the product, in one place. Exceeding one is a named refusal and changes nothing.

/// Rows of each table that one step of a follow-up (cascade, clean-up, purge) may touch.
pub const FOLLOW_UP_ROWS: usize = 200;
/// Held-back executions of a lane that one claim looks at.
pub const HELD_BACK_ROWS: usize = 1_000;
/// State keys that one task may hold.
pub const TASK_STATE_KEYS: usize = 1_000;

/// Largest count that a tenant's quota can name.
pub const QUOTA_MAX: i64 = 1_000_000_000_000;
/// Most requests per second, and most at once, that a tenant's quota can name.
pub const RATE_MAX: i64 = 1_000_000;

/// One set of limits, the same for all tenants of a server. `Default` is what the documentation promises.
#[derive(Debug, Clone)]
pub struct Limits {
    /// A single payload: input, output, signal value, state value, promise value.
    pub payload_bytes: usize,
    /// Kinds, queues, keys, names: characters, of whatever width.
    pub name_chars: usize,
    /// Versions of workflow kinds, in bytes: one has to fit into an index entry beside a queue and a kind.
    pub version_bytes: usize,
    /// Free text: errors, reasons, log lines, stack traces.
    pub text_bytes: usize,
    /// Details of a failure. They are kept with the task, with its attempt and in histories.
    pub failure_details_bytes: usize,
    pub labels: usize,
    pub label_chars: usize,
    pub history_events: i64,
    pub buffered_signals: i64,
    /// Ends in a row that are deferred for signals which came meanwhile. Then signals are refused until the execution has
    /// ended or gone on.
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
    /// How long a workflow may go on after a cancel request without any progress, where nothing else was asked for.
    pub cancel_grace_ms: i64,
    /// Back-off of failed activations: first delay and cap.
    pub activation_backoff_ms: i64,
    pub activation_backoff_max_ms: i64,
    /// Refusals in a row, with one code that repeating cannot cure, after which an execution has failed. At least 2.
    pub equal_refusals: i64,
    /// How long a worker that speaks the plain public protocol may keep silent.
    pub worker_silence_ms: i64,
    /// Lease of a claim made over the worker stream; its session renews it.
    pub session_lease_ms: i64,
    /// Lease of a token-less workflow claim.
    pub workflow_lease_ms: i64,
    /// Lease of a token-less task claim that nobody gave a timeout.
    pub task_lease_ms: i64,
    /// A workflow's task that was created ahead of its command is dropped when the command does not come.
    pub announce_within_ms: i64,
    /// History that fits into one unary reply of the public protocol.
    pub unary_history_bytes: i64,
}

impl Limits {
    /// How much longer a task's claim holds when its client shows life and cannot renew it. Never longer than a new claim.
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
