//! Every metric of the edge. Those of the service are in its own catalog.

use flovyn_service::metrics::Metric;
use flovyn_service::metrics::catalog;

pub(super) static REST_TRIGGERED: Metric = Metric::counter_of(
    "flovyn_rest_workflow_triggered_total",
    &["tenant_id", "workflow_kind", "status"],
    "Workflows triggered via REST: created, or existing already under their idempotency key",
);
pub(super) static REST_DURATION: Metric = Metric::histogram_of(
    "flovyn_rest_request_duration_seconds",
    &["endpoint", "status_code"],
    "From a REST request's head to its answer's",
);
pub(super) static GRPC_REQUESTS: Metric =
    Metric::counter_of("flovyn_grpc_requests_total", &["method", "code"], "gRPC requests answered");
pub(super) static JWKS_REFRESHES: Metric = Metric::counter_of(
    "flovyn_jwks_refreshes_total",
    &["result"],
    "Times that the issuer's keys were read again: ok, or failed",
);
pub(crate) static BUILD: Metric =
    Metric::gauge_of("flovyn_build_info", &["version"], "Always 1; the version is in the label");
pub(crate) static UPTIME: Metric = Metric::gauge_of("flovyn_uptime_seconds", &[], "Since the start");
pub(crate) static DRAINING: Metric =
    Metric::gauge_of("flovyn_draining", &[], "1 from when the server was told to stop");
pub(crate) static FILE_CHECKED: Metric = Metric::gauge_of(
    "flovyn_database_checked",
    &[],
    "1 once all of the embedded database has been checked since the start, else 0",
);
pub(crate) static POLLERS: Metric =
    Metric::gauge_of("flovyn_pollers_waiting", &[], "Polls and stream credits that wait for work");

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

/// Everything that a server exports.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let totals = catalog::TOTALS.iter().map(|(metric, _)| *metric);
    OWN.iter().copied().chain(catalog::ALL.iter().copied()).chain(totals)
}
