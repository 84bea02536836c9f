//! `GET /_/metrics`. What is a state rather than a count is looked at when somebody asks.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use flovyn_engine::state::SmallEnum;
use flovyn_service::metrics::catalog::{QUEUE_DEPTH, TOTALS};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{HttpError, HttpState};
use crate::metrics::catalog::{BUILD, DRAINING, POLLERS, UPTIME};
use crate::metrics::recorder;

pub(super) async fn scrape(
    State(state): State<HttpState>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, HttpError> {
    if !state.public_metrics {
        state.api.authenticate(&headers).await?;
    }
    let now = recorder();
    record(&state, &now);
    record_depths(&state, &now).await;
    let text = now.handle().render() + &state.api.metrics().render();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

fn record(state: &HttpState, now: &PrometheusRecorder) {
    let service = state.api.service();
    BUILD.set(now, &[env!("CARGO_PKG_VERSION")], 1.0);
    UPTIME.set(now, &[], state.started.elapsed().as_secs_f64());
    DRAINING.set(now, &[], if state.api.is_draining() { 1.0 } else { 0.0 });
    POLLERS.set(now, &[], service.pollers() as f64);
    let figures = service.stats().figures();
    for (metric, figure) in TOTALS {
        metric.set_total(now, figure(&figures));
    }
}

/// Queues in which nothing waits are not there. Without a database there are none at all.
async fn record_depths(state: &HttpState, now: &PrometheusRecorder) {
    match state.api.metrics().depths.read(state.api.service().store().as_ref()).await {
        Ok(queues) => {
            for (tenant_id, depth) in queues {
                let labels = [&*tenant_id.to_string(), &*depth.queue, depth.class.name()];
                QUEUE_DEPTH.set(now, &labels, depth.ready as f64);
            }
        }
        Err(error) => tracing::warn!(%error, "queues could not be counted"),
    }
}
