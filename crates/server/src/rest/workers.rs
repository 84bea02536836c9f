//! Workers that are known, and what they can run.

use std::collections::BTreeMap;

use axum::Json;
use flovyn_engine::state::{WorkClass, Worker, WorkerCapability};
use serde::Serialize;
use serde_json::value::RawValue;

use super::access::Caller;
use super::body::json;
use super::error::RestError;
use super::times::iso;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkerInfo {
    id: String,
    name: String,
    build_id: String,
    host: String,
    process_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_queue: Option<String>,
    registered_at: String,
    last_heartbeat_at: String,
    alive: bool,
    workflows: Vec<String>,
    tasks: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct WorkerList {
    workers: Vec<WorkerInfo>,
}

pub(super) async fn list(caller: Caller) -> Result<Json<WorkerList>, RestError> {
    let rows = caller.store().worker_list(caller.tenant_id()).await?;
    let now_ms = caller.store().now().await?.lease_ms;
    let silence_ms = caller.api().service().limits().worker_silence_ms;
    let info = |(worker, can): &(Worker, Vec<WorkerCapability>)| {
        let until_ms = worker.lease_until_ms.unwrap_or(worker.last_heartbeat_ms.saturating_add(silence_ms));
        WorkerInfo {
            id: worker.id.to_string(),
            name: worker.name.to_string(),
            build_id: worker.build_id.to_string(),
            host: worker.host.to_string(),
            process_id: worker.process_id.to_string(),
            task_queue: worker.queue.as_deref().map(str::to_owned),
            registered_at: iso(worker.registered_ms),
            last_heartbeat_at: iso(worker.last_heartbeat_ms),
            alive: until_ms > now_ms,
            workflows: kinds(can, WorkClass::Workflow),
            tasks: kinds(can, WorkClass::Task),
        }
    };
    Ok(Json(WorkerList { workers: rows.iter().map(info).collect() }))
}

fn kinds(can: &[WorkerCapability], class: WorkClass) -> Vec<String> {
    can.iter().filter(|one| one.class == class).map(|one| one.kind.to_string()).collect()
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Definition {
    kind: String,
    versions: Vec<String>,
    workers: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Definitions {
    workflows: Vec<Definition>,
    tasks: Vec<Definition>,
}

/// What the workers that are known have registered.
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
