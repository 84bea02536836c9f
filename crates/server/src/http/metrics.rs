//! Figures in the text format of Prometheus.
//!
//! What one server counts itself is read at every scrape. What code counts with `metrics::counter!` goes to one
//! recorder per process, since those macros know no server.

use std::sync::OnceLock;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use flovyn_service::Figures;
use metrics::{counter, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::{HttpError, HttpState};

/// Bounds for durations in seconds.
const BUCKETS: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0];

static PROCESS: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Makes `metrics::counter!` and its kind count from here on. Without effect from the second call on.
pub(crate) fn install() -> Option<&'static PrometheusHandle> {
    let build = || {
        let builder = PrometheusBuilder::new().set_buckets(BUCKETS).expect("there are buckets");
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // A program that brought a recorder of its own keeps it.
        metrics::set_global_recorder(recorder).ok().map(|()| handle)
    };
    PROCESS.get_or_init(build).as_ref()
}

pub(super) async fn scrape(
    State(state): State<HttpState>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, HttpError> {
    if !state.public_metrics {
        state.api.authenticate(&headers).await?;
    }
    let own = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&own, || record(&state));
    let mut text = own.handle().render();
    text.push_str(&install().map_or_else(String::new, PrometheusHandle::render));
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

fn record(state: &HttpState) {
    let service = state.api.service();
    gauge!("flovyn_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    gauge!("flovyn_uptime_seconds").set(state.started.elapsed().as_secs_f64());
    gauge!("flovyn_draining").set(if state.api.is_draining() { 1.0 } else { 0.0 });
    gauge!("flovyn_pollers_waiting").set(service.pollers() as f64);
    // Taken apart by name, so that a figure that is added must be named here too.
    let Figures {
        commits,
        rows,
        requests,
        deferred,
        conflicts,
        bisections,
        given_back,
        fired,
        stale,
        dropped_reports,
    } = service.stats().figures();
    counter!("flovyn_store_commits_total").absolute(commits);
    counter!("flovyn_store_rows_written_total").absolute(rows);
    counter!("flovyn_requests_decided_total").absolute(requests);
    counter!("flovyn_requests_deferred_total").absolute(deferred);
    counter!("flovyn_batch_conflicts_total").absolute(conflicts);
    counter!("flovyn_batch_bisections_total").absolute(bisections);
    counter!("flovyn_claims_given_back_total").absolute(given_back);
    counter!("flovyn_due_fired_total").absolute(fired);
    counter!("flovyn_due_stale_total").absolute(stale);
    counter!("flovyn_reports_dropped_total").absolute(dropped_reports);
}
