//! The sender of a request.

use std::sync::Arc;

use flovyn_engine::Request;
use flovyn_engine::ids::TenantId;
use flovyn_engine::request::{Actor, Op, Peer};

/// The tenant of a request, and what is known about its sender.
#[derive(Debug, Clone)]
pub struct Caller {
    pub tenant_id: TenantId,
    /// The name for the audit log. `None`: no entry is written.
    pub actor: Option<Arc<Actor>>,
    /// The client, which identifies the reporter if a report has no claim token. `None`: unknown.
    pub peer: Option<Arc<Peer>>,
}

impl From<TenantId> for Caller {
    fn from(tenant_id: TenantId) -> Self {
        Self { tenant_id, actor: None, peer: None }
    }
}

impl Caller {
    pub(crate) fn request(self, seed: u64, op: Op) -> Request {
        Request { actor: self.actor, peer: self.peer, ..Request::new(self.tenant_id, seed, op) }
    }
}
