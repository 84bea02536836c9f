//! The recent activity of one server process, for plots.

use serde::{Deserialize, Serialize};

use crate::moment;

/// The last 15 minutes of one server process, at most since its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ActivityResponse))]
pub struct Activity {
    /// The time from one sample to the next.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub interval_ms: i64,
    /// The samples, oldest first.
    pub samples: Vec<Sample>,
}

/// The activity of one interval.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ActivitySample))]
pub struct Sample {
    /// The end of the interval.
    #[serde(rename = "time", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub time_ms: i64,
    /// Executions that were created.
    pub started: i64,
    pub completed: i64,
    pub failed: i64,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub cancelled: i64,
    pub tasks_created: i64,
    pub tasks_completed: i64,
    pub tasks_failed: i64,
    /// Items that wait for a worker at the end of the interval.
    pub backlog: i64,
    /// How long work waited for a worker (median).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_p95_ms: Option<f64>,
    /// How long executions took (median).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_p95_ms: Option<f64>,
}
