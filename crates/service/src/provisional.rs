//! Requests of provisional starts: a worker received the execution before the start was written. The scheduler decides
//! how long they wait.
//!
//! Such a start is decided again at the same time and from the same seed. The start and its claim are then one
//! request, so the execution never exists without its worker's claim.

use std::sync::Arc;

use flovyn_engine::ids::ExecutionId;
use flovyn_engine::reply::Started;
use flovyn_engine::request::{self, Claimer, Op, ReleaseWorkflowClaim};
use flovyn_engine::{Now, Request};

use crate::job::{Asker, Job};
use crate::scheduler::{FirstStep, Kind};

/// The workers that received the executions which a batch starts, in the order of the starts.
#[derive(Debug)]
pub(crate) struct Takers {
    pub(crate) each: Vec<(ExecutionId, Claimer)>,
    pub(crate) at: Now,
}

impl Takers {
    /// The starts as they are written later: decided with the same time and seed, and claimed in the same request.
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

/// The kind of workflow that a plain start is for. `None` for any other request.
pub(crate) fn kind(job: &Job) -> Option<Kind> {
    match &job.request.op {
        Op::StartWorkflow(start) => Some((job.request.tenant_id, start.kind.clone())),
        _ => None,
    }
}

pub(crate) fn first_step_of(job: &Job, id: ExecutionId) -> Option<FirstStep> {
    match &job.request.op {
        Op::SubmitActivation(step) if step.execution_id == id => Some(FirstStep::Made),
        Op::ReleaseWorkflowClaim(claim) if claim.execution_id == id => Some(FirstStep::Released),
        _ => None,
    }
}

/// The same start, as if no worker had received its execution.
pub(crate) fn anew(request: &Request, seed: u64) -> Arc<Request> {
    Arc::new(Request { provisional: None, seed, ..request.clone() })
}

/// Releases the claim of a start that may have been written, because its worker may have been answered that the
/// execution does not exist. `None` if the start was not claimed, or if this request did not create the execution.
pub(crate) fn release(request: &Request, started: &Started) -> Option<Job> {
    let claimed = request.provisional.is_some() && started.key_new;
    let token = request::Provisional::TOKEN;
    let release = ReleaseWorkflowClaim { execution_id: started.execution_id, token };
    claimed.then(|| Job::new(Request::new(request.tenant_id, 0, release), Asker::None))
}
