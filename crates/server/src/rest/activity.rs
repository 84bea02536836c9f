//! What went on lately, as this process has seen it.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::Caller;
use super::times::iso;
use crate::activity::{EVERY, Sample};

/// The last quarter of an hour of one server process, since its start.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActivityResponse {
    /// From one sample to the next.
    interval_ms: u64,
    /// The oldest first.
    samples: Vec<SampleInfo>,
}

/// What happened in one interval.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ActivitySample)]
pub(super) struct SampleInfo {
    /// Its end.
    #[schema(format = "date-time")]
    time: String,
    /// Executions that were made.
    started: i64,
    completed: i64,
    failed: i64,
    cancelled: i64,
    tasks_created: i64,
    tasks_completed: i64,
    tasks_failed: i64,
    /// Work that waits for a worker at the end of the interval.
    backlog: i64,
    /// How long work waited for a worker: the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_p95_ms: Option<f64>,
    /// How long executions took: the median.
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

/// Get what went on lately
///
/// Counts and latencies of the last quarter of an hour, as the server process that answers has seen them since its start. A
/// system that scrapes `/_/metrics` of every process knows more.
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
