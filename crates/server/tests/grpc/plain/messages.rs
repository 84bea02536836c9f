//! Messages with the field numbers of PROTOCOL.md section 3. Only public fields (below 100), so that a changed number
//! is noticed.

use std::collections::HashMap;

/// Defines messages whose fields are visible to the tests.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $(#[$meta:meta] $field:ident: $type:ty,)* })*) => {
        $($(#[$doc])* #[derive(Clone, PartialEq, prost::Message)]
        pub(super) struct $name { $(#[$meta] pub(super) $field: $type,)* })*
    };
}

messages! {
    PollRequest {
        #[prost(string, tag = "1")] worker_id: String,
        #[prost(string, tag = "2")] org_id: String,
        #[prost(string, tag = "3")] queue: String,
        #[prost(int64, tag = "4")] timeout_seconds: i64,
        #[prost(string, repeated, tag = "6")] workflow_capabilities: Vec<String>,
    }
    PollResponse {
        #[prost(message, optional, tag = "1")] workflow_execution: Option<WorkflowExecution>,
        #[prost(string, tag = "2")] traceparent: String,
    }
    WorkflowExecution {
        #[prost(string, tag = "1")] id: String,
        #[prost(string, tag = "2")] kind: String,
        #[prost(string, tag = "3")] org_id: String,
        #[prost(bytes = "vec", tag = "4")] input: Vec<u8>,
        #[prost(string, tag = "5")] queue: String,
        #[prost(int64, tag = "6")] priority_ms: i64,
        #[prost(int64, tag = "7")] created_at_ms: i64,
        #[prost(int32, tag = "8")] current_sequence: i32,
        #[prost(string, optional, tag = "12")] workflow_version: Option<String>,
        #[prost(int64, tag = "14")] workflow_task_time_millis: i64,
    }
    StartWorkflowRequest {
        #[prost(string, tag = "1")] org_id: String,
        #[prost(string, tag = "2")] workflow_kind: String,
        #[prost(bytes = "vec", tag = "3")] input: Vec<u8>,
        #[prost(map = "string, string", tag = "4")] metadata: HashMap<String, String>,
        #[prost(string, tag = "5")] queue: String,
        #[prost(int32, tag = "6")] priority_seconds: i32,
        #[prost(string, optional, tag = "9")] workflow_version: Option<String>,
        #[prost(string, optional, tag = "10")] idempotency_key: Option<String>,
        #[prost(int64, optional, tag = "11")] idempotency_key_ttl_seconds: Option<i64>,
    }
    StartWorkflowResponse {
        #[prost(string, tag = "1")] workflow_execution_id: String,
        #[prost(bool, tag = "2")] idempotency_key_used: bool,
        #[prost(bool, tag = "3")] idempotency_key_new: bool,
    }
    ResolvePromiseRequest {
        #[prost(string, tag = "1")] promise_id: String,
        #[prost(bytes = "vec", tag = "2")] value: Vec<u8>,
    }
    RejectPromiseRequest {
        #[prost(string, tag = "1")] promise_id: String,
        #[prost(string, tag = "2")] error: String,
    }
    SignalWithStartRequest {
        #[prost(string, tag = "1")] org_id: String,
        #[prost(string, tag = "2")] workflow_id: String,
        #[prost(string, tag = "3")] workflow_kind: String,
        #[prost(bytes = "vec", tag = "4")] workflow_input: Vec<u8>,
        #[prost(string, tag = "5")] queue: String,
        #[prost(string, tag = "9")] signal_name: String,
        #[prost(bytes = "vec", tag = "10")] signal_value: Vec<u8>,
    }
    SignalWithStartResponse {
        #[prost(string, tag = "1")] workflow_execution_id: String,
        #[prost(bool, tag = "2")] workflow_created: bool,
        #[prost(int64, tag = "3")] signal_event_sequence: i64,
    }
    SignalWorkflowRequest {
        #[prost(string, tag = "1")] org_id: String,
        #[prost(string, tag = "2")] workflow_execution_id: String,
        #[prost(string, tag = "3")] signal_name: String,
        #[prost(bytes = "vec", tag = "4")] signal_value: Vec<u8>,
    }
    SignalWorkflowResponse {
        #[prost(int64, tag = "1")] signal_event_sequence: i64,
    }
    GetEventsRequest {
        #[prost(string, tag = "1")] workflow_execution_id: String,
    }
    GetEventsResponse {
        #[prost(message, repeated, tag = "1")] events: Vec<WorkflowEvent>,
    }
    WorkflowEvent {
        #[prost(int32, tag = "1")] sequence_number: i32,
        #[prost(string, tag = "2")] event_type: String,
        #[prost(bytes = "vec", tag = "3")] event_data: Vec<u8>,
    }
    QueryWorkflowRequest {
        #[prost(string, tag = "1")] workflow_execution_id: String,
        #[prost(string, tag = "2")] query_name: String,
        #[prost(bytes = "vec", tag = "3")] params: Vec<u8>,
    }
    QueryWorkflowResponse {
        #[prost(bytes = "vec", tag = "1")] result: Vec<u8>,
        #[prost(string, optional, tag = "2")] error: Option<String>,
    }
    SubmitTaskRequest {
        #[prost(string, tag = "1")] workflow_execution_id: String,
        #[prost(string, tag = "2")] org_id: String,
        #[prost(string, tag = "3")] kind: String,
        #[prost(bytes = "vec", tag = "4")] input: Vec<u8>,
        #[prost(int32, tag = "6")] max_retries: i32,
        #[prost(int64, tag = "7")] timeout_ms: i64,
        #[prost(string, optional, tag = "8")] idempotency_key: Option<String>,
        #[prost(string, tag = "10")] queue: String,
    }
    SubmitTaskResponse {
        #[prost(string, tag = "1")] task_execution_id: String,
        #[prost(bool, tag = "2")] idempotency_key_used: bool,
        #[prost(bool, tag = "3")] idempotency_key_new: bool,
    }
    PollTaskRequest {
        #[prost(string, tag = "1")] worker_id: String,
        #[prost(string, tag = "2")] org_id: String,
        #[prost(int64, tag = "4")] timeout_seconds: i64,
        #[prost(string, tag = "5")] queue: String,
    }
    PollTaskResponse {
        #[prost(message, optional, tag = "1")] task: Option<TaskExecutionInfo>,
    }
    TaskExecutionInfo {
        #[prost(string, tag = "1")] task_execution_id: String,
        #[prost(string, tag = "2")] kind: String,
        #[prost(bytes = "vec", tag = "3")] input: Vec<u8>,
        #[prost(string, tag = "4")] workflow_execution_id: String,
        #[prost(int32, tag = "5")] execution_count: i32,
        #[prost(string, tag = "6")] queue: String,
    }
    CompleteTaskRequest {
        #[prost(string, tag = "1")] task_execution_id: String,
        #[prost(bytes = "vec", tag = "2")] output: Vec<u8>,
    }
    FailTaskRequest {
        #[prost(string, tag = "1")] task_execution_id: String,
        #[prost(string, tag = "2")] error: String,
    }
    /// GetState and ClearState use the same request.
    StateKeyRequest {
        #[prost(string, tag = "1")] task_execution_id: String,
        #[prost(string, tag = "2")] key: String,
    }
    GetStateResponse {
        #[prost(bytes = "vec", tag = "1")] value: Vec<u8>,
        #[prost(bool, tag = "2")] found: bool,
    }
    SetStateRequest {
        #[prost(string, tag = "1")] task_execution_id: String,
        #[prost(string, tag = "2")] key: String,
        #[prost(bytes = "vec", tag = "3")] value: Vec<u8>,
    }
    /// Requests that name only a task.
    TaskRequest {
        #[prost(string, tag = "1")] task_execution_id: String,
    }
    GetStateKeysResponse {
        #[prost(string, repeated, tag = "1")] keys: Vec<String>,
    }
    WorkerRegistrationRequest {
        #[prost(string, tag = "1")] worker_name: String,
        #[prost(string, tag = "2")] worker_version: String,
        #[prost(string, tag = "3")] worker_type: String,
        #[prost(string, tag = "4")] org_id: String,
        #[prost(string, tag = "6")] host_name: String,
        #[prost(string, tag = "7")] process_id: String,
        #[prost(message, repeated, tag = "8")] workflows: Vec<WorkflowCapability>,
        #[prost(message, repeated, tag = "9")] tasks: Vec<TaskCapability>,
    }
    WorkflowCapability {
        #[prost(string, tag = "1")] kind: String,
        #[prost(string, tag = "2")] name: String,
        #[prost(string, tag = "9")] version: String,
        #[prost(string, tag = "10")] content_hash: String,
    }
    TaskCapability {
        #[prost(string, tag = "1")] kind: String,
        #[prost(string, tag = "2")] name: String,
    }
    WorkerRegistrationResponse {
        #[prost(string, tag = "1")] worker_id: String,
        #[prost(bool, tag = "2")] success: bool,
        #[prost(string, optional, tag = "3")] error: Option<String>,
    }
    WorkerHeartbeatRequest {
        #[prost(string, tag = "1")] worker_id: String,
    }
}
