//! The faults, and how often they occur. Each kind of fault draws from its own random stream, so that a shrunk run
//! without one kind disturbs the others as little as possible.

use std::collections::{BTreeMap, BTreeSet};

use crate::rng::Rng;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $per_mille:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];

            pub fn name(self) -> &'static str {
                match self { $(Fault::$name => $text,)* }
            }

            /// How often the fault occurs, per thousand chances.
            fn per_mille(self) -> usize {
                match self { $(Fault::$name => $per_mille,)* }
            }
        }
    };
}

faults! {
    /// A commit is refused as if another writer had been faster.
    Conflict = "conflict", 30;
    /// A commit fails and nothing is written; the store reports it.
    ErrorBefore = "error-before-commit", 20;
    /// A commit is not written, and the store reports an unknown outcome.
    UnknownBefore = "unknown-before-commit", 10;
    /// A commit is written, and the store reports an unknown outcome.
    UnknownAfter = "unknown-after-commit", 20;
    /// A read fails.
    ReadError = "read-error", 10;
    /// A server dies while it waits for the database: before, between or after loads, before or after a commit.
    CrashServer = "crash-server", 3;
    /// A worker dies while it holds a claim.
    CrashWorker = "crash-worker", 30;
    /// A server is frozen for seconds.
    PauseServer = "pause-server", 2;
    /// A worker is frozen while it holds a claim, usually for longer than its lease.
    PauseWorker = "pause-worker", 30;
    /// A message arrives twice, the second time later and perhaps at another server.
    Duplicate = "duplicate", 60;
    /// A message, or an answer of the database, is slow.
    Delay = "delay", 15;
    /// An answer is lost.
    LostReply = "lost-reply", 30;
    /// A hint between servers gets lost.
    LostHint = "lost-hint", 100;
    /// The clock of a starting server is wrong by seconds.
    ClockSkew = "clock-skew", 400;
    /// The database's clock is set forward or back.
    ClockStep = "clock-step", 60;
}

/// The faults that may occur: all of them, unless a failing run is being shrunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    pub kinds: BTreeSet<Fault>,
    /// The most faults in a run.
    pub most: usize,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { kinds: Fault::ALL.iter().copied().collect(), most: usize::MAX }
    }
}

#[derive(Debug)]
pub(super) struct Chaos {
    allowed: Allowed,
    streams: BTreeMap<Fault, Rng>,
    struck: BTreeMap<Fault, usize>,
    over: bool,
}

impl Chaos {
    pub(super) fn new(seed: u64, allowed: Allowed) -> Self {
        let stream = |fault: &Fault| {
            let number = *fault as u64 + 1;
            (*fault, Rng::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D).wrapping_add(number << 40)))
        };
        let streams = Fault::ALL.iter().map(stream).collect();
        Self { allowed, streams, struck: BTreeMap::new(), over: false }
    }

    /// Whether the fault occurs now.
    pub(super) fn strikes(&mut self, fault: Fault) -> bool {
        let stream = self.streams.get_mut(&fault).expect("every fault has a stream");
        let drawn = stream.below(1_000) < fault.per_mille();
        let strikes =
            drawn && !self.over && self.allowed.kinds.contains(&fault) && self.total() < self.allowed.most;
        if strikes {
            *self.struck.entry(fault).or_default() += 1;
        }
        strikes
    }

    /// Ends all faults.
    pub(super) fn stop(&mut self) {
        self.over = true;
    }

    pub(super) fn struck(&self) -> &BTreeMap<Fault, usize> {
        &self.struck
    }

    pub(super) fn total(&self) -> usize {
        self.struck.values().sum()
    }
}
