//! Whether a worker has been heard of lately. One that has not may have stopped: what it were given would have to wait for
//! its lease to end before somebody else could do it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Pulse {
    heard: watch::Sender<Instant>,
    patience: Duration,
}

impl Pulse {
    /// Heartbeats come three times in a lease: silence begins when the second in a row is missing.
    pub(super) fn new(lease_ms: i64) -> Self {
        let lease = Duration::from_millis(lease_ms.max(1).unsigned_abs());
        Self { heard: watch::Sender::new(Instant::now()), patience: lease * 2 / 3 }
    }

    /// A frame has come.
    pub(super) fn beat(&self) {
        self.heard.send_replace(Instant::now());
    }

    /// Completes when nothing has been heard for too long.
    pub(super) async fn falls_silent(&self) {
        loop {
            let silent_at = *self.heard.borrow() + self.patience;
            if silent_at <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(silent_at).await;
        }
    }

    /// Completes when the worker has been heard of lately.
    pub(super) async fn is_heard(&self) {
        let lately = |at: &Instant| at.elapsed() < self.patience;
        if !lately(&self.heard.borrow()) {
            // The sender is our own: it cannot have gone.
            let _ = self.heard.subscribe().wait_for(lately).await;
        }
    }
}
