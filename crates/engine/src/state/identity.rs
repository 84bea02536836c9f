//! Tenants, worker tokens, workers and what they can do, paused queues.

use uuid::Uuid;

use crate::ids::{Payload, TenantId, Text, WorkerId};
use crate::state::WorkClass;
use crate::table::Row;

#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    pub id: TenantId,
    pub version: i64,
    pub slug: Text,
    pub name: Text,
    pub created_ms: i64,
    /// How long finished executions and tasks are kept. `None`: without a limit.
    pub retention_ms: Option<i64>,
}

impl Row for Tenant {
    type Key = (TenantId,);
    const LOCKED: bool = true;
    fn key(&self) -> Self::Key {
        (self.id,)
    }
    fn version(&self) -> Option<i64> {
        Some(self.version)
    }

    fn version_mut(&mut self) -> Option<&mut i64> {
        Some(&mut self.version)
    }
}

/// A credential for workers. Only its hash is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerToken {
    pub tenant_id: TenantId,
    pub id: Uuid,
    pub version: i64,
    pub name: Text,
    pub hash: Payload,
    pub created_ms: i64,
    pub expires_ms: Option<i64>,
    pub revoked_ms: Option<i64>,
}

impl Row for WorkerToken {
    type Key = (TenantId, Uuid);
    const LOCKED: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.id)
    }
    fn version(&self) -> Option<i64> {
        Some(self.version)
    }

    fn version_mut(&mut self) -> Option<&mut i64> {
        Some(&mut self.version)
    }
}

/// A worker process, or one session of it. Its heartbeats keep its claims alive.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    pub tenant_id: TenantId,
    pub id: WorkerId,
    pub version: i64,
    pub name: Text,
    pub build_id: Text,
    pub host: Text,
    pub process_id: Text,
    pub queue: Option<Text>,
    pub registered_ms: i64,
    /// When it last showed life by a heartbeat, a poll or a report. On the clock of leases.
    pub last_heartbeat_ms: i64,
    /// It has sent a heartbeat since it registered. From then on, silence means that it is gone.
    pub heartbeats: bool,
    /// Claims of this session hold until this time. `None` for workers of the plain public protocol.
    pub lease_until_ms: Option<i64>,
}

impl Row for Worker {
    type Key = (TenantId, WorkerId);
    const LOCKED: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.id)
    }
    fn version(&self) -> Option<i64> {
        Some(self.version)
    }

    fn version_mut(&mut self) -> Option<&mut i64> {
        Some(&mut self.version)
    }
}

/// A workflow kind or a task type that a worker can run.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerCapability {
    pub tenant_id: TenantId,
    pub worker_id: WorkerId,
    pub class: WorkClass,
    pub kind: Text,
    /// Empty if the worker named no version.
    pub kind_version: Text,
    pub timeout_ms: Option<i64>,
    pub input_schema: Option<Payload>,
    pub output_schema: Option<Payload>,
}

impl Row for WorkerCapability {
    type Key = (TenantId, WorkerId, WorkClass, Text, Text);
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.worker_id, self.class, self.kind.clone(), self.kind_version.clone())
    }
}

/// A paused queue: its work is not handed out. A queue that is not paused has no row.
#[derive(Debug, Clone, PartialEq)]
pub struct PausedQueue {
    pub tenant_id: TenantId,
    pub name: Text,
    pub paused_ms: i64,
}

impl Row for PausedQueue {
    type Key = (TenantId, Text);
    const BLIND: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.name.clone())
    }
}
