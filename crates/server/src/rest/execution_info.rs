//! The JSON of a workflow execution.

use std::collections::BTreeMap;

use flovyn_engine::state::Execution;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::Caller;
use super::body::json;
use super::error::RestError;
use super::names::ExecutionStatus;
use super::times::{iso, optional_iso};
use crate::view;
use crate::waiting::{self, WaitingOn};

/// A workflow execution. Listings omit labels, input, output, error, failure, unread signals and what it waits for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowExecution)]
pub(super) struct ExecutionInfo {
    #[schema(format = "uuid")]
    id: String,
    kind: String,
    #[schema(value_type = ExecutionStatus)]
    pub(super) status: String,
    task_queue: String,
    /// The version of the kind that a worker must have to run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    priority_seconds: i64,
    #[schema(format = "date-time")]
    created_at: String,
    /// The execution does not start before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    finished_at: Option<String>,
    /// The execution that started this one as its child.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    parent_id: Option<String>,
    /// The execution that this one retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    retry_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    /// The sequence number of the last event in its history.
    last_sequence: i64,
    cancel_requested: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<BTreeMap<String, String>>,
    /// Any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    input: Option<Box<RawValue>>,
    /// Only if completed: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<Box<RawValue>>,
    /// Only if failed or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Only if failed: the type that the workflow gave the failure, such as `CARD_DECLINED`. Absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_type: Option<String>,
    /// Only if failed: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    failure_details: Option<Box<RawValue>>,
    /// The number of signals that it had received but not read when it ended. Absent if zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    unread_signals: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_on: Option<Vec<WaitingOn>>,
}

impl ExecutionInfo {
    /// The fields that listings show.
    pub(super) fn listed(row: &Execution) -> Self {
        Self {
            id: row.id.to_string(),
            kind: row.kind.to_string(),
            status: row.status.to_string(),
            task_queue: row.queue.to_string(),
            version: row.workflow_version.as_deref().map(str::to_owned),
            priority_seconds: row.priority_seconds,
            created_at: iso(row.created_ms),
            scheduled_at: optional_iso(row.scheduled_ms),
            started_at: optional_iso(row.started_ms),
            finished_at: optional_iso(row.finished_ms),
            parent_id: row.parent_id.map(|id| id.to_string()),
            retry_of: row.retry_of.map(|id| id.to_string()),
            idempotency_key: row.idempotency_key.as_deref().map(str::to_owned),
            last_sequence: row.last_sequence,
            cancel_requested: row.cancel_requested_ms.is_some(),
            labels: None,
            input: None,
            output: None,
            error: None,
            failure_type: None,
            failure_details: None,
            unread_signals: None,
            waiting_on: None,
        }
    }

    /// All fields of one execution.
    pub(super) async fn whole(caller: &Caller, row: &Execution) -> Result<Self, RestError> {
        let view = view::execution(caller.api(), row).await?;
        let waiting = view.waiting.iter().map(waiting::describe);
        Ok(Self {
            labels: Some(view.labels.into_iter().collect()),
            input: json(&view.input),
            output: view.output.as_deref().and_then(json),
            error: view.error,
            failure_type: view.failure.kind.as_deref().map(str::to_owned),
            failure_details: view.failure.details.as_deref().and_then(json),
            unread_signals: Some(view.unread_signals).filter(|count| *count > 0),
            waiting_on: (!row.status.is_terminal()).then(|| waiting.collect()),
            ..Self::listed(row)
        })
    }
}
