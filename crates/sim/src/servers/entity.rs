//! Callers of entities: each request goes to the open execution of a key. If none is open, one is started.

use std::sync::Arc;

use flovyn_engine::Reply;
use flovyn_engine::ids::TenantId;
use flovyn_engine::request::{KeySpec, SignalWithStart, StartWorkflow};
use serde_json::json;

use super::program::{self, KIND, QUEUE, REQUEST};
use super::server::{Answer, Cluster};

/// Entities of each tenant.
const ENTITIES: usize = 2;
/// Shorter than the life of an entity, so that the key must outlast this time.
const TTL_MS: i64 = 1_000;

pub(super) struct Caller {
    pub(super) cluster: Arc<Cluster>,
    pub(super) number: usize,
    pub(super) tenants: Vec<TenantId>,
}

impl Caller {
    pub(super) async fn run(self, requests: usize) {
        let world = self.cluster.world.clone();
        for request in 0..requests {
            world.sleep(world.below(1_200)).await;
            let tenant = self.tenants[world.below(self.tenants.len())];
            let name = format!("entity-{}", world.below(ENTITIES));
            let text = format!("request-{}-{request}", self.number);
            let mut start = StartWorkflow::new(KIND, QUEUE, program::entity(&name));
            start.key = Some(KeySpec { name: name.into(), ttl_ms: Some(TTL_MS) });
            let signal = SignalWithStart { start, name: REQUEST.into(), value: program::bytes(&json!(text)) };
            // Tried once: a request without an answer may have been accepted.
            let answer = self.cluster.call(tenant, signal.into(), false).await;
            if let Answer::Reply(Reply::Signalled { execution_id, .. }) = answer {
                world.lock().record.requests.insert(((tenant, execution_id), text));
            }
        }
    }
}
