//! The recent activity of one server process, for plots.

use serde::Deserialize;

use crate::moment;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    pub interval_ms: i64,
    /// The samples, oldest first.
    pub samples: Vec<Sample>,
}

/// The activity of one interval.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// The end of the interval.
    #[serde(rename = "time", with = "moment")]
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
