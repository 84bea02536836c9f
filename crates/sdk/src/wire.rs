//! Between the protocol and this crate's own types. The only place that knows both.

use std::time::Duration;

use bytes::Bytes;
use flovyn_proto::v1;
use flovyn_proto::v1::CommandType;
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::Value;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;
use tonic::{Request, Status};

use crate::error::{Error, Failure, PLAIN, Result};
use crate::reason::reason;
use crate::replay::event::usual_origin;
use crate::replay::{Command, LogEvent, Origin, Outcome, RetryPolicy};
use crate::tls::Tls;

/// Content of one frame: well below the 4 MiB that the server takes.
pub(crate) const MAX_FRAME_BYTES: usize = 2 << 20;

/// Clients ping as often while nothing happens, so that a dead connection is noticed.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Metadata key under which every error of a server carries its stable code.
pub(crate) const ERROR_CODE: &str = "flovyn-error-code";

/// A connection and the credential that goes with every call. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    transport: tonic::transport::Channel,
    credential: MetadataValue<Ascii>,
}

impl Channel {
    /// Connects when it is first used, and again whenever the connection has broken.
    pub(crate) fn lazy(url: &str, token: &str, tls: Option<&Tls>) -> Result<Self> {
        let endpoint =
            Endpoint::from_shared(url.to_owned()).map_err(|error| no_url(url, &error.to_string()))?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_WITHIN)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN)
            .keep_alive_while_idle(true);
        let endpoint = match (endpoint.uri().scheme_str(), tls) {
            (Some("https"), Some(tls)) => tls.apply(endpoint)?,
            (Some("https"), None) => Tls::new().apply(endpoint)?,
            (Some("http"), None) => endpoint,
            (Some("http"), Some(_)) => {
                let message = format!("TLS is configured, but {url:?} begins with http://: write https://");
                return Err(Error::failed(message));
            }
            _ => return Err(no_url(url, "it begins with neither http:// nor https://")),
        };
        let credential = format!("Bearer {token}").parse();
        let credential =
            credential.map_err(|_| Error::failed("the token has characters that no token has"))?;
        Ok(Self { transport: endpoint.connect_lazy(), credential })
    }

    pub(crate) fn transport(&self) -> tonic::transport::Channel {
        self.transport.clone()
    }

    pub(crate) fn signed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.credential.clone());
        request
    }
}

fn no_url(url: &str, why: &str) -> Error {
    Error::failed(format!("{url:?} is no URL: {why}; use for example http://localhost:9090"))
}

pub(crate) fn refused(status: Status) -> Error {
    let code = status.metadata().get(ERROR_CODE).and_then(|value| value.to_str().ok());
    Error::Server {
        code: code.map_or_else(|| format!("{:?}", status.code()), str::to_owned),
        message: reason(&status),
    }
}

pub(crate) fn json(bytes: &[u8]) -> Result<Value> {
    if bytes.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_slice(bytes)?) }
}

pub(crate) fn json_bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

pub(crate) fn event(event: &v1::WorkflowEvent) -> Result<LogEvent> {
    let origin = match event.origin() {
        v1::EventOrigin::Command => Origin::Command,
        v1::EventOrigin::External => Origin::External,
        v1::EventOrigin::Unspecified => usual_origin(&event.event_type),
    };
    Ok(LogEvent {
        sequence: event.sequence_number.into(),
        kind: event.event_type.clone(),
        origin,
        time_ms: event.timestamp_ms,
        data: json(&event.event_data)?,
    })
}

pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn retry_policy(retry: RetryPolicy) -> v1::RetryPolicy {
    v1::RetryPolicy {
        initial_ms: milliseconds(retry.initial),
        factor: retry.factor,
        cap_ms: milliseconds(retry.cap),
    }
}

fn message(kind: CommandType, data: CommandData) -> v1::WorkflowCommand {
    v1::WorkflowCommand { command_type: kind.into(), sequence_number: 0, command_data: Some(data) }
}

