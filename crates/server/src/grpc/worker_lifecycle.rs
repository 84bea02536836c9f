//! The service `WorkerLifecycle`.

use flovyn_engine::Reply;
use flovyn_engine::ids::Payload;
use flovyn_engine::request::{Capability, HeartbeatWorker, RegisterWorker};
use flovyn_engine::state::WorkClass;
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
        let name = message.worker_name.clone();
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
        call.registers(&name, worker_id);
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
        self.api.service().worker_was_seen(call.tenant_id(), worker_id);
        Ok(Response::new(()))
    }
}

/// Reads a schema. An empty one means `None`.
pub(super) fn schema(bytes: Payload) -> Option<Payload> {
    (!bytes.is_empty()).then_some(bytes)
}

fn milliseconds(seconds: i32) -> i64 {
    i64::from(seconds).saturating_mul(1_000)
}

/// Registers the worker and returns its id.
pub(super) async fn run(call: &Call, register: RegisterWorker) -> Result<Uuid, Status> {
    match call.run(register).await? {
        Reply::Registered { worker_id } => Ok(worker_id),
        other => Err(unexpected(&other)),
    }
}
