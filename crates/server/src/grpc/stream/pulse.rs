//! Tracks when a worker was last heard. A silent worker may have stopped: work sent to it would wait for the lease to
//! expire before another worker could run it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Pulse {
    heard: watch::Sender<Instant>,
    patience: Duration,
}

impl Pulse {
    /// Heartbeats arrive three times per lease. A worker counts as silent when two in a row are missing.
    pub(super) fn new(lease_ms: i64) -> Self {
        let lease = Duration::from_millis(lease_ms.max(1).unsigned_abs());
        Self { heard: watch::Sender::new(Instant::now()), patience: lease * 2 / 3 }
    }

    /// Records that a frame arrived.
    pub(super) fn beat(&self) {
        self.heard.send_replace(Instant::now());
    }

    /// Completes when the worker has been silent for too long.
    pub(super) async fn falls_silent(&self) {
        loop {
            let silent_at = *self.heard.borrow() + self.patience;
            if silent_at <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(silent_at).await;
        }
    }

    /// Completes when the worker has been heard recently.
    pub(super) async fn is_heard(&self) {
        let lately = |at: &Instant| at.elapsed() < self.patience;
        if !lately(&self.heard.borrow()) {
            // This value owns the sender, so it cannot be closed.
            let _ = self.heard.subscribe().wait_for(lately).await;
        }
    }
}
