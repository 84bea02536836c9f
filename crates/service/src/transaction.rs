//! Runs one batch through the store: decides and commits it. If that fails, decides it again or refuses its requests.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use flovyn_engine::planted::{Bug, planted};
use flovyn_engine::{Code, Decided, Refusal, Reply};
use flovyn_store::{StoreError, TransactOptions};
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::answer::Committed;
use crate::driver::{Driver, Summary};
use crate::job::{self, Job};
use crate::pollers::Poller;
use crate::provisional;
use crate::scheduler::{Ended, Queued};
use crate::service::Shared;
use crate::stats::Stats;

/// The number of times that a single request is decided again when another writer changes a row first.
const MAX_CONFLICTS: u32 = 8;

/// How a batch goes through the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The batch is written, then all callers are answered.
    Single,
    /// Like `Single`, and if the store can do that, the next batch is decided while this one is being written.
    Followed,
    /// Workers may receive the executions that the batch starts before it is written.
    NotifyFirst,
}

/// A batch that is not known to be written.
pub(crate) struct Failed {
    error: StoreError,
    /// Releases of work whose claimers will not be answered, and pollers that have to search again.
    requeued: Vec<Job>,
}

impl Shared {
    /// Decides and commits a batch, then answers all callers. The answers wait until the batch `before` has been
    /// answered. `None`: they need not wait.
    pub(crate) fn run_batch(
        self: Arc<Self>,
        jobs: Vec<Job>,
        wait: bool,
        before: Option<oneshot::Receiver<()>>,
    ) -> BoxFuture<'static, Ended<Job>> {
        Box::pin(async move {
            if jobs.is_empty() {
                return Ended::default();
            }
            let (requests, began) = (jobs.len(), Instant::now());
            let attempted = self.transact(&jobs, wait, Mode::Followed).await;
            let took = began.elapsed();
            if let Some(before) = before {
                // This also holds if the batch is decided again. The sender is never used: dropping it is the signal.
                let _ = before.await;
            }
            match attempted {
                Ok(committed) => {
                    let took = (committed.summary.rows > 0).then_some(took);
                    let is_deferred = |decided: &&Decided| matches!(decided, Decided::Deferred);
                    let in_vain = committed.decided.iter().filter(is_deferred).count();
                    let requeued = self.answer_all(jobs, committed);
                    Ended { requeued, requests, in_vain, took, ..Ended::default() }
                }
                Err(failed) => self.recover(jobs, wait, failed).await,
            }
        })
    }

    pub(crate) async fn transact(
        &self,
        jobs: &[Job],
        wait_for_locks: bool,
        mode: Mode,
    ) -> Result<Committed, Failed> {
        let in_flight = self.dispatch.batch_begins();
        let requests = jobs.iter().map(|job| job.request.clone()).collect();
        let watched = !self.watchers.is_empty();
        let driver = Driver::new(requests, self.limits.clone(), self.dispatch.clone(), watched, mode);
        let driver = Arc::new(Mutex::new(driver));
        let options = TransactOptions { batch_id: Uuid::new_v4(), wait_for_locks };
        let result = self.store.transact(driver.clone(), options).await;
        let mut driver = driver.lock().unwrap_or_else(PoisonError::into_inner);
        let takers = driver.take_takers();
        let (decided, handed, summary) = driver.take();
        drop(driver);
        match result {
            Ok(()) => {
                if takers.is_none() {
                    self.measure(&decided, &summary);
                }
                Ok(Committed { decided, handed, summary, takers, in_flight })
            }
            Err(StoreError::Unavailable(_)) if planted(Bug::AcknowledgedBeforeCommit) => {
                Ok(Committed { decided, handed, summary, takers: None, in_flight })
            }
            Err(error) => {
                // The batch may have been written in spite of the error.
                self.dispatch.forget_empty();
                let mut requeued = match error {
                    StoreError::OutcomeUnknown(_) => release_all(jobs, &handed, &decided),
                    _ => Vec::new(),
                };
                for poller in handed {
                    requeued.extend(self.dispatch.park_after(&in_flight, poller));
                }
                Err(Failed { error, requeued })
            }
        }
    }

    /// Updates the metrics. Called only for durable batches.
    fn measure(&self, decided: &[Decided], summary: &Summary) {
        self.meters.batch_requests.record(decided.len() as f64);
        if let Some(since) = summary.written_since {
            self.meters.commit.record(since.elapsed().as_secs_f64());
        }
        self.meters.count(&summary.notes);
    }

    /// Handles a batch that was not written. After a conflict the batch is decided once more, then it is halved until
    /// the failing request is alone. Only requests that are known not to be written are tried again.
    pub(crate) async fn recover(
        self: Arc<Self>,
        mut jobs: Vec<Job>,
        wait: bool,
        failed: Failed,
    ) -> Ended<Job> {
        let requests = jobs.len();
        let ended = |requeued, later| Ended { requeued, later, requests, in_vain: requests, took: None };
        let Failed { mut error, mut requeued } = failed;
        let alone = jobs.len() == 1;
        for _ in 0..if alone { MAX_CONFLICTS } else { 1 } {
            let again = matches!(error, StoreError::OutcomeUnknown(_)) && planted(Bug::UnknownOutcomeRetried);
            if !matches!(error, StoreError::Conflict(_)) && !again {
                break;
            }
            Stats::add(&self.stats.conflicts, 1);
            match self.transact(&jobs, wait || alone, Mode::Single).await {
                Ok(committed) => {
                    requeued.extend(self.answer_all(jobs, committed));
                    return ended(requeued, Vec::new());
                }
                Err(next) => {
                    error = next.error;
                    requeued.extend(next.requeued);
                }
            }
        }
        if !alone && matches!(error, StoreError::Conflict(_) | StoreError::Refused(_)) {
            Stats::add(&self.stats.bisections, 1);
            let second = jobs.split_off(jobs.len() / 2);
            let mut later = Vec::new();
            for half in [jobs, second] {
                let half = self.clone().run_batch(half, wait, None).await;
                requeued.extend(half.requeued);
                later.extend(half.later);
            }
            return ended(requeued, later);
        }
        match &error {
            StoreError::Fatal(what) => self.fail_for_good(what),
            StoreError::Damaged(_) => self.fail_for_good(&error.to_string()),
            _ => {}
        }
        let jobs = match &error {
            // The worker that reported this holds a claim, which would last as long as the worker's session.
            StoreError::Refused(_) => {
                let (again, refused) =
                    jobs.into_iter().map(Job::instead).partition::<Vec<_>, _>(Result::is_ok);
                requeued.extend(again.into_iter().flatten());
                refused.into_iter().filter_map(Result::err).collect()
            }
            _ => jobs,
        };
        let lost = error.is_final() || matches!(error, StoreError::Refused(_));
        let (releases, jobs): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| !lost && job.is_release());
        refuse_all(jobs, &error);
        // Nothing else releases these claims: their work would stay claimed as long as the session lives.
        let again = releases.into_iter().map(|job| Job { misses: job.misses + 1, ..job });
        ended(requeued, again.collect())
    }

    pub(crate) fn fail_for_good(&self, what: &str) {
        if !self.failed.swap(true, Ordering::SeqCst) {
            tracing::error!(what, "storage has failed permanently; this process must stop");
            (self.on_fatal)(what);
        }
    }
}

