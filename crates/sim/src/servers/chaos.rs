//! What goes wrong, and how often. Each kind of fault draws from a stream of its own, so that leaving one out disturbs
//! the others as little as possible when a failing run is made smaller.

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

            /// How often it strikes, of a thousand chances.
            fn per_mille(self) -> usize {
                match self { $(Fault::$name => $per_mille,)* }
            }
        }
    };
}

faults! {
    /// A commit is refused as if another writer had been faster.
    Conflict = "conflict", 30;
    /// A commit fails and nothing is written; the store says so.
    ErrorBefore = "error-before-commit", 20;
    /// A commit is not written, and the store cannot say so.
    UnknownBefore = "unknown-before-commit", 10;
    /// A commit is written, and the store cannot say so.
    UnknownAfter = "unknown-after-commit", 20;
    /// A read fails.
    ReadError = "read-error", 10;
    /// A server dies while it waits for the database: before, between or after loads, before or after a commit.
    CrashServer = "crash-server", 3;
    /// A worker dies with work in hand.
    CrashWorker = "crash-worker", 30;
    /// A server stands still for seconds.
    PauseServer = "pause-server", 2;
    /// A worker stands still with work in hand, mostly beyond its lease.
    PauseWorker = "pause-worker", 30;
    /// A message arrives twice, the second time later and perhaps elsewhere.
    Duplicate = "duplicate", 60;
    /// A message or an answer of the database takes long.
    Delay = "delay", 15;
    /// An answer does not arrive.
    LostReply = "lost-reply", 30;
    /// A hint between servers gets lost.
    LostHint = "lost-hint", 100;
    /// A server that starts believes in a time that is seconds off.
    ClockSkew = "clock-skew", 400;
    /// The database's clock is set forward or back.
    ClockStep = "clock-step", 60;
}

/// Which faults may strike: all of them, unless a failing run is being made smaller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    pub kinds: BTreeSet<Fault>,
    /// At most so many, then none.
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

    /// Whether it strikes now.
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

    /// From now on nothing goes wrong any more.
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
