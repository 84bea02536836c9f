//! A workflow execution as it is shown.

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

/// A workflow execution. Listings leave out labels, input, output, error, failure, unread signals and what it waits for.
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
    /// Only workers with this version of the kind take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    priority_seconds: i64,
    #[schema(format = "date-time")]
    created_at: String,
    /// Not handed out before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    scheduled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    finished_at: Option<String>,
    /// The execution that started it as its child.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    parent_id: Option<String>,
    /// The failed execution that it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    retry_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    /// Number of the last event of its history.
    last_sequence: i64,
    cancel_requested: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<BTreeMap<String, String>>,
    /// Any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    input: Option<Box<RawValue>>,
    /// Of a completed one: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<Box<RawValue>>,
    /// Of a failed or cancelled one.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Of a failed one: what its workflow calls the failure, such as `CARD_DECLINED`; absent if it has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_type: Option<String>,
    /// Of a failed one: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    failure_details: Option<Box<RawValue>>,
    /// Signals that it had received and not read when it ended; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    unread_signals: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_on: Option<Vec<WaitingOn>>,
}

impl ExecutionInfo {
    /// What listings show.
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

    /// Everything about one execution.
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
