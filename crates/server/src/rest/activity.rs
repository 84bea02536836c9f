//! Recent activity, as this process has counted it.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::Caller;
use super::times::iso;
use crate::activity::{EVERY, Sample};

/// The last 15 minutes of one server process, at most since its start.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActivityResponse {
    /// The time from one sample to the next.
    interval_ms: u64,
    /// The samples, oldest first.
    samples: Vec<SampleInfo>,
}

/// The activity of one interval.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ActivitySample)]
pub(super) struct SampleInfo {
    /// The end of the interval.
    #[schema(format = "date-time")]
    time: String,
    /// Executions that were created.
    started: i64,
    completed: i64,
    failed: i64,
    cancelled: i64,
    tasks_created: i64,
    tasks_completed: i64,
    tasks_failed: i64,
    /// Items that wait for a worker at the end of the interval.
    backlog: i64,
    /// How long work waited for a worker (median).
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p95_ms: Option<f64>,
    /// How long executions took (median).
    #[serde(skip_serializing_if = "Option::is_none")]
    took_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_p95_ms: Option<f64>,
}

impl From<Sample> for SampleInfo {
    fn from(sample: Sample) -> Self {
        Self {
            time: iso(sample.time_ms),
            started: sample.started,
            completed: sample.completed,
            failed: sample.failed,
            cancelled: sample.cancelled,
            tasks_created: sample.tasks_created,
            tasks_completed: sample.tasks_completed,
            tasks_failed: sample.tasks_failed,
            backlog: sample.backlog,
            wait_p50_ms: sample.wait_ms.map(|(median, _)| median),
            wait_p95_ms: sample.wait_ms.map(|(_, high)| high),
            took_p50_ms: sample.took_ms.map(|(median, _)| median),
            took_p95_ms: sample.took_ms.map(|(_, high)| high),
        }
    }
}

/// Get recent activity
///
/// Counts and latencies of the last 15 minutes, as the server process that answers has seen them since its start. For
/// data of all
/// processes, scrape `/_/metrics` of every process.
#[utoipa::path(
    get,
    path = "/activity",
    operation_id = "getActivity",
    tag = "Activity",
    responses((status = 200, description = "Samples", body = ActivityResponse)),
)]
pub(super) async fn get(caller: Caller) -> Json<ActivityResponse> {
    let samples = caller.api().metrics().activity.of(caller.tenant_id());
    let interval_ms = u64::try_from(EVERY.as_millis()).unwrap_or(u64::MAX);
    Json(ActivityResponse { interval_ms, samples: samples.into_iter().map(SampleInfo::from).collect() })
}
