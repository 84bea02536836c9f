//! Background loops. Each has options, runs until shutdown, and does its work in a `tick` that tests call directly.
//!
//! Loops decide nothing: they find the work that is due and submit it as ordinary requests.

mod batches;
mod due;
mod keys;
mod orphans;
mod reports;
mod retention;
pub(crate) mod soon;
mod turn;
pub(crate) mod wake;
mod workers;

pub use due::DueLoop;
pub use keys::KeyLoop;
pub use orphans::OrphanLoop;
pub use retention::RetentionLoop;
pub use wake::WakeLoop;

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::service::Service;

#[derive(Debug, Clone)]
pub struct Options {
    /// False in tests that call `tick` themselves.
    pub enabled: bool,
    /// How often each process looks for ready work that other processes made, with jitter. Also how long the due loop
    /// waits after an error.
    pub poll: Duration,
    /// The most rows that one read of the due table returns.
    pub due_page: usize,
    pub key_cleanup: Duration,
    pub orphans: Duration,
    pub retention: Duration,
    /// How long entries of the audit log are kept.
    pub audit_kept: Duration,
    pub reports: Duration,
    pub batch_cleanup: Duration,
    pub worker_cleanup: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enabled: true,
            poll: Duration::from_secs(1),
            due_page: 512,
            key_cleanup: Duration::from_secs(300),
            orphans: Duration::from_secs(60),
            retention: Duration::from_secs(60),
            audit_kept: Duration::from_secs(90 * 24 * 60 * 60),
            reports: Duration::from_millis(100),
            batch_cleanup: Duration::from_secs(3_600),
            worker_cleanup: Duration::from_secs(3_600),
        }
    }
}

/// Signals a loop to end.
pub(crate) type Stopped = watch::Receiver<bool>;

pub(crate) fn start(service: &Service, options: &Options, stopped: &Stopped) -> Vec<JoinHandle<()>> {
    if !options.enabled {
        return Vec::new();
    }
    vec![
        tokio::spawn(DueLoop::new(service.clone(), options).run(stopped.clone())),
        tokio::spawn(KeyLoop::new(service.clone(), options).run(stopped.clone())),
        tokio::spawn(OrphanLoop::new(service.clone(), options).run(stopped.clone())),
        tokio::spawn(RetentionLoop::new(service.clone(), options).run(stopped.clone())),
        tokio::spawn(WakeLoop::new(service.clone(), options).run(stopped.clone())),
        tokio::spawn(reports::run(service.clone(), options.reports, stopped.clone())),
        tokio::spawn(workers::run(service.clone(), options.worker_cleanup, stopped.clone())),
        tokio::spawn(batches::run(service.clone(), options.batch_cleanup, stopped.clone())),
    ]
}

/// Sleeps for about this time; returns `false` when the loop has to end. The time varies between 80 % and 120 %, so
/// that processes that started together do not run in step.
pub(crate) async fn pause(service: &Service, stopped: &mut Stopped, about: Duration) -> bool {
    let spread = about.mul_f64(0.8 + 0.4 * service.fraction());
    // The branches are checked in a fixed order, here and in the loops, so that a simulation with the same seed runs
    // the same way.
    tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => false,
        () = tokio::time::sleep(spread) => true,
    }
}
