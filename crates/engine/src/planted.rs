//! Bugs that can be put in by name, to show that the checks of the simulator find them.
//!
//! Only in builds with the feature `planted-bugs`, which cannot be built for release. Everywhere else [`planted`] is
//! `false` at compile time, and nothing of them is left.

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!("planted bugs are for tests: a build for release cannot have them");

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug { $($(#[$doc])* $name,)* }

        #[cfg(feature = "planted-bugs")]
        impl Bug {
            pub const ALL: &[Bug] = &[$(Bug::$name,)*];

            pub fn name(self) -> &'static str {
                match self { $(Bug::$name => $text,)* }
            }
        }
    };
}

bugs! {
    /// Writers do not compare versions.
    VersionNotChecked = "version-not-checked",
    /// A task's report is accepted whatever its token.
    StaleReportAccepted = "stale-report-accepted",
    /// A report without a token counts for whoever holds the claim.
    TokenlessReportAccepted = "tokenless-report-accepted",
    /// An activation's result is accepted whatever its token.
    StaleActivationAccepted = "stale-activation-accepted",
    /// An execution writes its last event twice.
    TerminalEventTwice = "terminal-event-twice",
    /// Whatever a loop believes to be due is fired.
    TimerFiresEarly = "timer-fires-early",
    /// A start does not look at who holds its key.
    KeyNotChecked = "key-not-checked",
    /// Keys of all tenants lie side by side.
    TenantLeftOutOfKey = "tenant-left-out-of-key",
    /// The lifetime of a workflow key counts from its taking, although its execution is open.
    KeyFreedWhileOpen = "key-freed-while-open",
    /// A failed attempt is counted, and no other one follows.
    RetryLost = "retry-lost",
    /// A workflow that suspends is not told of what came meanwhile.
    WakeUpLost = "wake-up-lost",
    /// An execution ends although a signal has come that its activation has not seen.
    EndedOverUnseenSignal = "ended-over-unseen-signal",
    /// A worker of the build that failed on an execution takes it again before its delay is over.
    RetakenBySameBuild = "retaken-by-same-build",
    /// A refusal that nothing helps against leaves the claim as it is.
    RefusalHangs = "refusal-hangs",
    /// Work that is handed over directly keeps the token of the claim before.
    HandOffWithoutToken = "hand-off-without-token",
    /// A batch whose outcome is unknown is decided again.
    UnknownOutcomeRetried = "unknown-outcome-retried",
    /// A batch that could not be written is answered as if it were.
    AcknowledgedBeforeCommit = "acknowledged-before-commit",
}

/// Whether this bug is in.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "planted-bugs")]
pub use chosen::{plant, planted};

#[cfg(feature = "planted-bugs")]
mod chosen {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Puts a bug in, or takes it out, for what this thread does.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether this bug is in.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}
