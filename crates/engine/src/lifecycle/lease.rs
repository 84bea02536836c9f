//! How long a task's claim holds for a client of the public protocol. Such a client cannot renew a claim.
//!
//! | the worker | the claim holds until |
//! |---|---|
//! | is not registered, or has sent no heartbeat since it registered | its lease ends |
//! | sends heartbeats | its lease ends, or the worker has shown no life for `worker_silence_ms`, whichever is earlier |
//!
//! The lease is the task's start-to-close timeout, otherwise the timeout that the worker registered for the type,
//! otherwise `task_lease_ms`.
//!
//! Only a lease without a timeout is extended; that is decided when the claim is made. While the client shows life on the connection that made the claim, the
//! claim holds for `worker_silence_ms` more (for `task_lease_ms` if that is shorter), and never shorter than before. On
//! another connection the client extends nothing, because it may have lost its result with the old connection. A
//! workflow's claim is never extended: a client that cannot carry out a step reports nothing and stays alive.

use crate::lifecycle::alarm;
use crate::limits::Limits;
use crate::state::{Task, Worker};

/// Until when a running task's claim holds. `None`: no limit is set. `worker`: the claim's worker, if it is registered.
pub(crate) fn holds_until(task: &Task, worker: Option<&Worker>, limits: &Limits) -> Option<i64> {
    let silent = worker.filter(|worker| worker.heartbeats).map(|worker| silent_from(worker, limits));
    alarm::earliest([task.lease_until_ms, silent])
}

/// When to check a claim again that holds until `until_ms`. A registered worker may send its first heartbeat at any
/// time, and counts as silent soon after.
pub(crate) fn next_look(until_ms: i64, worker: Option<&Worker>, limits: &Limits, now_ms: i64) -> i64 {
    match worker {
        Some(_) => until_ms.min(now_ms.saturating_add(limits.worker_silence_ms)),
        None => until_ms,
    }
}

/// From when on a worker counts as silent, unless it shows life again.
fn silent_from(worker: &Worker, limits: &Limits) -> i64 {
    worker.last_heartbeat_ms.saturating_add(limits.worker_silence_ms)
}

/// How long a task may run whose claim is made for several processes, because the poll does not say which of them it
/// comes from: as long as the most patient of them lets it run. A process without a timeout counts with the default
/// lease. `None`: no timeout.
pub fn longest_timeout(timeouts: impl Iterator<Item = Option<i64>>, limits: &Limits) -> Option<i64> {
    timeouts.max_by_key(|timeout_ms| timeout_ms.unwrap_or(limits.task_lease_ms)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_patient_process_counts() {
        let limits = Limits { task_lease_ms: 330_000, ..Limits::default() };
        let longest = |timeouts: &[Option<i64>]| longest_timeout(timeouts.iter().copied(), &limits);
        assert_eq!(longest(&[]), None);
        assert_eq!(longest(&[Some(60_000), Some(5_000)]), Some(60_000));
        assert_eq!(longest(&[Some(60_000), None, Some(5_000)]), None);
        assert_eq!(longest(&[None, Some(600_000)]), Some(600_000));
    }
}
