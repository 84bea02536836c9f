//! Requests of starts that a worker was notified of before they were written. When they wait is decided by the scheduler.
//!
//! Such a start is decided again, at the same time and from the same seed. A start and its claim are then one request: there is
//! no such execution that is not its worker's.

use std::sync::Arc;

use flovyn_engine::ids::ExecutionId;
use flovyn_engine::reply::Started;
use flovyn_engine::request::{self, Claimer, GiveBackWorkflow, Op};
use flovyn_engine::{Now, Request};

use crate::job::{Asker, Job};
use crate::scheduler::{FirstStep, Kind};

/// The workers that were handed what a batch starts, in order.
#[derive(Debug)]
pub(crate) struct Takers {
    pub(crate) each: Vec<(ExecutionId, Claimer)>,
    pub(crate) at: Now,
}

impl Takers {
    /// The starts as they are written later: decided as they were, and claimed in the same request.
    pub(crate) fn claim(self, starts: Vec<Job>) -> Vec<(ExecutionId, Job)> {
        let Self { each, at } = self;
        let claimed = |(start, (id, taker))| (id, claimed(start, taker, at));
        starts.into_iter().zip(each).map(claimed).collect()
    }
}

fn claimed(job: Job, taker: Claimer, at: Now) -> Job {
    let provisional = Some(Box::new(request::Provisional { at, taker }));
    Job { request: Arc::new(Request { provisional, ..Request::clone(&job.request) }), ..job }
}

/// The kind of workflow that a plain start is for.
pub(crate) fn kind(job: &Job) -> Option<Kind> {
    match &job.request.op {
        Op::StartWorkflow(start) => Some((job.request.tenant_id, start.kind.clone())),
        _ => None,
    }
}

pub(crate) fn first_step_of(job: &Job, id: ExecutionId) -> Option<FirstStep> {
    match &job.request.op {
        Op::SubmitActivation(step) if step.execution_id == id => Some(FirstStep::Made),
        Op::GiveBackWorkflow(claim) if claim.execution_id == id => Some(FirstStep::Released),
        _ => None,
    }
}

/// The same start as if no worker had been notified of it.
pub(crate) fn anew(request: &Request, seed: u64) -> Arc<Request> {
    Arc::new(Request { provisional: None, seed, ..request.clone() })
}

/// Releases the claim of a start that may have been written: its worker may have been told that there is no such execution.
/// `None`: it was not claimed, or not started by this request.
pub(crate) fn release(request: &Request, started: &Started) -> Option<Job> {
    let claimed = request.provisional.is_some() && started.key_new;
    let token = request::Provisional::TOKEN;
    let release = GiveBackWorkflow { execution_id: started.execution_id, token };
    claimed.then(|| Job::new(Request::new(request.tenant_id, 0, release), Asker::None))
}
