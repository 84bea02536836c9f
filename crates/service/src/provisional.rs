//! Starts that wait for their first step.
//!
//! With nothing else to do, a workflow that a waiting worker can take is handed over before its start is written. Its first
//! step usually comes back within a moment, and both are one commit: less work, and less time until a short
//! workflow has ended. Nobody is told that it started before it is written. Should the server die, it never did: the worker
//! has held back what cannot be undone, and its step is refused.
//!
//! What was told is decided again, at the same time and from the same seed, at the head of the very next batch. A start and
//! its claim are one request then: there is no such execution that is not its worker's.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use flovyn_engine::ids::{ExecutionId, TenantId, Text};
use flovyn_engine::reply::Started;
use flovyn_engine::request::{self, Claimer, GiveBackWorkflow, Op};
use flovyn_engine::{Now, Request};
use rustc_hash::FxHashMap;
use tokio::time::{Instant, Sleep};

use crate::job::{Asker, Job};

/// How long the starts of a kind are written at once after one whose first step came too late, or could not be made
/// before its start was durable. Doubled each time, up to the longest.
const NOT_AGAIN_FOR: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);
/// More starts than that have each other to share a commit with.
const FEW: usize = 2;
/// Kinds that are remembered as slow.
const MAX_SLOW: usize = 1_000;

/// Who has been handed what a batch started, in order.
#[derive(Debug)]
pub(crate) struct Takers {
    pub(crate) each: Vec<(ExecutionId, Claimer)>,
    pub(crate) at: Now,
}

/// What was handed over, to be written with what comes next.
#[derive(Debug)]
struct Waiting {
    starts: Vec<(ExecutionId, Job)>,
    until: Instant,
}

type Kind = (TenantId, Text);

/// A kind that is not waited for.
#[derive(Debug, Clone, Copy)]
struct Slow {
    since: Instant,
    lasts: Duration,
}

#[derive(Debug)]
pub(crate) struct Provisional {
    /// How long a start waits for its first step when nothing else happens.
    patience: Duration,
    waiting: Option<Waiting>,
    /// Left as it is while starts come and go: setting one wakes a thread.
    alarm: Pin<Box<Sleep>>,
    slow: FxHashMap<Kind, Slow>,
}

impl Provisional {
    pub(crate) fn new(patience: Duration) -> Self {
        let alarm = Box::pin(tokio::time::sleep(patience));
        Self { patience, waiting: None, alarm, slow: FxHashMap::default() }
    }

    /// Whether workers may be told of this batch before it is written.
    pub(crate) fn may_tell(&self, batch: &[Job]) -> bool {
        let quick = |kind| self.slow.get(&kind).is_none_or(|slow| slow.since.elapsed() >= slow.lasts);
        !self.patience.is_zero()
            && self.waiting.is_none()
            && (1..=FEW).contains(&batch.len())
            && batch.iter().all(|job| kind(job).is_some_and(quick))
    }

    /// Starts that were handed over, and to whom.
    pub(crate) fn hold(&mut self, starts: Vec<Job>, takers: Takers) {
        let Takers { each, at } = takers;
        let taken = |(start, (id, taker))| (id, taken(start, taker, at));
        let starts = starts.into_iter().zip(each).map(taken).collect();
        self.waiting = Some(Waiting { starts, until: Instant::now() + self.patience });
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether a first step is waited for, and not late.
    pub(crate) fn may_still_come(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| Instant::now() < waiting.until)
    }

    /// Completes when the first step has not come in time.
    pub(crate) async fn is_late(&mut self) {
        let Some(until) = self.waiting.as_ref().map(|waiting| waiting.until) else {
            return std::future::pending().await;
        };
        while Instant::now() < until {
            if self.alarm.is_elapsed() || self.alarm.deadline() > until {
                self.alarm.as_mut().reset(until);
            }
            self.alarm.as_mut().await;
        }
    }

    /// Puts what was handed over at the head of a batch.
    pub(crate) fn join(&mut self, batch: &mut Vec<Job>) {
        let Some(waiting) = self.waiting.take() else { return };
        let late = Instant::now() >= waiting.until;
        for (id, start) in &waiting.starts {
            let Some(kind) = kind(start) else { continue };
            match batch.iter().find_map(|job| step_of(job, *id)) {
                Some(Step::Made) => drop(self.slow.remove(&kind)),
                Some(Step::GivenBack) => self.remember_slow(kind),
                None if late => self.remember_slow(kind),
                None => {}
            }
        }
        batch.splice(0..0, waiting.starts.into_iter().map(|(_, start)| start));
    }

    fn remember_slow(&mut self, kind: Kind) {
        if self.slow.len() >= MAX_SLOW {
            self.slow.clear();
        }
        let before = self.slow.get(&kind).map_or(NOT_AGAIN_FOR / 2, |slow| slow.lasts);
        self.slow.insert(kind, Slow { since: Instant::now(), lasts: (before * 2).min(LONGEST) });
    }
}

/// What became of an execution's first step.
enum Step {
    Made,
    GivenBack,
}

fn step_of(job: &Job, id: ExecutionId) -> Option<Step> {
    match &job.request.op {
        Op::SubmitActivation(step) if step.execution_id == id => Some(Step::Made),
        Op::GiveBackWorkflow(claim) if claim.execution_id == id => Some(Step::GivenBack),
        _ => None,
    }
}

/// What a plain start is for.
fn kind(job: &Job) -> Option<Kind> {
    match &job.request.op {
        Op::StartWorkflow(start) => Some((job.request.tenant_id, start.kind.clone())),
        _ => None,
    }
}

/// The same start, decided again as it was, and claimed in the same request.
fn taken(job: Job, taker: Claimer, at: Now) -> Job {
    let provisional = Some(Box::new(request::Provisional { at, taker }));
    Job { request: Arc::new(Request { provisional, ..Request::clone(&job.request) }), ..job }
}

/// A start that nobody has been told of.
pub(crate) fn anew(request: &Request, seed: u64) -> Arc<Request> {
    Arc::new(Request { provisional: None, seed, ..request.clone() })
}

/// Undoes the claim of a start that may have been written: its worker may have been told that there is no such execution.
pub(crate) fn give_back(request: &Request, started: &Started) -> Vec<Job> {
    let taken = request.provisional.is_some() && started.key_new;
    let token = request::Provisional::TOKEN;
    let claim = GiveBackWorkflow { execution_id: started.execution_id, token };
    let give_back = || Job::new(Request::new(request.tenant_id, 0, claim), Asker::None);
    taken.then(give_back).into_iter().collect()
}
