//! The answers of the REST API, as far as pages show them. What is not read here is passed over.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Any JSON, as it was written.
pub(crate) type Document = Box<RawValue>;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Me {
    pub(crate) subject: String,
    pub(crate) role: String,
    pub(crate) tenants: Vec<Tenant>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tenant {
    pub(crate) id: String,
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) created_at: String,
    pub(crate) retention_ms: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Execution {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) task_queue: String,
    pub(crate) version: Option<String>,
    pub(crate) priority_seconds: i64,
    pub(crate) created_at: String,
    pub(crate) scheduled_at: Option<String>,
    pub(crate) started_at: Option<String>,
    pub(crate) finished_at: Option<String>,
    pub(crate) parent_id: Option<String>,
    pub(crate) retry_of: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) last_sequence: i64,
    pub(crate) cancel_requested: bool,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) input: Option<Document>,
    pub(crate) output: Option<Document>,
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) waiting_on: Vec<WaitingOn>,
}

impl Execution {
    pub(crate) fn is_open(&self) -> bool {
        !is_final(&self.status)
    }
}

/// Of an execution or a task.
pub(crate) fn is_final(status: &str) -> bool {
    matches!(status, "COMPLETED" | "FAILED" | "CANCELLED")
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingOn {
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) until_ms: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Executions {
    pub(crate) executions: Vec<Execution>,
    pub(crate) next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    pub(crate) sequence: i64,
    pub(crate) event_type: String,
    pub(crate) timestamp: String,
    pub(crate) timestamp_ms: i64,
    pub(crate) origin: String,
    pub(crate) data: Option<Document>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Events {
    pub(crate) created_at_ms: i64,
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) task_type: String,
    pub(crate) status: String,
    pub(crate) input: Option<Document>,
    pub(crate) output: Option<Document>,
    pub(crate) error: Option<String>,
    pub(crate) queue: String,
    pub(crate) execution_count: i64,
    pub(crate) max_retries: i64,
    pub(crate) progress: f64,
    pub(crate) progress_details: Option<String>,
    pub(crate) worker_id: Option<String>,
    pub(crate) workflow_execution_id: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) created_at: String,
    pub(crate) scheduled_at: Option<String>,
    pub(crate) started_at: Option<String>,
    pub(crate) completed_at: Option<String>,
    pub(crate) waiting_on: Option<WaitingOn>,
}

/// Of one execution. Its cursor is an id.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionTasks {
    pub(crate) tasks: Vec<Task>,
    pub(crate) next_cursor: Option<String>,
}

/// Standalone ones.
#[derive(Debug, Deserialize)]
pub(crate) struct Tasks {
    pub(crate) tasks: Vec<Task>,
    pub(crate) total: i64,
    #[serde(default)]
    pub(crate) total_is_lower_bound: bool,
    pub(crate) next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) attempt: i64,
    pub(crate) started_at: String,
    pub(crate) duration_ms: i64,
    pub(crate) status: String,
    pub(crate) error: Option<String>,
    pub(crate) worker_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Attempts {
    pub(crate) attempts: Vec<Attempt>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LogLine {
    pub(crate) line: i64,
    pub(crate) time: String,
    pub(crate) level: String,
    pub(crate) message: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Logs {
    pub(crate) lines: Vec<LogLine>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) paused: bool,
    pub(crate) pending_workflows: i64,
    pub(crate) pending_tasks: i64,
    pub(crate) oldest_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Queues {
    pub(crate) queues: Vec<Queue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Worker {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) build_id: String,
    pub(crate) host: String,
    pub(crate) process_id: String,
    pub(crate) task_queue: Option<String>,
    pub(crate) registered_at: String,
    pub(crate) last_heartbeat_at: String,
    pub(crate) alive: bool,
    pub(crate) workflows: Vec<String>,
    pub(crate) tasks: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Workers {
    pub(crate) workers: Vec<Worker>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    pub(crate) kind: String,
}

/// What workers have registered.
#[derive(Debug, Deserialize)]
pub(crate) struct Definitions {
    pub(crate) workflows: Vec<Definition>,
    pub(crate) tasks: Vec<Definition>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerToken {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) token: Option<String>,
    pub(crate) created_at: String,
    pub(crate) expires_at: Option<String>,
    pub(crate) revoked_at: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerTokens {
    pub(crate) worker_tokens: Vec<WorkerToken>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AuditActor {
    pub(crate) subject: String,
    pub(crate) credential: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AuditEntry {
    pub(crate) time: String,
    pub(crate) actor: AuditActor,
    pub(crate) action: String,
    pub(crate) target: String,
    pub(crate) details: Option<Document>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Audit {
    pub(crate) entries: Vec<AuditEntry>,
    pub(crate) next_cursor: Option<String>,
}

/// What a start answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Started {
    pub(crate) workflow_execution_id: String,
}

/// What happened in one interval.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sample {
    pub(crate) time: String,
    pub(crate) started: i64,
    pub(crate) completed: i64,
    pub(crate) failed: i64,
    pub(crate) tasks_created: i64,
    pub(crate) tasks_completed: i64,
    pub(crate) tasks_failed: i64,
    pub(crate) backlog: i64,
    pub(crate) wait_p50_ms: Option<f64>,
    pub(crate) wait_p95_ms: Option<f64>,
    pub(crate) took_p50_ms: Option<f64>,
    pub(crate) took_p95_ms: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Activity {
    pub(crate) interval_ms: i64,
    pub(crate) samples: Vec<Sample>,
}
