//! What to do about a refused report of a worker: one table that decides how the work continues after the refusal.
//!
//! A report is an activation, a task's result or a heartbeat. The page `docs/reference/refusals.md` has a row for each
//! code, and a test checks every row.

use crate::code::Code;
use crate::request::Op;

/// A kind of report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Report {
    Activation,
    TaskResult,
    Heartbeat,
}

impl Report {
    /// The name that the documentation uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Activation => "activation",
            Self::TaskResult => "task result",
            Self::Heartbeat => "heartbeat",
        }
    }
}

impl Op {
    /// The kind of report. `None`: the request is no report.
    pub fn report(&self) -> Option<Report> {
        match self {
            Op::SubmitActivation(_) | Op::RefuseActivation(_) => Some(Report::Activation),
            Op::CompleteTask(_) | Op::FailTask(_) | Op::RefuseTaskResult(_) => Some(Report::TaskResult),
            Op::HeartbeatTask(_) => Some(Report::Heartbeat),
            _ => None,
        }
    }
}

/// The remedy for a refused report of the holder of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cure {
    /// Nothing helps: the same report would be refused again. An activation counts as failed, and after several equal
    /// refusals in a row its execution fails. A task fails.
    Nothing,
    /// Time helps: the obstacle may go away. The activation counts as failed and is retried without a limit.
    Time,
    /// Sending the same report again helps: the server could not accept it. Nothing has changed, and the claim still
    /// holds.
    Resend,
    /// The execution is requeued together with the refusal, and the next activation receives what was missing.
    Requeued,
    /// The report does not count, because its sender does not hold the claim or may not report. Nothing has changed.
    NotHeld,
}

impl Cure {
    /// The name that the documentation uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Time => "time",
            Self::Resend => "sent again",
            Self::Requeued => "queued again",
            Self::NotHeld => "not held",
        }
    }

    /// Whether the refusal ends the claim of its reporter.
    pub fn ends_claim(self) -> bool {
        matches!(self, Self::Nothing | Self::Time)
    }
}

impl Code {
    /// The remedy for a refusal with this code. Codes that never refuse a report ([`refuses`](Self::refuses)) count as [`Cure::Nothing`]: if such a
    /// code is ever raised for a report, the work does not get stuck.
    pub fn cure(self) -> Cure {
        use Code::*;
        match self {
            InvalidPayload | InvalidText | InvalidName | InvalidId | InvalidTtl | InvalidDuration
            | InvalidRetryPolicy | InvalidBatch | InvalidCommand | InvalidSequence | InvalidValue
            | PayloadTooLarge | HistoryFull | TooManyStateKeys | ExecutionNotFound | TaskNotFound
            | PromiseNotFound | IdCollision | TooManyLabels | StoreRefused | Internal => Cure::Nothing,
            // Keys become free: at the end of their lifetime, or when the promise is closed.
            TooManyPendingTasks | KeyConflict | PromiseKeyConflict => Cure::Time,
            CommitConflict | Overloaded | ShuttingDown | StoreUnavailable | DatabaseDamaged
            | OutcomeUnknown | RequestTooSlow => Cure::Resend,
            PartialRepeat | EndDeferred => Cure::Requeued,
            StaleClaim | ExecutionFinished | NotRegistered | Unauthenticated | PermissionDenied
            | TooManyTries => Cure::NotHeld,
            code => {
                debug_assert!(code.refuses().is_empty(), "{code} may refuse a report: say what cures it");
                Cure::Nothing
            }
        }
    }

    /// The reports that may be refused with this code. Debug builds check that no other report is.
    pub fn refuses(self) -> &'static [Report] {
        use Code::*;
        use Report::*;
        match self {
            InvalidPayload | InvalidId | PayloadTooLarge | TaskNotFound | StaleClaim | NotRegistered
            | CommitConflict | Overloaded | ShuttingDown | StoreUnavailable | StoreRefused
            | OutcomeUnknown | TooManyTries | RequestTooSlow | DatabaseDamaged | Unauthenticated
            | PermissionDenied | Internal => &[Activation, TaskResult, Heartbeat],
            InvalidText | InvalidName | InvalidDuration | InvalidCommand => &[Activation, TaskResult],
            InvalidTtl | InvalidRetryPolicy | InvalidBatch | InvalidSequence | InvalidValue | HistoryFull
            | TooManyPendingTasks | TooManyStateKeys | ExecutionNotFound | PromiseNotFound | IdCollision
            | KeyConflict | PromiseKeyConflict | PartialRepeat | EndDeferred | TooManyLabels => &[Activation],
            ExecutionFinished => &[TaskResult],
            InvalidPage
            | KeysDiffer
            | AmbiguousLength
            | TooManySignals
            | TooManyQueuesPaused
            | HistoryTooLarge
            | MonthlyQuotaExceeded
            | ConcurrentQuotaExceeded
            | TenantNotFound
            | WorkerNotFound
            | WorkerTokenNotFound
            | TenantExists
            | ExecutionNotFinished
            | ExecutionNotFailed
            | PromiseClosed
            | TaskNotPending
            | TaskNotFailed
            | TaskNotFinished
            | NotBackedOff
            | TaskOfWorkflow
            | RateLimitExceeded
            | NotOffered => &[],
        }
    }

    /// Reads a code from text such as `FLV0001`. `None`: there is no such code.
    pub fn parse(text: &str) -> Option<Self> {
        let four = |digits: &&str| digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number: u16 = text.strip_prefix("FLV").filter(four)?.parse().ok()?;
        Self::ALL.iter().copied().find(|code| *code as u16 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_they_are_written() {
        for code in Code::ALL {
            assert_eq!(Code::parse(&code.to_string()), Some(*code));
        }
        for text in ["", "FLV", "FLV1", "FLV00001", "FLV9999", "PANIC", "flv0001", "FLV+001"] {
            assert_eq!(Code::parse(text), None, "{text}");
        }
    }
}
