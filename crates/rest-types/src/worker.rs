//! Workers, what they can run, and the queues they take work from.

use serde::{Deserialize, Serialize};

use crate::{Document, moment};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = QueueList, bound = ""))]
pub struct Queues<Q = Queue> {
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Queue>))]
    pub queues: Vec<Q>,
}

/// A queue. Depths up to 10,000 are exact.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queue {
    pub name: String,
    pub paused: bool,
    pub pending_workflows: i64,
    pub pending_tasks: i64,
    /// Since when the oldest item waits.
    #[serde(
        rename = "oldestAt",
        default,
        with = "moment::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = "date-time"))]
    pub oldest_ms: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkerList, bound = ""))]
pub struct Workers<W = Worker> {
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Worker>))]
    pub workers: Vec<W>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Worker {
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub id: String,
    pub name: String,
    pub build_id: String,
    pub host: String,
    pub process_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_queue: Option<String>,
    #[serde(rename = "registeredAt", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub registered_ms: i64,
    #[serde(rename = "lastHeartbeatAt", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub last_heartbeat_ms: i64,
    pub alive: bool,
    /// The kinds of workflows that it runs.
    pub workflows: Vec<String>,
    /// The types of tasks that it runs.
    pub tasks: Vec<String>,
}

// What workers have registered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Definitions {
    pub workflows: Vec<Definition>,
    pub tasks: Vec<Definition>,
}

/// A kind of workflow or a type of task.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Definition {
    pub kind: String,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub versions: Vec<String>,
    /// The number of workers that have registered it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub workers: usize,
    /// JSON Schema of its input. Absent if no worker registered one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub input_schema: Option<Document>,
    /// JSON Schema of its output. Absent if no worker registered one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub output_schema: Option<Document>,
}
