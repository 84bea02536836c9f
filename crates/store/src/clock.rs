//! Clocks for stores whose database has no clock of its own. This module does not know what the time is used for.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use flovyn_engine::Now;

pub trait Clock: Send + Sync {
    fn now(&self) -> Now;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Now {
        // If the machine's clock says a time before 1970, it is not usable. The time 0 makes nothing due.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now::same(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock for tests that moves only by its methods. Product time and lease time can be set separately: on a
/// virtual clock the product time may jump by days, while the lease time follows the real workers.
#[derive(Debug)]
pub struct ManualClock {
    ms: AtomicI64,
    lease_ms: AtomicI64,
}

impl ManualClock {
    pub fn new(now: Now) -> Self {
        Self { ms: AtomicI64::new(now.ms), lease_ms: AtomicI64::new(now.lease_ms) }
    }

    pub fn set_ms(&self, ms: i64) {
        self.ms.store(ms, Ordering::SeqCst);
    }

    pub fn set_lease_ms(&self, lease_ms: i64) {
        self.lease_ms.store(lease_ms, Ordering::SeqCst);
    }

    /// Moves both times, like a real clock.
    pub fn advance_ms(&self, by_ms: i64) {
        self.ms.fetch_add(by_ms, Ordering::SeqCst);
        self.lease_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        Now { ms: self.ms.load(Ordering::SeqCst), lease_ms: self.lease_ms.load(Ordering::SeqCst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_its_methods() {
        let clock = ManualClock::new(Now::same(5));
        clock.advance_ms(2);
        assert_eq!(clock.now(), Now::same(7));
        clock.set_ms(100);
        assert_eq!(clock.now(), Now { ms: 100, lease_ms: 7 });
        clock.set_lease_ms(8);
        assert_eq!(clock.now(), Now { ms: 100, lease_ms: 8 });
    }

    #[test]
    fn the_system_clock_counts_from_1970() {
        let start_of_2025 = 1_735_689_600_000;
        assert!(SystemClock.now().ms > start_of_2025);
    }
}
