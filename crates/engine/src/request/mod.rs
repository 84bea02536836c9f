//! The requests of the engine. Each request is one struct; its rule is in the file of the same name in `rules`.

mod actor;
mod admin;
mod claim;
mod peer;
mod refused;
mod task;
mod workflow;

pub use crate::failure::Failure;
pub use actor::Actor;
pub use admin::*;
pub use claim::*;
pub use peer::Peer;
pub use refused::*;
pub use task::*;
pub use workflow::*;

use std::sync::Arc;

use crate::code::Refusal;
use crate::ids::{Now, TenantId};
use crate::limits::Limits;
use crate::rules::Rule;

/// One request: the tenant, the operation, and a seed for the ids and the jitter that it may need.
#[derive(Debug, Clone)]
pub struct Request {
    pub tenant_id: TenantId,
    pub seed: u64,
    pub op: Op,
    /// The caller that the audit log names. `None` for workers, loops and the server itself: then no entry is
    /// written.
    pub actor: Option<Arc<Actor>>,
    /// The client that sent the request. `None`: the transport cannot tell.
    pub peer: Option<Arc<Peer>>,
    /// Set for a start that a worker received before the start was written.
    pub provisional: Option<Box<Provisional>>,
}

/// How a provisional start was first decided. Deciding it again with these values gives what its worker already
/// received.
#[derive(Debug, Clone)]
pub struct Provisional {
    /// When it was first decided.
    pub at: Now,
    /// The worker that has the execution: it holds the claim from the start on.
    pub taker: Claimer,
}

impl Provisional {
    /// The token of the claim that is created with the start.
    pub const TOKEN: i64 = 1;
}

macro_rules! ops {
    ($($name:ident,)*) => {
        /// Everything the engine can decide.
        #[derive(Debug, Clone)]
        pub enum Op { $($name($name),)* }

        impl Op {
            pub(crate) fn rule(&self) -> &dyn Rule {
                match self { $(Op::$name(op) => op,)* }
            }

            /// Checks that the request is well formed, without looking at the state.
            ///
            /// # Errors
            /// Fails with a refusal that says what is malformed.
            pub fn check(&self, limits: &Limits) -> Result<(), Refusal> {
                self.rule().check(limits)
            }

            /// The name of the request, for logs, metrics and coverage checks.
            pub fn name(&self) -> &'static str {
                match self { $(Op::$name(_) => stringify!($name),)* }
            }

            pub const NAMES: &[&str] = &[$(stringify!($name),)*];
        }

        $(impl From<$name> for Op { fn from(op: $name) -> Self { Op::$name(op) } })*
    };
}

ops! {
    StartWorkflow, StartWorkflows, SignalWorkflow, SignalWithStart, CancelWorkflow, TerminateWorkflow, ActByKey,
    AnswerPromise, Claim, ReleaseWorkflowClaim, ReleaseTaskClaim, SubmitActivation, ReleaseHeldBack,
    RetryWorkflow, DeleteWorkflow,
    CreateTask, CreateTasks, CompleteTask, FailTask, HeartbeatTask, ExtendTask, ReportProgress, AppendLogLine, SetTaskState,
    GetTaskState, ListTaskState, ClearTaskState, ClearAllTaskState, CancelTask, RetryTask, DeleteTask,
    RefuseActivation, RefuseTaskResult,
    FireDue, CleanIdempotencyKeys, CheckOrphans, CleanAudit, Mend,
    CreateTenant, UpdateTenant, CreateWorkerToken, RevokeWorkerToken, RegisterWorker, HeartbeatWorker, SeeWorker,
    ForgetWorkers, PauseQueue, ResumeQueue, SetQuota, TakeRequests,
}

impl Request {
    pub fn new(tenant_id: TenantId, seed: u64, op: impl Into<Op>) -> Self {
        Self { tenant_id, seed, op: op.into(), actor: None, peer: None, provisional: None }
    }

    /// Another request from the same client.
    pub fn with(&self, op: impl Into<Op>) -> Self {
        Self {
            actor: self.actor.clone(),
            peer: self.peer.clone(),
            ..Self::new(self.tenant_id, self.seed, op)
        }
    }

    /// Estimated number of rows that the request will touch, to bound a batch.
    pub fn rows(&self) -> usize {
        match &self.op {
            Op::StartWorkflows(op) => op.items.len() * 5,
            Op::CreateTasks(op) => op.items.len() * 4,
            Op::SubmitActivation(op) => op.rows(),
            Op::CompleteTask(op) => 5 + op.next.as_ref().map_or(0, |next| next.step.rows()),
            Op::Claim(op) => op.max * 3,
            Op::FireDue(op) if op.due.class.is_follow_up() => 4 * crate::limits::FOLLOW_UP_ROWS,
            Op::CleanIdempotencyKeys(op) => op.max,
            Op::CheckOrphans(_) => 20,
            Op::CleanAudit(op) => op.max,
            _ => 5,
        }
    }

    /// Estimated bytes of payload that the request carries, to bound a batch.
    pub fn bytes(&self) -> usize {
        match &self.op {
            Op::StartWorkflow(op) => op.input.len(),
            Op::StartWorkflows(op) => op.items.iter().map(|item| item.input.len()).sum(),
            Op::SignalWorkflow(op) => op.value.len(),
            Op::SignalWithStart(op) => op.value.len() + op.start.input.len(),
            Op::ActByKey(ActByKey { action: KeyedAction::Signal { value, .. }, .. }) => value.len(),
            Op::SubmitActivation(op) => op.bytes(),
            Op::CreateTask(op) => op.spec.input.len(),
            Op::CreateTasks(op) => op.items.iter().map(|item| item.spec.input.len()).sum(),
            Op::CompleteTask(op) => op.output.len() + op.next.as_ref().map_or(0, |next| next.step.bytes()),
            Op::FailTask(op) => op.failure.bytes(),
            Op::SetTaskState(op) => op.value.len(),
            Op::AnswerPromise(op) => match &op.answer {
                Answer::Resolve(value) => value.len(),
                Answer::Reject(error) => error.len(),
            },
            Op::HeartbeatTask(op) => op.details.as_ref().map_or(0, crate::ids::Payload::len),
            _ => 0,
        }
    }
}
