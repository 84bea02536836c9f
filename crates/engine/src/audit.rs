//! The audit log: who changed what. A caller's request adds one entry beside its effect, in the same commit.
//!
//! The entry is derived from the request and its reply. A request that is refused, or that changes nothing, adds none.

use serde_json::{Value, json};

use crate::ids::{TenantId, Text};
use crate::reply::Reply;
use crate::request::{Actor, Answer, KeyedAction, Op};
use crate::rules::Work;
use crate::state::{AuditAction, AuditEntry};

/// Reasons are free text of any length: the audit log keeps the beginning, up to this length.
const MAX_REASON_CHARS: usize = 200;

/// The part of an audit entry that depends on the kind of request.
struct Said {
    action: AuditAction,
    target: Text,
    details: Option<Value>,
}

impl Said {
    fn new(action: AuditAction, target: impl ToString) -> Self {
        Self { action, target: target.to_string().into(), details: None }
    }

    fn with(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }
}

/// Adds the audit entry of a request that was carried out, before its writes are kept.
pub(crate) fn record(work: &mut Work<'_>, op: &Op, actor: &Actor, reply: &Reply) {
    let Some(said) = said(work, op, reply).filter(|_| work.set.is_changed()) else { return };
    let time_ms = work.now.ms;
    let entry = AuditEntry {
        tenant_id: owner(work, reply),
        time_ms,
        id: work.ids.uuid(time_ms),
        actor: actor.subject().clone(),
        credential: actor.credential(),
        action: said.action,
        target: said.target,
        details: said.details.map(|details| details.to_string().into()),
    };
    work.set.audit.put(entry);
}

/// The tenant whose log receives the entry. A new tenant receives the entry of its own creation.
fn owner(work: &Work<'_>, reply: &Reply) -> TenantId {
    match reply {
        Reply::Tenant(tenant) => tenant.id,
        _ => work.tenant_id,
    }
}

/// What the entry says. `None`: the request is not audited. Requests of workers and loops, starts and new tasks are not
/// audited. The match has no wildcard, so that every new request needs a decision here.
fn said(work: &Work<'_>, op: &Op, reply: &Reply) -> Option<Said> {
    use AuditAction::*;
    Some(match op {
        Op::CancelWorkflow(op) => Said::new(WorkflowCancel, op.execution_id)
            .with(json!({ "reason": short(&op.reason), "cascade": op.cascade })),
        Op::TerminateWorkflow(op) => {
            Said::new(WorkflowTerminate, op.execution_id).with(json!({ "reason": short(&op.reason) }))
        }
        Op::RetryWorkflow(op) => {
            let Reply::Started(started) = reply else { return None };
            let details = json!({ "newWorkflowExecutionId": started.execution_id.to_string() });
            Said::new(WorkflowRetry, op.execution_id).with(details)
        }
        Op::DeleteWorkflow(op) => Said::new(WorkflowDelete, op.execution_id),
        Op::SignalWorkflow(op) => {
            Said::new(WorkflowSignal, op.execution_id).with(json!({ "signal": *op.name }))
        }
        Op::SignalWithStart(op) => {
            let Reply::Signalled { execution_id, created, .. } = reply else { return None };
            Said::new(WorkflowSignal, execution_id).with(json!({ "signal": *op.name, "started": created }))
        }
        Op::ActByKey(op) => {
            let Reply::ByKey { execution_id, .. } = reply else { return None };
            let (action, mut details) = match &op.action {
                KeyedAction::Signal { name, .. } => (WorkflowSignal, json!({ "signal": **name })),
                KeyedAction::Cancel { reason, cascade } => {
                    (WorkflowCancel, json!({ "reason": short(reason), "cascade": cascade }))
                }
                KeyedAction::Terminate { reason } => (WorkflowTerminate, json!({ "reason": short(reason) })),
            };
            details["key"] = json!(*op.key);
            Said::new(action, execution_id).with(details)
        }
        Op::ReleaseHeldBack(op) => Said::new(WorkflowRelease, op.execution_id),
        Op::AnswerPromise(op) => {
            // The request may have named the promise by its key, so its id is taken from the row.
            let promise = work.set.promises.written().next()?;
            let details =
                json!({ "workflowExecutionId": promise.execution_id.to_string(), "name": *promise.name });
            let action = match op.answer {
                Answer::Resolve(_) => PromiseResolve,
                Answer::Reject(_) => PromiseReject,
            };
            Said::new(action, promise.id).with(details)
        }
        Op::CancelTask(op) => Said::new(TaskCancel, op.task_id),
        Op::RetryTask(op) => Said::new(TaskRetry, op.task_id),
        Op::DeleteTask(op) => Said::new(TaskDelete, op.task_id),
        Op::PauseQueue(op) => Said::new(QueuePause, &op.queue),
        Op::ResumeQueue(op) => Said::new(QueueResume, &op.queue),
        Op::CreateWorkerToken(_) | Op::RevokeWorkerToken(_) => {
            let Reply::WorkerToken(token) = reply else { return None };
            let revoked = matches!(op, Op::RevokeWorkerToken(_));
            let action = if revoked { WorkerTokenRevoke } else { WorkerTokenCreate };
            Said::new(action, token.id).with(json!({ "name": *token.name }))
        }
        Op::CreateTenant(_) | Op::UpdateTenant(_) => {
            let Reply::Tenant(tenant) = reply else { return None };
            let made = matches!(op, Op::CreateTenant(_));
            let action = if made { TenantCreate } else { TenantUpdate };
            Said::new(action, tenant.id).with(json!({ "slug": *tenant.slug }))
        }
        Op::SetQuota(op) => Said::new(QuotaSet, work.tenant_id).with(json!({
            "monthlyWorkflowRuns": op.monthly_workflow_runs,
            "concurrentWorkflows": op.concurrent_workflows,
            "requestsPerSecond": op.requests_per_second,
            "burst": op.burst,
        })),
        // `flovyn doctor` repairs the database directly: there is no caller to name.
        Op::Mend(_)
        | Op::StartWorkflow(_)
        | Op::StartWorkflows(_)
        | Op::CreateTask(_)
        | Op::CreateTasks(_)
        | Op::Claim(_)
        | Op::ReleaseWorkflowClaim(_)
        | Op::ReleaseTaskClaim(_)
        | Op::SubmitActivation(_)
        | Op::CompleteTask(_)
        | Op::FailTask(_)
        | Op::HeartbeatTask(_)
        | Op::ExtendTask(_)
        | Op::ReportProgress(_)
        | Op::AppendLogLine(_)
        | Op::SetTaskState(_)
        | Op::GetTaskState(_)
        | Op::ListTaskState(_)
        | Op::ClearTaskState(_)
        | Op::ClearAllTaskState(_)
        | Op::RefuseActivation(_)
        | Op::RefuseTaskResult(_)
        | Op::FireDue(_)
        | Op::CleanIdempotencyKeys(_)
        | Op::CleanAudit(_)
        | Op::CheckOrphans(_)
        | Op::RegisterWorker(_)
        | Op::HeartbeatWorker(_)
        | Op::SeeWorker(_)
        | Op::ForgetWorkers(_)
        | Op::TakeRequests(_) => return None,
    })
}

fn short(text: &str) -> String {
    text.chars().take(MAX_REASON_CHARS).collect()
}
