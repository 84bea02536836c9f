//! Growing pauses with jitter between attempts to reach the database.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const CAP: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// Between half and all of a step that doubles each time, so that many processes do not reconnect in step.
    pub(super) fn next_delay(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(CAP);
        let share = random() as f64 / u64::MAX as f64;
        step.mul_f64(0.5 + share / 2.0)
    }
}

/// A random number from the standard library's seed for hash maps. It is good enough to spread pauses and to
/// distinguish processes.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_cap() {
        let mut backoff = Backoff::default();
        let delays: Vec<Duration> = (0..20).map(|_| backoff.next_delay()).collect();
        assert!(delays[0] >= FIRST / 2 && delays[0] <= FIRST);
        assert!(delays[19] >= CAP / 2 && delays[19] <= CAP);
    }
}
