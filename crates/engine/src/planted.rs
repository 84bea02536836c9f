//! Bugs that tests can switch on by name, to show that the checks of the simulator find them.
//!
//! They exist only in builds with the feature `planted-bugs`, which cannot be built for release. In all other builds
//! [`planted`] is `false` at compile time, and the compiler removes the bugs.

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
    /// A task's report is accepted with any token.
    StaleReportAccepted = "stale-report-accepted",
    /// A report without a token always counts as a report of the claim's holder.
    TokenlessReportAccepted = "tokenless-report-accepted",
    /// An activation's result is accepted with any token.
    StaleActivationAccepted = "stale-activation-accepted",
    /// An execution writes its terminal event twice.
    TerminalEventTwice = "terminal-event-twice",
    /// Due rows are fired without checking that their time has come.
    TimerFiresEarly = "timer-fires-early",
    /// A start does not check whether another execution holds its key.
    KeyNotChecked = "key-not-checked",
    /// Keys of all tenants share one namespace.
    TenantLeftOutOfKey = "tenant-left-out-of-key",
    /// The lifetime of a workflow key counts from when it was taken, although its execution is open.
    KeyFreedWhileOpen = "key-freed-while-open",
    /// A failed attempt is counted, and no retry follows.
    RetryLost = "retry-lost",
    /// A workflow that suspends is not woken by events that arrived during its activation.
    WakeUpLost = "wake-up-lost",
    /// An execution ends although a signal has arrived that its activation has not seen.
    EndedOverUnseenSignal = "ended-over-unseen-signal",
    /// A worker of the build that failed on an execution takes it again before the delay is over.
    RetakenBySameBuild = "retaken-by-same-build",
    /// A refusal that cannot be cured does not end the claim.
    RefusalHangs = "refusal-hangs",
    /// Work that is handed over directly keeps the token of the previous claim.
    HandOffWithoutToken = "hand-off-without-token",
    /// A batch whose outcome is unknown is decided again.
    UnknownOutcomeRetried = "unknown-outcome-retried",
    /// A batch that could not be written is answered as if it had been written.
    AcknowledgedBeforeCommit = "acknowledged-before-commit",
}

/// Whether this bug is switched on.
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

    /// Switches a bug on for this thread. `None`: switches it off.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether this bug is switched on.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}
