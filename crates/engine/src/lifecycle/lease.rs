//! How long a task's claim holds for a client of the public protocol, which cannot renew it.
//!
//! | the worker | the claim holds until |
//! |---|---|
//! | is not registered, or has sent no heartbeat since it registered | its lease ends |
//! | sends heartbeats | its lease ends, or the worker has shown no life for `worker_silence_ms`: the earlier |
//!
//! The lease is the task's start-to-close timeout, else the one that the worker registered for its type, else `task_lease_ms`.
//! Only a lease without a timeout is extended: while the client shows life on the connection that made the claim, the claim
//! holds for `worker_silence_ms` more (for `task_lease_ms` if that is shorter), and never shorter than before. A client that came back on another connection may have
//! lost its result with the old one, so it extends nothing. A workflow's claim is never extended: a client that cannot carry
//! out a step says nothing and lives on.

use crate::lifecycle::alarm;
use crate::limits::Limits;
use crate::state::{Task, Worker, WorkerCapability};

/// Until when a running task's claim holds. `None`: it has no lease. `worker`: of the claim, if it is registered.
pub(crate) fn holds_until(task: &Task, worker: Option<&Worker>, limits: &Limits) -> Option<i64> {
    let silent = worker.filter(|worker| worker.heartbeats).map(|worker| silent_from(worker, limits));
    alarm::earliest([task.lease_until_ms, silent])
}

/// When to look at a claim again that holds until then. A registered worker may send its first heartbeat at any time, and
/// counts as silent soon after.
pub(crate) fn next_look(until_ms: i64, worker: Option<&Worker>, limits: &Limits, now_ms: i64) -> i64 {
    match worker {
        Some(_) => until_ms.min(now_ms.saturating_add(limits.worker_silence_ms)),
        None => until_ms,
    }
}

/// From when on a worker counts as silent, if nothing more is heard of it.
fn silent_from(worker: &Worker, limits: &Limits) -> i64 {
    worker.last_heartbeat_ms.saturating_add(limits.worker_silence_ms)
}

/// Whether a claim of this task may be extended. `capabilities`: of the worker that claimed it.
pub(crate) fn may_be_extended<'a>(
    task: &Task,
    mut capabilities: impl Iterator<Item = &'a WorkerCapability>,
) -> bool {
    let timed = |row: &WorkerCapability| row.kind == task.task_type && row.timeout_ms.is_some();
    task.plain && task.start_to_close_ms.is_none() && !capabilities.any(timed)
}
