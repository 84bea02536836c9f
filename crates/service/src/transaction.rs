//! One batch through the store: decided, committed, and what becomes of it when that fails.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flovyn_engine::planted::{Bug, planted};
use flovyn_engine::{Code, Decided, Refusal, Reply};
use flovyn_store::{StoreError, TransactOptions};
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::answer::Committed;
use crate::dispatch::Poller;
use crate::driver::{Driver, Summary};
use crate::job::{self, Job};
use crate::provisional;
use crate::service::Shared;
use crate::stats::Stats;

/// How long after a claim could not be given back this is tried again.
pub(crate) const GIVE_BACK_AGAIN: Duration = Duration::from_millis(100);
/// How often a lone request is decided again when another writer is faster.
const MAX_CONFLICTS: u32 = 8;

/// What a batch came to.
#[derive(Default)]
pub(crate) struct Ran {
    /// Jobs that have to wait for the next one.
    pub(crate) put_off: Vec<Job>,
    /// Jobs that have to wait for [`GIVE_BACK_AGAIN`].
    pub(crate) later: Vec<Job>,
    pub(crate) requests: usize,
    /// Those of them that were decided in vain: they could not have their rows, or nothing was written.
    pub(crate) in_vain: usize,
    /// How long it took, if it wrote anything.
    pub(crate) wrote_within: Option<Duration>,
}

/// What a batch is decided for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is written, and everybody is answered.
    Answered,
    /// The same, and the next is decided meanwhile if the store can do that.
    Followed,
    /// What it starts may be handed over before it is written.
    Told,
}

/// A batch of which nothing is known to be written.
pub(crate) struct Failed {
    error: StoreError,
    /// Gives back what may have been claimed for somebody who will not be told, and pollers that have to search again.
    put_off: Vec<Job>,
}

impl Shared {
    /// Decides and commits a batch, and answers everybody, but not before another batch has been.
    pub(crate) fn run_batch(
        self: Arc<Self>,
        jobs: Vec<Job>,
        wait: bool,
        before: Option<oneshot::Receiver<()>>,
    ) -> BoxFuture<'static, Ran> {
        Box::pin(async move {
            if jobs.is_empty() {
                return Ran::default();
            }
            let (requests, began) = (jobs.len(), Instant::now());
            match self.transact(&jobs, wait, Then::Followed).await {
                Ok(committed) => {
                    let wrote_within = (committed.summary.rows > 0).then(|| began.elapsed());
                    let is_deferred = |decided: &&Decided| matches!(decided, Decided::Deferred);
                    let in_vain = committed.decided.iter().filter(is_deferred).count();
                    if let Some(before) = before {
                        // It says nothing but that it has ended.
                        let _ = before.await;
                    }
                    let put_off = self.answer_all(jobs, committed);
                    Ran { put_off, requests, in_vain, wrote_within, ..Ran::default() }
                }
                Err(failed) => self.recover(jobs, wait, failed).await,
            }
        })
    }

    pub(crate) async fn transact(
        &self,
        jobs: &[Job],
        wait_for_locks: bool,
        then: Then,
    ) -> Result<Committed, Failed> {
        let under_way = self.dispatch.batch_begins();
        let requests = jobs.iter().map(|job| job.request.clone()).collect();
        let watched = !self.watchers.is_empty();
        let driver = Driver::new(requests, self.limits.clone(), self.dispatch.clone(), watched, then);
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
                Ok(Committed { decided, handed, summary, takers, under_way })
            }
            Err(StoreError::Unavailable(_)) if planted(Bug::AcknowledgedBeforeCommit) => {
                Ok(Committed { decided, handed, summary, takers: None, under_way })
            }
            Err(error) => {
                // It may have been written all the same.
                self.dispatch.forget_empty();
                let mut put_off = match error {
                    StoreError::OutcomeUnknown(_) => give_back_all(jobs, &handed, &decided),
                    _ => Vec::new(),
                };
                for poller in handed {
                    put_off.extend(self.dispatch.park_after(&under_way, poller));
                }
                Err(Failed { error, put_off })
            }
        }
    }

    /// Only what is durable counts.
    fn measure(&self, decided: &[Decided], summary: &Summary) {
        self.meters.batch_requests.record(decided.len() as f64);
        if let Some(since) = summary.written_since {
            self.meters.commit.record(since.elapsed().as_secs_f64());
        }
        self.meters.count(&summary.notes);
    }

    /// A batch that was not written. A conflict is decided once more; then the batch is halved until the guilty
    /// request stands alone. Only what is known not to be written is tried again.
    pub(crate) async fn recover(self: Arc<Self>, mut jobs: Vec<Job>, wait: bool, failed: Failed) -> Ran {
        let requests = jobs.len();
        let ran = |put_off, later| Ran { put_off, later, requests, in_vain: requests, wrote_within: None };
        let Failed { mut error, mut put_off } = failed;
        let alone = jobs.len() == 1;
        for _ in 0..if alone { MAX_CONFLICTS } else { 1 } {
            let again = matches!(error, StoreError::OutcomeUnknown(_)) && planted(Bug::UnknownOutcomeRetried);
            if !matches!(error, StoreError::Conflict(_)) && !again {
                break;
            }
            Stats::add(&self.stats.conflicts, 1);
            match self.transact(&jobs, wait || alone, Then::Answered).await {
                Ok(committed) => {
                    put_off.extend(self.answer_all(jobs, committed));
                    return ran(put_off, Vec::new());
                }
                Err(next) => {
                    error = next.error;
                    put_off.extend(next.put_off);
                }
            }
        }
        if !alone && matches!(error, StoreError::Conflict(_) | StoreError::Refused(_)) {
            Stats::add(&self.stats.bisections, 1);
            let second = jobs.split_off(jobs.len() / 2);
            let mut later = Vec::new();
            for half in [jobs, second] {
                let ran = self.clone().run_batch(half, wait, None).await;
                put_off.extend(ran.put_off);
                later.extend(ran.later);
            }
            return ran(put_off, later);
        }
        if let StoreError::Fatal(what) = &error {
            self.fail_for_good(what);
        }
        let lost = matches!(error, StoreError::Fatal(_) | StoreError::Refused(_));
        let (undone, jobs): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| !lost && job.gives_back());
        refuse_all(jobs, &error);
        // Nobody else will: as long as its session lives, what was claimed for nobody would stay claimed.
        let again = undone.into_iter().map(|job| Job { misses: job.misses + 1, ..job });
        ran(put_off, again.collect())
    }

    fn fail_for_good(&self, what: &str) {
        if !self.failed.swap(true, Ordering::SeqCst) {
            tracing::error!(what, "storage has failed for good; this process must stop");
            (self.on_fatal)(what);
        }
    }
}

/// Claims of a batch that may have been written, for workers who will not hear of them: a session would keep them alive by
/// its heartbeats. If nothing was written, giving back is refused and changes nothing.
fn give_back_all(jobs: &[Job], handed: &[Poller], decided: &[Decided]) -> Vec<Job> {
    let requests = jobs.iter().map(|job| &job.request).chain(handed.iter().map(|poller| &poller.request));
    let claims = requests.zip(decided).filter_map(|(request, decided)| match decided {
        Decided::Reply(Reply::Claimed(claimed)) => Some(job::give_back(request.tenant_id, claimed)),
        Decided::Reply(Reply::Started(started)) => Some(provisional::give_back(request, started)),
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
    };
    // What the database says may name hosts, files and rows of others: it goes to the log, not to callers.
    tracing::warn!(%error, requests = jobs.len(), "requests refused");
    for job in jobs {
        job.refuse(Refusal::new(code, code.advice()));
    }
}
