//! The first frame of a connection: the worker, what it can run, and the claims that it still holds.

use flovyn_engine::Code;
use flovyn_engine::request::{Capability, ClaimKind, RegisterWorker};
use flovyn_engine::state::WorkClass;
use flovyn_proto::v1;
use rustc_hash::FxHashMap;
use tonic::Status;
use uuid::Uuid;

use super::super::convert::{id, queue};
use super::super::status::refuse;
use super::super::worker_lifecycle::schema;

/// The contents of a hello.
#[derive(Debug)]
pub(super) struct Hello {
    pub(super) session: Uuid,
    pub(super) register: RegisterWorker,
    pub(super) workflows: Vec<ClaimKind>,
    pub(super) tasks: Vec<ClaimKind>,
    pub(super) held: FxHashMap<Uuid, i64>,
    pub(super) provisional: bool,
}

pub(super) fn read(frame: &mut v1::WorkerFrame) -> Result<Hello, Status> {
    let hello = frame.hello.take();
    let hello = hello.ok_or_else(|| refuse(Code::NotRegistered, "the first frame has no hello"))?;
    let session = id("session_id", &hello.session_id)?;
    let workflows: Vec<ClaimKind> = hello
        .workflows
        .iter()
        .map(|workflow| ClaimKind {
            kind: workflow.kind.as_str().into(),
            versions: workflow.versions.iter().map(|version| version.as_str().into()).collect(),
            timeout_ms: None,
        })
        .collect();
    let tasks: Vec<ClaimKind> = hello
        .tasks
        .iter()
        .map(|task| ClaimKind {
            kind: task.task_type.as_str().into(),
            versions: Vec::new(),
            timeout_ms: task.timeout_ms,
        })
        .collect();
    let mut held = FxHashMap::default();
    for claim in &hello.held {
        held.insert(id("held.id", &claim.id)?, claim.claim_token);
    }
    let (capabilities, provisional) = (capabilities(&hello), hello.provisional);
    let register = RegisterWorker {
        id: Some(session),
        name: hello.worker_name.into(),
        build_id: hello.build_id.into(),
        host: hello.host_name.into(),
        process_id: hello.process_id.into(),
        queue: Some(queue(&hello.queue)),
        capabilities,
        session: true,
    };
    Ok(Hello { session, register, workflows, tasks, held, provisional })
}

fn capabilities(hello: &v1::StreamHello) -> Vec<Capability> {
    let mut all = Vec::new();
    for workflow in &hello.workflows {
        let one = |version: Option<&String>| Capability {
            class: WorkClass::Workflow,
            kind: workflow.kind.as_str().into(),
            version: version.map(|version| version.as_str().into()),
            timeout_ms: None,
            input_schema: schema(workflow.input_schema.clone()),
            output_schema: schema(workflow.output_schema.clone()),
        };
        if workflow.versions.is_empty() {
            all.push(one(None));
        }
        all.extend(workflow.versions.iter().map(|version| one(Some(version))));
    }
    all.extend(hello.tasks.iter().map(|task| Capability {
        class: WorkClass::Task,
        kind: task.task_type.as_str().into(),
        version: None,
        timeout_ms: task.timeout_ms,
        input_schema: schema(task.input_schema.clone()),
        output_schema: schema(task.output_schema.clone()),
    }));
    all
}
