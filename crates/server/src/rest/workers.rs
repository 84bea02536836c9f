//! Known workers and what they can run.

use std::collections::BTreeMap;

use axum::Json;
use flovyn_engine::state::{self, WorkClass, WorkerCapability};
use flovyn_rest_types::{Definition, Definitions, Worker, Workers};

use super::access::Caller;
use super::body::json;
use super::error::RestError;

/// List workers
#[utoipa::path(
    get,
    path = "/workers",
    operation_id = "listWorkers",
    tag = "Workers",
    responses((status = 200, description = "The known workers", body = Workers)),
)]
pub(super) async fn list(caller: Caller) -> Result<Json<Workers>, RestError> {
    let rows = caller.store().worker_list(caller.tenant_id()).await?;
    let now_ms = caller.store().now().await?.lease_ms;
    let silence_ms = caller.api().service().limits().worker_silence_ms;
    let info = |(worker, can): &(state::Worker, Vec<WorkerCapability>)| {
        let until_ms = worker.lease_until_ms.unwrap_or(worker.last_heartbeat_ms.saturating_add(silence_ms));
        Worker {
            id: worker.id.to_string(),
            name: worker.name.to_string(),
            build_id: worker.build_id.to_string(),
            host: worker.host.to_string(),
            process_id: worker.process_id.to_string(),
            task_queue: worker.queue.as_deref().map(str::to_owned),
            registered_ms: worker.registered_ms,
            last_heartbeat_ms: worker.last_heartbeat_ms,
            alive: until_ms > now_ms,
            workflows: kinds(can, WorkClass::Workflow),
            tasks: kinds(can, WorkClass::Task),
        }
    };
    Ok(Json(Workers { workers: rows.iter().map(info).collect() }))
}

fn kinds(can: &[WorkerCapability], class: WorkClass) -> Vec<String> {
    can.iter().filter(|one| one.class == class).map(|one| one.kind.to_string()).collect()
}

/// List definitions
///
/// The definitions that the known workers have registered.
#[utoipa::path(
    get,
    path = "/definitions",
    operation_id = "listDefinitions",
    tag = "Workers",
    responses((status = 200, description = "Kinds of workflows and types of tasks", body = Definitions)),
)]
pub(super) async fn definitions(caller: Caller) -> Result<Json<Definitions>, RestError> {
    let rows = caller.store().worker_list(caller.tenant_id()).await?;
    let of = |class: WorkClass| {
        let mut found: BTreeMap<String, Definition> = BTreeMap::new();
        for (_, can) in &rows {
            for one in can.iter().filter(|one| one.class == class) {
                let kind = one.kind.to_string();
                let entry = found.entry(kind.clone()).or_insert(Definition { kind, ..Definition::default() });
                entry.workers += 1;
                entry.input_schema = one.input_schema.as_deref().and_then(json);
                entry.output_schema = one.output_schema.as_deref().and_then(json);
                let version = one.kind_version.to_string();
                if !version.is_empty() && !entry.versions.contains(&version) {
                    entry.versions.push(version);
                }
            }
        }
        found.into_values().collect()
    };
    Ok(Json(Definitions { workflows: of(WorkClass::Workflow), tasks: of(WorkClass::Task) }))
}
