//! Workers, what they can run, and the queues they take work from.

use serde::Deserialize;

use crate::moment;

#[derive(Debug, Clone, Deserialize)]
pub struct Queues<Q = Queue> {
    pub queues: Vec<Q>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    pub name: String,
    pub paused: bool,
    pub pending_workflows: i64,
    pub pending_tasks: i64,
    #[serde(rename = "oldestAt", default, with = "moment::optional")]
    pub oldest_ms: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Workers<W = Worker> {
    pub workers: Vec<W>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Worker {
    pub id: String,
    pub name: String,
    pub build_id: String,
    pub host: String,
    pub process_id: String,
    pub task_queue: Option<String>,
    #[serde(rename = "registeredAt", with = "moment")]
    pub registered_ms: i64,
    #[serde(rename = "lastHeartbeatAt", with = "moment")]
    pub last_heartbeat_ms: i64,
    pub alive: bool,
    pub workflows: Vec<String>,
    pub tasks: Vec<String>,
}

/// What workers have registered.
#[derive(Debug, Clone, Deserialize)]
pub struct Definitions {
    pub workflows: Vec<Definition>,
    pub tasks: Vec<Definition>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Definition {
    pub kind: String,
}
