//! Recent activity, as this process has counted it.

use axum::Json;
use flovyn_rest_types::{Activity, Sample};

use super::access::Caller;
use crate::activity;

fn sample(of: activity::Sample) -> Sample {
    Sample {
        time_ms: of.time_ms,
        started: of.started,
        completed: of.completed,
        failed: of.failed,
        cancelled: of.cancelled,
        tasks_created: of.tasks_created,
        tasks_completed: of.tasks_completed,
        tasks_failed: of.tasks_failed,
        backlog: of.backlog,
        wait_p50_ms: of.wait_ms.map(|(median, _)| median),
        wait_p95_ms: of.wait_ms.map(|(_, high)| high),
        took_p50_ms: of.took_ms.map(|(median, _)| median),
        took_p95_ms: of.took_ms.map(|(_, high)| high),
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
    responses((status = 200, description = "Samples", body = Activity)),
)]
pub(super) async fn get(caller: Caller) -> Json<Activity> {
    let samples = caller.api().metrics().activity.of(caller.tenant_id());
    let interval_ms = i64::try_from(activity::EVERY.as_millis()).unwrap_or(i64::MAX);
    Json(Activity { interval_ms, samples: samples.into_iter().map(sample).collect() })
}