/// Releases the claims of a batch that may have been written but whose workers receive no answer. Otherwise the
/// heartbeats of a session would renew them. If nothing was written, the release is refused and changes nothing.
fn release_all(jobs: &[Job], handed: &[Poller], decided: &[Decided]) -> Vec<Job> {
    let requests = jobs.iter().map(|job| &job.request).chain(handed.iter().map(|poller| &poller.request));
    let claims = requests.zip(decided).filter_map(|(request, decided)| match decided {
        Decided::Reply(Reply::Claimed(claimed)) => Some(job::releases(request.tenant_id, claimed)),
        Decided::Reply(Reply::Started(started)) => {
            Some(provisional::release(request, started).into_iter().collect())
        }
        _ => None,
    });
    claims.flatten().collect()
}

fn refuse_all(jobs: Vec<Job>, error: &StoreError) {
    let code = match error {
        StoreError::Conflict(_) => Code::CommitConflict,
        StoreError::Refused(_) => Code::StoreRefused,
        StoreError::Unavailable(_) | StoreError::Fatal(_) => Code::StoreUnavailable,
        StoreError::OutcomeUnknown(_) => Code::OutcomeUnknown,
        StoreError::Damaged(_) => Code::DatabaseDamaged,
    };
    // The database's message may name hosts, files and rows of other tenants: it goes to the log, not to callers.
    tracing::warn!(%error, requests = jobs.len(), "requests refused");
    for job in jobs {
        job.refuse(Refusal::new(code, code.advice()));
    }
}
