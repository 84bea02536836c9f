//! The audit log, who changed what: rows that are written with a change and never changed themselves.

use uuid::Uuid;

use crate::ids::{TenantId, Text};
use crate::state::small_enum;
use crate::table::Row;

small_enum! {
    /// The kind of credential that authenticated the caller.
    CredentialKind {
        WorkerToken = 1 "worker_token",
        Jwt = 2 "jwt",
        ApiKey = 3 "api_key",
    }
}

small_enum! {
    /// The audited action. Starting workflows and creating tasks are not audited: their own rows record them.
    AuditAction {
        WorkflowCancel = 1 "workflow.cancel",
        WorkflowTerminate = 2 "workflow.terminate",
        WorkflowRetry = 3 "workflow.retry",
        WorkflowDelete = 4 "workflow.delete",
        WorkflowSignal = 5 "workflow.signal",
        WorkflowRelease = 6 "workflow.release",
        PromiseResolve = 7 "promise.resolve",
        PromiseReject = 8 "promise.reject",
        TaskCancel = 9 "task.cancel",
        TaskRetry = 10 "task.retry",
        TaskDelete = 11 "task.delete",
        QueuePause = 12 "queue.pause",
        QueueResume = 13 "queue.resume",
        WorkerTokenCreate = 14 "worker_token.create",
        WorkerTokenRevoke = 15 "worker_token.revoke",
        TenantCreate = 16 "tenant.create",
        TenantUpdate = 17 "tenant.update",
        QuotaSet = 18 "quota.set",
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    pub tenant_id: TenantId,
    pub time_ms: i64,
    pub id: Uuid,
    /// The subject of a JWT, the name of an API key, or the id of a worker token.
    pub actor: Text,
    pub credential: CredentialKind,
    pub action: AuditAction,
    /// The id of the changed resource, or the name of a queue.
    pub target: Text,
    /// A small JSON object; never a payload or a secret.
    pub details: Option<Text>,
}

impl Row for AuditEntry {
    /// Sorted by time within a tenant, because entries are read and removed in that order.
    type Key = (TenantId, i64, Uuid);
    const BLIND: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.time_ms, self.id)
    }
}
