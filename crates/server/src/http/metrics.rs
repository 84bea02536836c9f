//! `GET /_/metrics`. Gauges are read when a caller asks.

use axum::extract::State;
use axum::http::{HeaderMap, Uri, header};
use axum::response::IntoResponse;
use flovyn_auth::{Role, ScrapeToken};
use flovyn_engine::state::SmallEnum;
use flovyn_service::metrics::catalog::{QUEUE_DEPTH, TOTALS};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{HttpError, HttpState, local_only};
use crate::api::bearer;
use crate::config::{ConfigError, Metrics, MetricsAccess};
use crate::metrics::catalog::{BUILD, DRAINING, FILE_CHECKED, POLLERS, UPTIME};
use crate::metrics::{CONTENT_TYPE, recorder};
use crate::peer;

const NOT_YOURS: &str = "these are the metrics of all tenants: send the scrape token or a credential of the role \
                         server-admin; those of one tenant are at /api/tenants/{tenant}/metrics";
/// Headers of a proxy on this machine that forwards requests of others.
const FORWARDED: &[&str] = &["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

/// The callers that may read the metrics of all tenants.
#[derive(Debug, Clone)]
pub struct Readers {
    pub(super) access: MetricsAccess,
    token: Option<ScrapeToken>,
}

impl Readers {
    /// # Errors
    /// Fails if the scrape token cannot be read or used.
    pub(crate) fn new(config: &Metrics) -> Result<Self, ConfigError> {
        let token = config.scrape_token()?.map(|token| ScrapeToken::new(&token));
        Ok(Self { access: config.access, token })
    }

    /// Whether the request may read the metrics without a role.
    fn knows(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let token = self.token.as_ref();
        self.access == MetricsAccess::Loopback && is_from_here(uri, headers)
            || token.is_some_and(|token| bearer(headers).is_some_and(|given| token.is(given)))
    }
}

/// Whether the request is from a scraper or a person on this machine: not forwarded by a proxy, and not sent by a
/// foreign page in a browser.
fn is_from_here(uri: &Uri, headers: &HeaderMap) -> bool {
    peer::current().is_some_and(|peer| peer.is_loopback())
        && local_only::is_local(uri, headers)
        && !FORWARDED.iter().any(|name| headers.contains_key(*name))
}

pub(super) async fn scrape(
    State(state): State<HttpState>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<impl IntoResponse, HttpError> {
    if !state.metrics.knows(&uri, &headers)
        && state.api.authenticate(&headers).await?.role() < Role::ServerAdmin
    {
        return Err(HttpError::forbidden(NOT_YOURS));
    }
    let now = recorder();
    record(&state, &now);
    record_depths(&state, &now).await;
    let text = now.handle().render() + &state.api.metrics().render();
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}

fn record(state: &HttpState, now: &PrometheusRecorder) {
    let service = state.api.service();
    BUILD.set(now, &[env!("CARGO_PKG_VERSION")], 1.0);
    UPTIME.set(now, &[], state.started.elapsed().as_secs_f64());
    DRAINING.set(now, &[], if state.api.is_draining() { 1.0 } else { 0.0 });
    POLLERS.set(now, &[], service.pollers() as f64);
    if let Some(health) = service.store().file_health() {
        FILE_CHECKED.set(now, &[], if health.is_checked() { 1.0 } else { 0.0 });
    }
    let figures = service.stats().figures();
    for (metric, figure) in TOTALS {
        metric.set_total(now, figure(&figures));
    }
}

/// Records the depth of each queue. Empty queues are not recorded. If the database cannot be read, no queue is.
async fn record_depths(state: &HttpState, now: &PrometheusRecorder) {
    match state.api.metrics().depths.read(state.api.service().store().as_ref()).await {
        Ok(queues) => {
            for (tenant_id, depth) in queues {
                let labels = [&*tenant_id.to_string(), &*depth.queue, depth.class.name()];
                QUEUE_DEPTH.set(now, &labels, depth.ready as f64);
            }
        }
        Err(error) => tracing::warn!(%error, "cannot count the queues"),
    }
}
