//! Commands of an activation, with one function to build each.

use serde_json::Value;
use uuid::Uuid;

use super::client::json_bytes;

pub(super) const SUSPENDED: i32 = 2;
pub(super) const COMPLETED: i32 = 3;
pub(super) const FAILED: i32 = 5;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SubmitRequest {
    #[prost(string, tag = "1")]
    pub(super) workflow_execution_id: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) commands: Vec<WorkflowCommand>,
    #[prost(int32, tag = "3")]
    pub(super) status: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WorkflowCommand {
    #[prost(int32, tag = "1")]
    pub(super) command_type: i32,
    #[prost(int32, tag = "2")]
    pub(super) sequence_number: i32,
    #[prost(oneof = "CommandData", tags = "10, 11, 12, 13, 14, 15, 16, 18, 20, 21")]
    pub(super) data: Option<CommandData>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum CommandData {
    /// Operations and state: a name and a value.
    #[prost(message, tag = "10")]
    RecordOperation(NameAndValue),
    #[prost(message, tag = "11")]
    SetState(NameAndValue),
    #[prost(message, tag = "12")]
    ClearState(NameOnly),
    #[prost(message, tag = "13")]
    ScheduleTask(ScheduleTask),
    #[prost(message, tag = "14")]
    Complete(ValueOnly),
    #[prost(message, tag = "15")]
    Fail(Fail),
    #[prost(message, tag = "16")]
    Suspend(NameOnly),
    #[prost(message, tag = "18")]
    CreatePromise(CreatePromise),
    #[prost(message, tag = "20")]
    ScheduleChild(ScheduleChild),
    #[prost(message, tag = "21")]
    StartTimer(StartTimer),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NameAndValue {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NameOnly {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ValueOnly {
    #[prost(bytes = "vec", tag = "1")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScheduleTask {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) input: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(super) task_execution_id: String,
    #[prost(int32, optional, tag = "4")]
    pub(super) max_retries: Option<i32>,
    #[prost(int64, optional, tag = "5")]
    pub(super) timeout_ms: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub(super) queue: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Fail {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(string, tag = "2")]
    stack_trace: String,
    #[prost(string, tag = "3")]
    failure_type: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CreatePromise {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, optional, tag = "2")]
    timeout_ms: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScheduleChild {
    #[prost(string, tag = "1")]
    child_execution_name: String,
    #[prost(string, optional, tag = "2")]
    workflow_kind: Option<String>,
    #[prost(string, tag = "4")]
    child_workflow_execution_id: String,
    #[prost(bytes = "vec", tag = "5")]
    input: Vec<u8>,
    #[prost(string, tag = "6")]
    queue: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StartTimer {
    #[prost(string, tag = "1")]
    timer_id: String,
    #[prost(int64, tag = "2")]
    duration_ms: i64,
}

/// Sequence numbers of commands collide and restart in some clients, so the server must not rely on them.
fn command(command_type: i32, data: CommandData) -> WorkflowCommand {
    WorkflowCommand { command_type, sequence_number: 1, data: Some(data) }
}

/// Some clients send this instead of a cancel request: a command without type and content.
pub(super) fn unspecified() -> WorkflowCommand {
    WorkflowCommand::default()
}

pub(super) fn operation(name: &str, result: Value) -> WorkflowCommand {
    command(1, CommandData::RecordOperation(NameAndValue { name: name.into(), value: json_bytes(result) }))
}

pub(super) fn set_state(key: &str, value: Value) -> WorkflowCommand {
    command(2, CommandData::SetState(NameAndValue { name: key.into(), value: json_bytes(value) }))
}

pub(super) fn clear_state(key: &str) -> WorkflowCommand {
    command(3, CommandData::ClearState(NameOnly { name: key.into() }))
}

pub(super) fn task(data: ScheduleTask) -> WorkflowCommand {
    command(4, CommandData::ScheduleTask(data))
}

pub(super) fn schedule(id: Uuid, kind: &str, input: Value) -> WorkflowCommand {
    task(task_data(id, kind, input))
}

pub(super) fn task_data(id: Uuid, kind: &str, input: Value) -> ScheduleTask {
    ScheduleTask {
        kind: kind.into(),
        input: json_bytes(input),
        task_execution_id: id.to_string(),
        ..ScheduleTask::default()
    }
}

pub(super) fn complete(output: Value) -> WorkflowCommand {
    command(5, CommandData::Complete(ValueOnly { value: json_bytes(output) }))
}

pub(super) fn fail(error: &str) -> WorkflowCommand {
    let data = Fail { error: error.into(), stack_trace: String::new(), failure_type: "ERROR".into() };
    command(6, CommandData::Fail(data))
}

pub(super) fn suspend(reason: &str) -> WorkflowCommand {
    command(7, CommandData::Suspend(NameOnly { name: reason.into() }))
}

pub(super) fn promise(name: &str, timeout_ms: Option<i64>) -> WorkflowCommand {
    command(9, CommandData::CreatePromise(CreatePromise { name: name.into(), timeout_ms }))
}

pub(super) fn child(id: Uuid, name: &str, kind: &str, input: Value) -> WorkflowCommand {
    let data = ScheduleChild {
        child_execution_name: name.into(),
        workflow_kind: Some(kind.into()),
        child_workflow_execution_id: id.to_string(),
        input: json_bytes(input),
        queue: String::new(),
    };
    command(11, CommandData::ScheduleChild(data))
}

pub(super) fn timer(id: &str, duration_ms: i64) -> WorkflowCommand {
    command(12, CommandData::StartTimer(StartTimer { timer_id: id.into(), duration_ms }))
}
