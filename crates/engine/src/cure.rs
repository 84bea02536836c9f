//! What helps against a refusal of a worker's report: the one table that decides what moves on after it.
//!
//! A report is an activation, a task's result or a heartbeat. The page `docs/reference/refusals.md` has a row for each code,
//! and a test walks it.

use crate::code::Code;

/// What helps against a refusal of what the holder of a claim has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cure {
    /// Nothing: the same report would be refused again. An activation has failed, and after some equal refusals in a row
    /// its execution has failed too. A task has failed.
    Nothing,
    /// Time: what stands in the way may go. An activation has failed and is tried again, as often as it takes.
    Time,
    /// Sending the same again: the server could not take it. Nothing has changed, and the claim stands.
    Resend,
    /// What comes next was brought about together with the refusal: the execution is queued again.
    Requeued,
    /// The report does not count, because its sender does not hold the claim or may not report. Nothing has changed.
    NotHeld,
}

impl Cure {
    /// Its name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Time => "time",
            Self::Resend => "sent again",
            Self::Requeued => "queued again",
            Self::NotHeld => "not held",
        }
    }

    /// Whether a refusal ends the claim of its reporter.
    pub fn ends_claim(self) -> bool {
        matches!(self, Self::Nothing | Self::Time)
    }
}

impl Code {
    /// What helps against a refusal with this code. Codes that no report is refused with are among those that nothing helps
    /// against: should one ever be raised, the work moves on.
    pub fn cure(self) -> Cure {
        use Code::*;
        match self {
            InvalidPayload | InvalidText | InvalidName | InvalidId | InvalidTtl | InvalidDuration
            | InvalidRetryPolicy | InvalidBatch | InvalidCommand | InvalidSequence | InvalidValue
            | PayloadTooLarge | HistoryFull | TooManyStateKeys | ExecutionNotFound | TaskNotFound
            | PromiseNotFound | IdCollision | KeyConflict | StoreRefused | Internal => Cure::Nothing,
            TooManyPendingTasks | PromiseKeyConflict => Cure::Time,
            CommitConflict | Overloaded | ShuttingDown | StoreUnavailable | DatabaseDamaged
            | OutcomeUnknown | RequestTooSlow => Cure::Resend,
            PartialRepeat | EndDeferred => Cure::Requeued,
            StaleClaim | ExecutionFinished | NotRegistered | Unauthenticated | PermissionDenied
            | TooManyTries => Cure::NotHeld,
            // No report is refused with these.
            InvalidPage
            | KeysDiffer
            | AmbiguousLength
            | TooManyLabels
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
            | NotOffered => Cure::Nothing,
        }
    }

    /// The code that is written so. `None`: there is none.
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
