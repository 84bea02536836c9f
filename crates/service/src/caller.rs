//! Who asks the service for something.

use std::sync::Arc;

use flovyn_engine::Request;
use flovyn_engine::ids::TenantId;
use flovyn_engine::request::{Actor, Op, Peer};

/// A tenant, and what is known of whoever acts for it.
#[derive(Debug, Clone)]
pub struct Caller {
    pub tenant_id: TenantId,
    /// Named in the audit log. `None`: nothing is written there.
    pub actor: Option<Arc<Actor>>,
    /// The client, for reports without a claim token. `None`: unknown.
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
