//! For every rpc, requests that name a tenant's resources in every id field.

mod workers;
mod workflows;

use std::sync::atomic::{AtomicU64, Ordering};

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use prost::Message;
use tonic::Code;
use uuid::Uuid;

use super::messages::Messages;
use super::world::Ids;

pub(super) use workers::hello;

/// The expected outcome of a request that names another tenant's resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// They are not found.
    Missing,
    /// The request concerns the caller's own tenant, or no tenant. It may succeed, but must reveal nothing of other
    /// tenants.
    Own,
}

pub(super) struct Entry {
    pub(super) path: &'static str,
    pub(super) foreign: Foreign,
    /// The expected status for the owner of the ids.
    pub(super) control: Code,
    pub(super) frames: fn(&Ids) -> Vec<Vec<u8>>,
}

/// An entry. The closure builds its request.
macro_rules! rpc {
    ($path:literal, $foreign:ident, |$ids:ident| $message:expr) => {
        rpc!($path, $foreign, Ok, |$ids| $message)
    };
    ($path:literal, $foreign:ident, $control:ident, |$ids:ident| $message:expr) => {
        $crate::access::table::Entry {
            path: concat!("/flovyn.v1.", $path),
            foreign: $crate::access::table::Foreign::$foreign,
            control: tonic::Code::$control,
            frames: |$ids| vec![prost::Message::encode_to_vec(&$message)],
        }
    };
}
use rpc;

pub(super) fn entries() -> Vec<Entry> {
    [workflows::entries(), workers::entries()].into_iter().flatten().collect()
}

/// An id that nothing in this process has yet.
pub(super) fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    Uuid::from_u128(0x0190_0000_0000_7000_8001_0000_0000_0000 | u128::from(next)).to_string()
}

/// A command with this content.
pub(super) fn command(data: CommandData) -> v1::WorkflowCommand {
    // The type is left at UNSPECIFIED, which is allowed with every content.
    v1::WorkflowCommand { command_data: Some(data), ..v1::WorkflowCommand::default() }
}

/// A batch with every command that contains an id.
pub(super) fn submit(ids: &Ids) -> v1::SubmitWorkflowCommandsRequest {
    let commands = vec![
        CommandData::ScheduleTask(v1::ScheduleTaskCommand {
            kind: "more".into(),
            task_execution_id: new_id(),
            ..v1::ScheduleTaskCommand::default()
        }),
        CommandData::CancelTask(v1::CancelTaskCommand { task_execution_id: ids.task.clone() }),
        CommandData::ResolvePromise(v1::ResolvePromiseCommand {
            promise_id: ids.promise.clone(),
            value: "1".into(),
        }),
        CommandData::ScheduleChildWorkflow(v1::ScheduleChildWorkflowCommand {
            child_execution_name: "second".into(),
            workflow_kind: Some("child".into()),
            child_workflow_execution_id: new_id(),
            ..v1::ScheduleChildWorkflowCommand::default()
        }),
        CommandData::RequestCancelChildWorkflow(v1::RequestCancelChildWorkflowCommand {
            child_execution_name: "child".into(),
            child_workflow_execution_id: ids.child.clone(),
            reason: "why".into(),
        }),
    ];
    v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: ids.execution.clone(),
        commands: commands.into_iter().map(command).collect(),
        status: v1::WorkflowStatus::Suspended.into(),
        claim_token: Some(ids.execution_token),
        ..v1::SubmitWorkflowCommandsRequest::default()
    }
}

/// Only these methods may be silent while they send.
#[test]
fn methods_that_take_a_stream_are_known_to_the_limit_on_silence() {
    let set = prost_types::FileDescriptorSet::decode(flovyn_proto::DESCRIPTORS).unwrap();
    let mut streams: Vec<String> = Vec::new();
    for file in set.file {
        for service in &file.service {
            let name = format!("/{}.{}", file.package(), service.name());
            let methods = service.method.iter().filter(|method| method.client_streaming());
            streams.extend(methods.map(|method| format!("{name}/{}", method.name())));
        }
    }
    streams.sort();
    let known = flovyn_server::grpc::CLIENT_STREAMS.iter().filter(|path| !path.starts_with("/grpc."));
    assert_eq!(streams, known.copied().collect::<Vec<_>>());
    assert!(!streams.is_empty());
}

#[test]
fn the_table_has_every_rpc_and_every_id_field_of_each() {
    let messages = Messages::load();
    let text = |name: &str| format!("{name}-1");
    let ids = Ids {
        org: text("org"),
        execution: text("execution"),
        execution_token: 1,
        task: text("task"),
        task_token: 1,
        promise: text("promise"),
        child: text("child"),
        worker: text("worker"),
        session: text("session"),
    };
    let entries = entries();
    for (path, input) in &messages.methods {
        let own: Vec<&Entry> = entries.iter().filter(|entry| entry.path == path).collect();
        assert!(!own.is_empty(), "no entry in the table for {path}: add a request with all id fields");
        let frames = own.iter().flat_map(|entry| (entry.frames)(&ids));
        let set: Vec<String> =
            frames.flat_map(|bytes| messages.places(path, &bytes)).map(|place| place.path).collect();
        for wanted in messages.id_paths(input) {
            assert!(set.contains(&wanted), "the entries of {path} leave the id field {wanted} empty");
        }
    }
    for entry in &entries {
        assert!(
            messages.methods.contains_key(entry.path),
            "{} is in the table, but there is no such rpc",
            entry.path
        );
    }
    assert!(v1::WorkerFrame::default().encode_to_vec().is_empty());
}
