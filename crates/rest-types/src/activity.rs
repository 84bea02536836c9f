//! What one server process did lately, for plots.

use serde::Deserialize;

use crate::moment;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    pub interval_ms: i64,
    /// The oldest first.
    pub samples: Vec<Sample>,
}

/// What happened in one interval.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Its end.
    #[serde(rename = "time", deserialize_with = "moment::ms")]
    pub time_ms: i64,
    pub started: i64,
    pub completed: i64,
    pub failed: i64,
    pub tasks_created: i64,
    pub tasks_completed: i64,
    pub tasks_failed: i64,
    pub backlog: i64,
    pub wait_p50_ms: Option<f64>,
    pub wait_p95_ms: Option<f64>,
    pub took_p50_ms: Option<f64>,
    pub took_p95_ms: Option<f64>,
}
