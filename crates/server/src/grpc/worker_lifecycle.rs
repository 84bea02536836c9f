//! The service `WorkerLifecycle`.

use flovyn_engine::Reply;
use flovyn_engine::ids::{Payload, Text};
use flovyn_engine::request::{Capability, HeartbeatWorker, RegisterWorker, ReleaseForBuild};
use flovyn_engine::state::{Lane, WorkClass};
use flovyn_proto::v1;
use flovyn_proto::v1::worker_lifecycle_server::WorkerLifecycle;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::call::{Call, Needs};
use super::convert::{id, non_empty};
use super::status::unexpected;
use crate::api::Api;

#[derive(Debug)]
pub(super) struct Workers {
    api: Api,
}

impl Workers {
    pub(super) fn new(api: Api) -> Self {
        Self { api }
    }
}

#[tonic::async_trait]
impl WorkerLifecycle for Workers {
    async fn register_worker(
        &self,
        request: Request<v1::WorkerRegistrationRequest>,
    ) -> Result<Response<v1::WorkerRegistrationResponse>, Status> {
        let call = Call::begin(&self.api, &request, Needs::Worker, &request.get_ref().org_id).await?;
        let message = request.into_inner();
        let workflows = message.workflows.into_iter().map(|capability| Capability {
            class: WorkClass::Workflow,
            version: non_empty(&capability.version),
            kind: capability.kind.into(),
            timeout_ms: capability.timeout_seconds.map(milliseconds),
            input_schema: schema(capability.input_schema),
            output_schema: schema(capability.output_schema),
        });
        let tasks = message.tasks.into_iter().map(|capability| Capability {
            class: WorkClass::Task,
            kind: capability.kind.into(),
            version: None,
            timeout_ms: capability.timeout_seconds.map(milliseconds),
            input_schema: schema(capability.input_schema),
            output_schema: schema(capability.output_schema),
        });
        let register = RegisterWorker {
            id: None,
            name: message.worker_name.into(),
            build_id: message.worker_version.into(),
            host: message.host_name.into(),
            process_id: message.process_id.into(),
            queue: None,
            capabilities: workflows.chain(tasks).collect(),
            session: false,
        };
        let worker_id = run(&call, register).await?;
        Ok(Response::new(v1::WorkerRegistrationResponse {
            worker_id: worker_id.to_string(),
            success: true,
            ..v1::WorkerRegistrationResponse::default()
        }))
    }

    async fn send_heartbeat(
        &self,
        request: Request<v1::WorkerHeartbeatRequest>,
    ) -> Result<Response<()>, Status> {
        let call = Call::begin(&self.api, &request, Needs::Worker, "").await?;
        let worker_id = id("worker_id", &request.get_ref().worker_id)?;
        call.run(HeartbeatWorker { worker_id }).await?;
        Ok(Response::new(()))
    }
}

/// An empty schema is none.
pub(super) fn schema(bytes: Payload) -> Option<Payload> {
    (!bytes.is_empty()).then_some(bytes)
}

fn milliseconds(seconds: i32) -> i64 {
    i64::from(seconds).saturating_mul(1_000)
}

/// Executions that a new build looks at.
const MAX_RELEASED: usize = 1_000;

/// Registers, and lets a new build try what other builds failed on.
pub(super) async fn run(call: &Call, register: RegisterWorker) -> Result<Uuid, Status> {
    let (build_id, queue) = (register.build_id.clone(), register.queue.clone());
    let workflows = register.capabilities.iter().filter(|capability| capability.class == WorkClass::Workflow);
    let lanes: Vec<Lane> =
        workflows.flat_map(|capability| held_back(call, capability, queue.as_ref())).collect();
    let worker_id = match call.run(register).await? {
        Reply::Registered { worker_id } => worker_id,
        other => return Err(unexpected(&other)),
    };
    if !build_id.is_empty() && !lanes.is_empty() {
        // What is held back goes on by itself when its time comes: a failure here only delays it.
        if let Err(status) = call.run(ReleaseForBuild { build_id, lanes, max: MAX_RELEASED }).await {
            tracing::warn!(%status, "held-back executions were not offered to a new build");
        }
    }
    Ok(worker_id)
}

/// Where executions of this kind wait after failed activations. A worker that names no queue is taken to serve the
/// default one.
fn held_back(call: &Call, capability: &Capability, queue: Option<&Text>) -> Vec<Lane> {
    let lane = |version: Text| Lane {
        tenant_id: call.tenant_id(),
        class: WorkClass::HeldBack,
        queue: queue.cloned().unwrap_or_else(|| super::convert::DEFAULT_QUEUE.into()),
        kind: capability.kind.clone(),
        version,
    };
    let versions = [Some(Text::default()), capability.version.clone()];
    versions.into_iter().flatten().map(lane).collect()
}
