//! Executions, and the answers to starting and stopping them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use crate::openapi;
use crate::{Document, has_ended, moment};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ExecutionList, bound = ""))]
pub struct Executions<E = Execution> {
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Execution>))]
    pub executions: Vec<E>,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub limit: usize,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub offset: usize,
    /// Present only if there may be more executions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A workflow execution. Listings omit labels, input, output, error, failure, unread signals and what it waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkflowExecution))]
pub struct Execution {
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub id: String,
    pub kind: String,
    #[cfg_attr(feature = "openapi", schema(schema_with = openapi::execution_status))]
    pub status: String,
    pub task_queue: String,
    /// The version of the kind that a worker must have to run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub priority_seconds: i64,
    #[serde(rename = "createdAt", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub created_ms: i64,
    /// The execution does not start before this time.
    #[serde(
        rename = "scheduledAt",
        default,
        with = "moment::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = "date-time"))]
    pub scheduled_ms: Option<i64>,
    #[serde(
        rename = "startedAt",
        default,
        with = "moment::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = "date-time"))]
    pub started_ms: Option<i64>,
    #[serde(
        rename = "finishedAt",
        default,
        with = "moment::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = "date-time"))]
    pub finished_ms: Option<i64>,
    /// The execution that started this one as its child.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub parent_id: Option<String>,
    /// The execution that this one retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub retry_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The sequence number of the last event in its history.
    pub last_sequence: i64,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub cancel_requested: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub input: Option<Document>,
    /// Only if completed: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub output: Option<Document>,
    /// Only if failed or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Only if failed: the type that the workflow gave the failure, such as `CARD_DECLINED`. Absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_type: Option<String>,
    /// Only if failed: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub failure_details: Option<Document>,
    /// The number of signals that it had received but not read when it ended. Absent if zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<i64>))]
    pub unread_signals: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<Vec<WaitingOn>>,
}

fn is_zero(count: &i64) -> bool {
    *count == 0
}

impl Execution {
    pub fn has_ended(&self) -> bool {
        has_ended(&self.status)
    }
}

/// One thing that an execution or task waits for. Empty fields are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaitingOn {
    /// The kind, such as `TASK`, `TIMER`, `PROMISE`, `CHILD`, `SIGNAL`, `NO_WORKER` or `QUEUE_PAUSED`.
    pub kind: String,
    /// The id of the task, promise or child.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A description for people.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub message: String,
    /// When the wait ends by itself, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase().replace('_', " ");
        write!(f, "{kind} {}", self.name)
    }
}

// The answer to a start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TriggerWorkflowResponse))]
pub struct Started {
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub workflow_execution_id: String,
    #[cfg_attr(feature = "openapi", schema(schema_with = openapi::execution_status))]
    pub status: String,
    pub kind: String,
    #[serde(rename = "createdAt", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub created_ms: i64,
    pub links: Links,
    pub idempotency_key_used: bool,
    /// False if the execution already existed.
    pub idempotency_key_new: bool,
    /// Only if `wait` was given: the execution at the end of the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
}

/// Paths of related resources.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Links {
    #[serde(rename = "self")]
    pub own: String,
    pub events: String,
}

// The answer to a retry.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RetryResponse))]
pub struct Retried {
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub workflow_execution_id: String,
    /// The failed or cancelled execution.
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub retry_of: String,
    #[cfg_attr(feature = "openapi", schema(schema_with = openapi::execution_status))]
    pub status: String,
    pub links: RetryLinks,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetryLinks {
    #[serde(rename = "self")]
    pub own: String,
}

// The answer to cancel, terminate and release requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ExecutionStatusResponse))]
pub struct StatusNow {
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, format = "uuid"))]
    pub workflow_execution_id: String,
    #[cfg_attr(feature = "openapi", schema(schema_with = openapi::execution_status))]
    pub status: String,
}
