//! Small frequent messages, kept out of the normal request path. Reports are collected and written together, and
//! frequent heartbeats are answered from memory. Only the messages collected here may be lost in a crash.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flovyn_engine::ids::{TaskId, TenantId, WorkerId};
use flovyn_engine::request::{HeartbeatTask, Op, Peer, SeeWorker};
use flovyn_engine::{Refusal, Reply, Request};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::job::Asker;
use crate::service::Service;

/// The most reports that may wait; further reports are dropped.
const MAX_REPORTS: usize = 10_000;
/// The most tasks whose last heartbeat is remembered.
const MAX_HEARTBEATS: usize = 100_000;
/// Number of remembered workers above which entries that are no longer needed are removed.
const MANY_WORKERS: usize = 10_000;

#[derive(Debug, Default, Clone)]
pub(crate) struct Chatter {
    inner: Arc<Mutex<Inner>>,
}

/// The sender of a report, by claim token and by everything that is known about its client. Messages of one sender must
/// not hide those of another.
type Reporter = (Option<i64>, Option<Arc<Peer>>);

#[derive(Debug, Default)]
struct Inner {
    lines: Vec<Request>,
    /// The latest progress of each reporter; older progress does not matter.
    progress: FxHashMap<(TenantId, TaskId, Reporter), Request>,
    heartbeats: BTreeMap<(TenantId, TaskId, Reporter), Heard>,
    /// When a sign of life of each worker was last written.
    seen: FxHashMap<(TenantId, WorkerId), Instant>,
}

/// The last heartbeat that was written, and a later one that waits to be written.
#[derive(Debug)]
struct Heard {
    at: Instant,
    good_for: Duration,
    waiting: Option<Request>,
}

impl Heard {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < self.good_for
    }
}

impl Chatter {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a report. `false`: the report was dropped, because too many are waiting.
    pub(crate) fn add(&self, request: Request) -> bool {
        let mut inner = self.lock();
        if inner.lines.len() + inner.progress.len() >= MAX_REPORTS {
            return false;
        }
        match &request.op {
            Op::ReportProgress(op) => {
                let key = (request.tenant_id, op.task_id, (op.token, request.peer.clone()));
                inner.progress.insert(key, request);
            }
            _ => inner.lines.push(request),
        }
        true
    }

    /// Writes the collected reports.
    pub(crate) fn flush(&self, service: &Service) {
        let mut requests = {
            let mut inner = self.lock();
            let mut requests = std::mem::take(&mut inner.lines);
            requests.extend(std::mem::take(&mut inner.progress).into_values());
            requests
        };
        self.lock().heartbeats.retain(|_, heard| {
            let keep = heard.is_fresh();
            if !keep {
                requests.extend(heard.waiting.take());
            }
            keep
        });
        for request in requests {
            // If the queue is full or the server is stopping, the report is dropped: its sender knows that reports may
            // be lost.
            if service.send(request, Asker::None).is_err() {
                crate::stats::Stats::add(&service.shared.stats.dropped_reports, 1);
            }
        }
    }

    /// Notes a worker's sign of life. It is written at most three times per period of allowed silence.
    pub(crate) fn see(&self, service: &Service, tenant_id: TenantId, worker_id: WorkerId) {
        if self.notes_sign(service, tenant_id, worker_id) {
            let see = service.request(tenant_id, SeeWorker { worker_id }.into());
            // If the queue is full, the sign of life is lost; the next one comes soon.
            let _ = service.send(see, Asker::None);
        }
    }

    /// Whether a sign of life has to be written. If so, it counts as written from now on.
    pub(crate) fn notes_sign(&self, service: &Service, tenant_id: TenantId, worker_id: WorkerId) -> bool {
        let fresh = Duration::from_millis(service.limits().worker_silence_ms.max(0).unsigned_abs() / 3);
        let mut inner = self.lock();
        let last = inner.seen.get(&(tenant_id, worker_id));
        if last.is_some_and(|at| at.elapsed() < fresh) {
            return false;
        }
        if inner.seen.len() >= MANY_WORKERS {
            inner.seen.retain(|_, at| at.elapsed() < fresh);
        }
        inner.seen.insert((tenant_id, worker_id), Instant::now());
        true
    }

    /// Answers from memory while the last written heartbeat is recent; the details then wait for the next write.
    pub(crate) async fn heartbeat(
        &self,
        service: &Service,
        caller: Caller,
        heartbeat: HeartbeatTask,
    ) -> Result<bool, Refusal> {
        let is_known = identifies(heartbeat.token, caller.peer.as_deref());
        let key = (caller.tenant_id, heartbeat.task_id, (heartbeat.token, caller.peer.clone()));
        if let Some(heard) = self.lock().heartbeats.get_mut(&key).filter(|heard| heard.is_fresh()) {
            if heartbeat.details.is_some() {
                let op = Op::from(heartbeat);
                op.check(service.limits())?;
                heard.waiting = Some(service.request(caller, op));
            }
            return Ok(false);
        }
        let reply = service.call(caller, heartbeat).await?;
        let Reply::Heartbeat { cancel_requested, next_within_ms } = reply else { return Ok(false) };
        let mut inner = self.lock();
        // If the task must stop, every answer has to say so; therefore this answer is not remembered.
        if !cancel_requested && is_known && inner.heartbeats.len() < MAX_HEARTBEATS {
            let good_for = Duration::from_millis(next_within_ms.max(0).unsigned_abs());
            inner.heartbeats.insert(key, Heard { at: Instant::now(), good_for, waiting: None });
        }
        Ok(cancel_requested)
    }

    /// Writes the waiting heartbeats of this task before the request that follows.
    pub(crate) async fn release_heartbeat(&self, service: &Service, tenant_id: TenantId, task_id: TaskId) {
        let waiting: Vec<Request> = {
            let mut inner = self.lock();
            let first = (tenant_id, task_id, Reporter::default());
            let own = inner.heartbeats.range_mut(first..);
            own.take_while(|((tenant, task, _), _)| (*tenant, *task) == (tenant_id, task_id))
                .filter_map(|(_, heard)| heard.waiting.take())
                .collect()
        };
        for request in waiting {
            let (sender, written) = oneshot::channel();
            // If the queue is full, the heartbeat is lost; the following request fails and reports the full queue.
            if service.send(request, Asker::Call(sender)).is_ok() {
                // Two batches may run at once: without this wait, the failure could be decided first.
                let _ = written.await;
            }
        }
    }
}

/// Whether a claim token or the connection identifies the sender. If neither does, two workers may send equal
/// heartbeats, so a stale one could be answered from memory by the fresh one of the other worker.
fn identifies(token: Option<i64>, peer: Option<&Peer>) -> bool {
    token.is_some() || peer.is_some_and(|peer| peer.connection.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_or_a_connection_identifies_the_sender_of_a_heartbeat() {
        let peer = |connection| Peer { credential: Some(1), connection, worker: Some("w".into()) };
        assert!(identifies(Some(1), None) && identifies(None, Some(&peer(Some(7)))));
        assert!(!identifies(None, Some(&peer(None))) && !identifies(None, None));
    }
}