pub(crate) fn command(command: Command) -> v1::WorkflowCommand {
    match command {
        Command::RecordOperation { name, result } => message(
            CommandType::RecordOperation,
            CommandData::RecordOperation(v1::RecordOperationCommand {
                operation_name: name,
                result: json_bytes(&result),
            }),
        ),
        Command::SetState { key, value } => message(
            CommandType::SetState,
            CommandData::SetState(v1::SetStateCommand { key, value: json_bytes(&value) }),
        ),
        Command::ClearState { key } => {
            message(CommandType::ClearState, CommandData::ClearState(v1::ClearStateCommand { key }))
        }
        Command::ScheduleTask { id, task_type, input, options } => message(
            CommandType::ScheduleTask,
            CommandData::ScheduleTask(v1::ScheduleTaskCommand {
                kind: task_type,
                input: json_bytes(&input),
                task_execution_id: id.to_string(),
                max_retries: options.max_retries.map(|count| i32::try_from(count).unwrap_or(i32::MAX)),
                timeout_ms: options.timeout.map(milliseconds),
                queue: options.queue,
                priority_seconds: Some(options.priority_seconds),
                retry_policy: options.retry.map(retry_policy),
                schedule_to_start_ms: options.schedule_to_start.map(milliseconds),
                total_timeout_ms: options.total_timeout.map(milliseconds),
                heartbeat_timeout_ms: options.heartbeat_timeout.map(milliseconds),
                ..v1::ScheduleTaskCommand::default()
            }),
        ),
        Command::CancelTask { id } => message(
            CommandType::CancelTask,
            CommandData::CancelTask(v1::CancelTaskCommand { task_execution_id: id.to_string() }),
        ),
        Command::StartTimer { name, duration } => message(
            CommandType::StartTimer,
            CommandData::StartTimer(v1::StartTimerCommand {
                timer_id: name,
                duration_ms: milliseconds(duration),
            }),
        ),
        Command::CancelTimer { name } => message(
            CommandType::CancelTimer,
            CommandData::CancelTimer(v1::CancelTimerCommand { timer_id: name }),
        ),
        Command::CreatePromise { name, timeout, key } => message(
            CommandType::CreatePromise,
            CommandData::CreatePromise(v1::CreatePromiseCommand {
                promise_id: name,
                timeout_ms: timeout.map(milliseconds),
                idempotency_key: key,
                idempotency_key_ttl_seconds: None,
            }),
        ),
        Command::ScheduleChild { id, name, kind, input, options } => message(
            CommandType::ScheduleChildWorkflow,
            CommandData::ScheduleChildWorkflow(v1::ScheduleChildWorkflowCommand {
                child_execution_name: name,
                workflow_kind: Some(kind),
                child_workflow_execution_id: id.to_string(),
                input: json_bytes(&input),
                queue: options.queue.unwrap_or_default(),
                workflow_version: options.version,
                execution_timeout_ms: options.execution_timeout.map(milliseconds),
                cancel_grace_ms: options.cancel_grace.map(milliseconds),
                priority_seconds: options.priority_seconds,
                idempotency_key: options.key,
                idempotency_key_ttl_seconds: options.key_ttl.map(crate::client::seconds),
                metadata: options.labels,
                ..v1::ScheduleChildWorkflowCommand::default()
            }),
        ),
        Command::CancelChild { id, name } => message(
            CommandType::RequestCancelChildWorkflow,
            CommandData::RequestCancelChildWorkflow(v1::RequestCancelChildWorkflowCommand {
                child_execution_name: name,
                child_workflow_execution_id: id.to_string(),
                reason: "cancelled by the parent".into(),
            }),
        ),
    }
}

/// The last command and the status of a submit.
pub(crate) fn ending(outcome: &Outcome) -> (Option<v1::WorkflowCommand>, v1::WorkflowStatus) {
    match outcome {
        Outcome::Suspended => (None, v1::WorkflowStatus::Suspended),
        Outcome::Completed(output) => {
            let data = v1::CompleteWorkflowCommand { output: json_bytes(output) };
            let last = message(CommandType::CompleteWorkflow, CommandData::CompleteWorkflow(data));
            (Some(last), v1::WorkflowStatus::Completed)
        }
        Outcome::Failed(error) => {
            let data = v1::FailWorkflowCommand {
                error: error.to_string(),
                stack_trace: String::new(),
                failure_type: error.kind().to_owned(),
                failure_details: details(error),
            };
            let last = message(CommandType::FailWorkflow, CommandData::FailWorkflow(data));
            (Some(last), v1::WorkflowStatus::Failed)
        }
        Outcome::Cancelled(reason) => {
            let data = v1::CancelWorkflowCommand { reason: reason.clone() };
            let last = message(CommandType::CancelWorkflow, CommandData::CancelWorkflow(data));
            (Some(last), v1::WorkflowStatus::Cancelled)
        }
    }
}

/// A failed attempt. What says nothing is not sent.
pub(crate) fn task_failure(
    task_execution_id: String,
    claim_token: i64,
    error: &Error,
) -> v1::FailTaskRequest {
    let kind = error.kind();
    v1::FailTaskRequest {
        task_execution_id,
        error: error.to_string(),
        claim_token: Some(claim_token),
        non_retryable: error.gives_up(),
        next_retry_delay_ms: error.retry_delay().map(milliseconds),
        failure_type: if kind == PLAIN { String::new() } else { kind.to_owned() },
        failure_details: details(error),
    }
}

/// Empty: there are none.
fn details(error: &Error) -> Bytes {
    error.raw_details().map(json_bytes).unwrap_or_default()
}

/// What a server says of a failure. Empty fields say nothing.
pub(crate) fn failure(failure_type: String, details: &[u8]) -> Failure {
    Failure {
        kind: Some(failure_type).filter(|kind| !kind.is_empty()),
        details: (!details.is_empty()).then(|| json(details).ok()).flatten(),
        ..Failure::default()
    }
}
