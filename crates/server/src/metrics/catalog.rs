//! Every metric of the server crate. The metrics of the service are in the service's own catalog.

use flovyn_service::metrics::Metric;
use flovyn_service::metrics::catalog;

pub(super) static REST_TRIGGERED: Metric = Metric::counter_of(
    "flovyn_rest_workflow_triggered_total",
    &["tenant_id", "workflow_kind", "status"],
    "Workflows triggered via REST: created, or already existing under their idempotency key",
);
pub(super) static REST_DURATION: Metric = Metric::histogram_of(
    "flovyn_rest_request_duration_seconds",
    &["endpoint", "status_code"],
    "Time from the head of a REST request to the head of its answer",
);
pub(super) static GRPC_REQUESTS: Metric =
    Metric::counter_of("flovyn_grpc_requests_total", &["method", "code"], "gRPC requests answered");
pub(super) static JWKS_REFRESHES: Metric = Metric::counter_of(
    "flovyn_jwks_refreshes_total",
    &["result"],
    "Refreshes of the issuer's keys: ok or failed",
);
pub(crate) static BUILD: Metric =
    Metric::gauge_of("flovyn_build_info", &["version"], "Always 1; the version is in the label");
pub(crate) static UPTIME: Metric =
    Metric::gauge_of("flovyn_uptime_seconds", &[], "Seconds since the server started");
pub(crate) static DRAINING: Metric =
    Metric::gauge_of("flovyn_draining", &[], "1 while the server is stopping, else 0");
pub(crate) static FILE_CHECKED: Metric = Metric::gauge_of(
    "flovyn_database_checked",
    &[],
    "1 if the whole embedded database has been checked since the start, else 0",
);
pub(crate) static POLLERS: Metric =
    Metric::gauge_of("flovyn_pollers_waiting", &[], "Polls and stream credits waiting for work");

static OWN: &[&Metric] = &[
    &REST_TRIGGERED,
    &REST_DURATION,
    &GRPC_REQUESTS,
    &JWKS_REFRESHES,
    &BUILD,
    &UPTIME,
    &DRAINING,
    &FILE_CHECKED,
    &POLLERS,
];

/// Every metric that a server exports.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let totals = catalog::TOTALS.iter().map(|(metric, _)| *metric);
    OWN.iter().copied().chain(catalog::ALL.iter().copied()).chain(totals)
}
