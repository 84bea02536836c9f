//! Every error that a caller can see has one code, one class, one sentence of advice, and one page in docs/errors.
//!
//! A transport maps the [`Class`] once (gRPC status, HTTP status, exit code) and never invents a code of its own.

use std::fmt;

/// The category of an error, independent of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The request itself is wrong; a retry cannot succeed.
    InvalidArgument,
    /// The resource does not exist in this tenant.
    NotFound,
    /// The resource already exists, or another resource has the name.
    AlreadyExists,
    /// The request is well formed but not possible in the current state.
    FailedPrecondition,
    /// The credential is missing or not known.
    Unauthenticated,
    /// The caller is known, but not allowed to do this.
    PermissionDenied,
    /// A limit is reached.
    ResourceExhausted,
    /// Two writers changed the same rows; a retry may succeed.
    Aborted,
    /// The server cannot answer now; retry later.
    Unavailable,
    /// This server does not implement the call.
    Unimplemented,
    /// A bug in the server.
    Internal,
}

macro_rules! codes {
    ($(($number:literal, $name:ident, $class:ident, $advice:literal),)*) => {
        /// The stable code of an error. Numbers are never reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Code { $(#[doc = $advice] $name = $number,)* }

        impl Code {
            /// All codes, for documentation and coverage checks.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The category of this error.
            pub fn class(self) -> Class { match self { $(Code::$name => Class::$class,)* } }

            /// What the caller should do about it.
            pub fn advice(self) -> &'static str { match self { $(Code::$name => $advice,)* } }
        }
    };
}

codes! {
    (1, InvalidPayload, InvalidArgument, "Send valid JSON; leave the field empty for null."),
    (2, InvalidText, InvalidArgument, "Remove U+0000 and keep the text within its length limit."),
    (3, InvalidName, InvalidArgument, "Give a non-empty name of at most 255 characters."),
    (4, InvalidId, InvalidArgument, "Send a canonical, non-nil UUID."),
    (5, InvalidTtl, InvalidArgument, "Choose a time to live from 1 second to 30 days."),
    (6, InvalidDuration, InvalidArgument, "Choose a duration from 0 up to ten years, in milliseconds."),
    (7, InvalidRetryPolicy, InvalidArgument, "Use an initial delay and a cap of at least 1 ms, and a factor from 1 to 100."),
    (8, InvalidBatch, InvalidArgument, "Send at least one item and no more than the batch limit."),
    (9, InvalidCommand, InvalidArgument, "Correct the named command and submit the whole batch again."),
    (10, InvalidSequence, InvalidArgument, "Send the sequence of the last event that you received as the base."),
    (11, InvalidValue, InvalidArgument, "Use one of the values that the message names."),
    (12, InvalidPage, InvalidArgument, "Use a page size within the limit, and the cursor that the previous page returned."),
    (13, KeysDiffer, InvalidArgument, "Send the idempotency key in the header or in the body, or the same key in both."),
    (14, AmbiguousLength, InvalidArgument, "Send the body with Content-Length or with Transfer-Encoding, not with both."),
    (20, PayloadTooLarge, ResourceExhausted, "Keep a payload within 1 MiB; store larger data elsewhere and pass a reference."),
    (21, TooManyLabels, InvalidArgument, "Use at most 20 labels of 128 characters each, name and value."),
    (22, HistoryFull, FailedPrecondition, "Finish the execution and continue in a new one: its history is at the limit."),
    (23, TooManySignals, ResourceExhausted, "Wait until the workflow has read its signals, then send again."),
    (24, TooManyPendingTasks, ResourceExhausted, "Let some tasks finish before scheduling more in this execution."),
    (25, TooManyQueuesPaused, ResourceExhausted, "Resume some queues before pausing more."),
    (26, TooManyStateKeys, ResourceExhausted, "Clear some state keys before setting more."),
    (27, HistoryTooLarge, ResourceExhausted, "Ask for the history in pages: set a page size."),
    (28, MonthlyQuotaExceeded, ResourceExhausted, "Wait for the next month, or ask for a larger quota."),
    (29, ConcurrentQuotaExceeded, ResourceExhausted, "Wait until a workflow finishes, or ask for a larger quota."),
    (30, TenantNotFound, NotFound, "Check the tenant's slug or id."),
    (31, ExecutionNotFound, NotFound, "Check the execution's id and tenant."),
    (32, TaskNotFound, NotFound, "Check the task's id and tenant."),
    (33, PromiseNotFound, NotFound, "Check the promise's id or key; it may belong to a deleted execution."),
    (34, WorkerNotFound, NotFound, "Register the worker first."),
    (35, WorkerTokenNotFound, NotFound, "Check the worker token's id."),
    (40, TenantExists, AlreadyExists, "Choose another slug, or use the tenant that has it."),
    (41, IdCollision, FailedPrecondition, "Use another id: another resource has this id."),
    (42, KeyConflict, AlreadyExists, "Use another idempotency key: this key belongs to another kind of work."),
    (43, PromiseKeyConflict, FailedPrecondition, "Use another promise key, or close the promise that holds it."),
    (50, StaleClaim, FailedPrecondition, "Drop this result: the claim has ended, or another worker holds it."),
    (51, ExecutionFinished, FailedPrecondition, "Nothing to do: the execution has already finished."),
    (52, ExecutionNotFinished, FailedPrecondition, "Cancel or terminate the execution first, or wait until it finishes."),
    (53, ExecutionNotFailed, FailedPrecondition, "Only a failed or cancelled execution can be retried."),
    (54, PartialRepeat, FailedPrecondition, "Fetch the history again and replay: part of this batch is already in it."),
    (55, PromiseClosed, FailedPrecondition, "Nothing to do: the promise is already resolved, rejected or timed out."),
    (56, TaskNotPending, FailedPrecondition, "Only a pending task can be cancelled this way; request cancellation of a running task instead."),
    (57, TaskNotFailed, FailedPrecondition, "Only a failed standalone task can be retried manually."),
    (59, TaskNotFinished, FailedPrecondition, "Cancel the task first, or wait until it finishes."),
    (60, NotBackedOff, FailedPrecondition, "Nothing to do: the execution is not held back by a failed activation."),
    (61, TaskOfWorkflow, FailedPrecondition, "Act on the workflow execution that owns this task instead."),
    (62, NotRegistered, FailedPrecondition, "Send hello as the first message of the stream, and only once."),
    (63, EndDeferred, FailedPrecondition, "Claim the execution again and replay it: a signal arrived that this activation had not seen."),
    (70, CommitConflict, Aborted, "Send the request again: another writer changed the same rows."),
    (71, Overloaded, Unavailable, "Send the request again after a short pause: the server's queue is full."),
    (72, ShuttingDown, Unavailable, "Send the request to another server, or retry after a short pause: this server is stopping."),
    (73, StoreUnavailable, Unavailable, "Check that the database is up; the request was not applied."),
    (74, StoreRefused, InvalidArgument, "Correct the request: the database cannot store what it contains."),
    (75, OutcomeUnknown, Unavailable, "Check the state before you send the request again: it is not known whether it was applied."),
    (76, RateLimitExceeded, ResourceExhausted, "Wait for the time that Retry-After gives, then send the request again."),
    (77, TooManyTries, ResourceExhausted, "Wait for the time that Retry-After gives, then send a valid credential."),
    (78, RequestTooSlow, Unavailable, "Send the whole request without a pause; if the connection is slow, send less at once."),
    (79, DatabaseDamaged, Unavailable, "Stop the server and restore a backup: the database is damaged."),
    (80, Unauthenticated, Unauthenticated, "Send a valid credential as `authorization: Bearer <token>`."),
    (81, PermissionDenied, PermissionDenied, "Use a credential that may do this, and name its own tenant."),
    (82, NotOffered, Unimplemented, "Do not send this call: it is not implemented by this server."),
    (90, Internal, Internal, "Report this as a bug, with the server's log of that time."),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FLV{:04}", *self as u16)
    }
}

