//! Converts message fields to the engine's types. The error for an unreadable field has a code and names the field.

use std::collections::HashMap;

use flovyn_engine::Code;
use flovyn_engine::ids::{Payload, Text, canonical_id};
use flovyn_engine::reply::{Started, TaskCreated};
use flovyn_engine::request::{Failure, KeySpec, Parent, PromiseRef, StartWorkflow, TaskSpec};
use flovyn_engine::state::RetryPolicy;
use flovyn_proto::v1;
use tonic::Status;
use uuid::Uuid;

use super::status::refuse;

/// The queue of work that does not name one.
pub(super) const DEFAULT_QUEUE: &str = "default";

pub(super) fn id(field: &str, text: &str) -> Result<Uuid, Status> {
    let found = canonical_id(text).filter(|id| !id.is_nil());
    found.ok_or_else(|| {
        refuse(Code::InvalidId, format!("{field} {text:?} is not a UUID in lower case with hyphens"))
    })
}

/// Reads an id. An empty string means `None`.
pub(super) fn optional_id(field: &str, text: &str) -> Result<Option<Uuid>, Status> {
    if text.is_empty() { Ok(None) } else { id(field, text).map(Some) }
}

pub(super) fn queue(text: &str) -> Text {
    if text.is_empty() { DEFAULT_QUEUE.into() } else { text.into() }
}

pub(super) fn non_empty(text: &str) -> Option<Text> {
    (!text.is_empty()).then(|| text.into())
}

/// Checks text that is used in a database query. Not every database can search for U+0000.
pub(super) fn can_be_sought(field: &str, text: &str) -> Result<(), Status> {
    if text.contains('\0') {
        return Err(refuse(Code::InvalidText, format!("{field} contains U+0000")));
    }
    Ok(())
}

/// Reads a failure. Empty fields count as not set.
pub(super) fn failure(failure_type: &str, details: Payload) -> Failure {
    Failure { kind: non_empty(failure_type), details: (!details.is_empty()).then_some(details) }
}

/// Writes a failure: its type and its details, empty if not set.
pub(super) fn failure_fields(failure: Failure) -> (String, Payload) {
    let Failure { kind, details } = failure;
    (kind.as_deref().unwrap_or_default().to_owned(), details.unwrap_or_default())
}

/// Replaces an empty payload by JSON null.
pub(super) fn payload(bytes: Payload) -> Payload {
    if bytes.is_empty() { Payload::from_static(b"null") } else { bytes }
}

pub(super) fn key(name: Option<String>, ttl_seconds: Option<i64>) -> Option<KeySpec> {
    let name = name.filter(|name| !name.is_empty())?;
    Some(KeySpec { name: name.into(), ttl_ms: ttl_seconds.map(|seconds| seconds.saturating_mul(1_000)) })
}

pub(super) fn labels(metadata: HashMap<String, String>) -> Vec<(Text, Text)> {
    let mut labels: Vec<(Text, Text)> =
        metadata.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    labels.sort_unstable();
    labels
}

pub(super) fn retry(policy: Option<v1::RetryPolicy>) -> Option<RetryPolicy> {
    policy.map(|policy| RetryPolicy {
        initial_ms: policy.initial_ms,
        factor: policy.factor,
        cap_ms: policy.cap_ms,
    })
}

/// Reads a promise, given by its id or by `key:` and its key.
pub(super) fn promise(text: &str) -> Result<PromiseRef, Status> {
    match text.strip_prefix("key:") {
        Some(key) => Ok(PromiseRef::Key(key.into())),
        None => id("promise_id", text).map(PromiseRef::Id),
    }
}

pub(super) fn start(
    message: v1::StartWorkflowRequest,
    traceparent: Option<Text>,
) -> Result<StartWorkflow, Status> {
    let parent = message.parent_workflow_execution_id.as_deref().unwrap_or_default();
    let parent = optional_id("parent_workflow_execution_id", parent)?;
    // A start with a parent has no name for the child, so the kind is used as the name.
    let parent = parent.map(|id| Parent { id, name: message.workflow_kind.as_str().into() });
    Ok(StartWorkflow {
        kind: message.workflow_kind.into(),
        input: payload(message.input),
        queue: queue(&message.queue),
        priority_seconds: message.priority_seconds.into(),
        workflow_version: message.workflow_version.as_deref().and_then(non_empty),
        labels: labels(message.metadata),
        key: key(message.idempotency_key, message.idempotency_key_ttl_seconds),
        parent,
        scheduled_ms: message.scheduled_at_ms,
        execution_timeout_ms: message.execution_timeout_ms,
        cancel_grace_ms: message.cancel_grace_ms,
        traceparent,
    })
}

/// The task of a `SubmitTask` message. In its numbers, zero means that the field was not set.
pub(super) fn submitted_task(message: v1::SubmitTaskRequest) -> TaskSpec {
    TaskSpec {
        task_type: message.kind.into(),
        input: payload(message.input),
        queue: non_empty(&message.queue),
        priority_seconds: message.priority_seconds.unwrap_or(0).into(),
        max_retries: (message.max_retries != 0).then(|| message.max_retries.into()),
        retry: retry(message.retry_policy),
        schedule_to_start_ms: message.schedule_to_start_ms,
        start_to_close_ms: (message.timeout_ms != 0).then_some(message.timeout_ms),
        total_ms: message.total_timeout_ms,
        heartbeat_ms: message.heartbeat_timeout_ms,
        key: key(message.idempotency_key, message.idempotency_key_ttl_seconds),
    }
}

/// Converts a counter to the 32 bits that it has in messages. Counters never come near the limit.
pub(super) fn narrow(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(super) fn started(started: &Started) -> v1::StartWorkflowResponse {
    v1::StartWorkflowResponse {
        workflow_execution_id: started.execution_id.to_string(),
        idempotency_key_used: started.key_used,
        idempotency_key_new: started.key_new,
    }
}

pub(super) fn task_created(created: &TaskCreated) -> v1::SubmitTaskResponse {
    v1::SubmitTaskResponse {
        task_execution_id: created.task_id.to_string(),
        idempotency_key_used: created.key_used,
        idempotency_key_new: created.key_new,
    }
}
