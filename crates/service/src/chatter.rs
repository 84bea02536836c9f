//! Cheap chatter, kept off the hot path: reports are gathered and written together; frequent heartbeats are
//! answered from memory. What is gathered here may be lost in a crash, and nothing else may.

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

/// Reports that may wait at most; more are dropped.
const MAX_REPORTS: usize = 10_000;
/// Tasks whose last heartbeat is remembered at most.
const MAX_HEARTBEATS: usize = 100_000;
/// Workers whose last written sign of life is remembered, before those are forgotten that no longer matter.
const MANY_WORKERS: usize = 10_000;

#[derive(Debug, Default, Clone)]
pub(crate) struct Chatter {
    inner: Arc<Mutex<Inner>>,
}

/// Whoever reports: by claim token, or by connection. What one of them says must not hide what another one says.
type Reporter = (Option<i64>, Option<i64>);

#[derive(Debug, Default)]
struct Inner {
    lines: Vec<Request>,
    /// Only the latest progress that a reporter has sent matters.
    progress: FxHashMap<(TenantId, TaskId, Reporter), Request>,
    heartbeats: BTreeMap<(TenantId, TaskId, Reporter), Heard>,
    /// When a sign of life of a worker was last written.
    seen: FxHashMap<(TenantId, WorkerId), Instant>,
}

/// The last heartbeat that was written, and the one that waits to be.
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

    /// `false`: too many wait already, it was dropped.
    pub(crate) fn add(&self, request: Request) -> bool {
        let mut inner = self.lock();
        if inner.lines.len() + inner.progress.len() >= MAX_REPORTS {
            return false;
        }
        match &request.op {
            Op::ReportProgress(op) => {
                let key = (request.tenant_id, op.task_id, (op.token, connection(request.peer.as_deref())));
                inner.progress.insert(key, request);
            }
            _ => inner.lines.push(request),
        }
        true
    }

    /// Writes what has been gathered.
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
            // A full queue or a stopping server drops it: it was acknowledged as droppable.
            if service.send(request, Asker::None).is_err() {
                crate::stats::Stats::add(&service.shared.stats.dropped_reports, 1);
            }
        }
    }

    /// A worker shows life. Writes it now and then: three times before its silence would count.
    pub(crate) fn see(&self, service: &Service, tenant_id: TenantId, worker_id: WorkerId) {
        if self.notes_sign(service, tenant_id, worker_id) {
            let see = service.request(tenant_id, SeeWorker { worker_id }.into());
            // A full queue loses it; the next one comes soon.
            let _ = service.send(see, Asker::None);
        }
    }

    /// Whether a sign of life has to be written. It counts as written from now on.
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

    /// Answers from memory while the last written heartbeat is fresh; its details wait for the next write.
    pub(crate) async fn heartbeat(
        &self,
        service: &Service,
        caller: Caller,
        heartbeat: HeartbeatTask,
    ) -> Result<bool, Refusal> {
        let reporter = (heartbeat.token, connection(caller.peer.as_deref()));
        let key = (caller.tenant_id, heartbeat.task_id, reporter);
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
        // Somebody who is to stop is asked to every time.
        if !cancel_requested && inner.heartbeats.len() < MAX_HEARTBEATS {
            let good_for = Duration::from_millis(next_within_ms.max(0).unsigned_abs());
            inner.heartbeats.insert(key, Heard { at: Instant::now(), good_for, waiting: None });
        }
        Ok(cancel_requested)
    }

    /// Sends a waiting heartbeat of this task ahead of what follows.
    pub(crate) async fn release_heartbeat(&self, service: &Service, tenant_id: TenantId, task_id: TaskId) {
        let waiting: Vec<Request> = {
            let mut inner = self.lock();
            let own =
                (tenant_id, task_id, (None, None))..=(tenant_id, task_id, (Some(i64::MAX), Some(i64::MAX)));
            inner.heartbeats.range_mut(own).filter_map(|(_, heard)| heard.waiting.take()).collect()
        };
        for request in waiting {
            let (sender, written) = oneshot::channel();
            // A full queue loses it; the failure that follows will say that it is full.
            if service.send(request, Asker::Call(sender)).is_ok() {
                // Of two batches at once the one with the failure might be first.
                let _ = written.await;
            }
        }
    }
}

fn connection(peer: Option<&Peer>) -> Option<i64> {
    peer?.connection
}