/// Makes text from callers safe to display. Characters that a terminal or a browser would interpret instead of showing
/// (control characters, marks that change the direction of text, zero-width characters) are replaced by their code
/// point.
pub fn visible(text: String) -> String {
    if !text.contains(is_unseen) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            unseen if is_unseen(unseen) => out.extend(unseen.escape_unicode()),
            seen => out.push(seen),
        }
    }
    out
}

fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// An error: the request was not carried out, and nothing of it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    pub code: Code,
    /// What is wrong with this particular request. Safe to show to the caller.
    pub message: String,
    /// The quota that is used up. `None`: the error is not about a quota.
    pub exceeded: Option<Exceeded>,
}

/// A quota that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    pub limit: i64,
    /// How much of the quota is in use. `None`: the quota is a rate, not a count.
    pub current: Option<i64>,
    /// The earliest time after which a retry may succeed.
    pub retry_after_seconds: i64,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: visible(message.into()), exceeded: None }
    }

    /// Adds the quota that is used up.
    #[must_use]
    pub fn with_exceeded(mut self, exceeded: Exceeded) -> Self {
        self.exceeded = Some(exceeded);
        self
    }

    /// A tenant has sent more requests than its rate limit allows.
    pub fn rate_limited(limit: i64, wait_ms: i64) -> Self {
        let retry_after_seconds = (wait_ms.max(1) + 999) / 1_000;
        Self::new(Code::RateLimitExceeded, "Request rate limit exceeded").with_exceeded(Exceeded {
            limit,
            current: None,
            retry_after_seconds,
        })
    }

    /// Adds the index of the command that the error is about.
    pub(crate) fn at_command(mut self, index: usize) -> Self {
        self.message = format!("command {index}: {}", self.message);
        self
    }

    /// Adds the index of the item of a bulk request that the error is about.
    pub(crate) fn at_item(mut self, index: usize) -> Self {
        self.message = format!("item {index}: {}", self.message);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_show_what_would_be_obeyed() {
        let refusal =
            Refusal::new(Code::TenantNotFound, "Tenant 'a\0\u{1b}[31m\u{202e}b\u{200b}é' not found");
        assert_eq!(refusal.message, "Tenant 'a\\u{0}\\u{1b}[31m\\u{202e}b\\u{200b}é' not found");
        assert_eq!(visible("שלום".into()), "שלום");
    }
}
