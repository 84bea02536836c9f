//! The metrics of one server, in the text format of Prometheus. Each server has its own recorder, so that the metrics
//! of several servers in one process do not mix.

pub mod catalog;
pub(crate) mod depths;
pub(crate) mod rest;
mod tenant;

use std::sync::Arc;

use flovyn_engine::ids::TenantId;
use flovyn_service::metrics::{Family, SharedRecorder};
use metrics::{Counter, Histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use uuid::fmt::Hyphenated;

use depths::Depths;
pub(crate) use tenant::of_tenant;

use crate::activity::Activity;

/// The text format of Prometheus.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Bounds for durations in seconds.
pub(crate) const SECONDS: &[f64] = &[
    0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0, 600.0, 3_600.0,
];
/// Bounds for numbers of requests.
const REQUESTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0];

pub struct Metrics {
    recorder: SharedRecorder,
    handle: PrometheusHandle,
    triggered: Family<Counter>,
    rest_duration: Family<Histogram>,
    grpc_requests: Family<Counter>,
    /// By whether it went well.
    keys_read: [Counter; 2],
    pub(crate) depths: Depths,
    pub(crate) activity: Activity,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let recorder = recorder();
        let handle = recorder.handle();
        let recorder: SharedRecorder = Arc::new(recorder);
        let keys_read: Family<Counter> = Family::new(&catalog::JWKS_REFRESHES, &recorder, 0);
        Self {
            triggered: Family::new(&catalog::REST_TRIGGERED, &recorder, 2),
            rest_duration: Family::new(&catalog::REST_DURATION, &recorder, 0),
            grpc_requests: Family::new(&catalog::GRPC_REQUESTS, &recorder, 1),
            keys_read: ["failed", "ok"].map(|result| keys_read.with(&[result])),
            recorder,
            handle,
            depths: Depths::default(),
            activity: Activity::default(),
        }
    }

    /// Where the service's own figures go.
    pub(crate) fn recorder(&self) -> SharedRecorder {
        self.recorder.clone()
    }

    /// A workflow was asked for over REST: made now, or there already.
    pub(crate) fn triggered(&self, tenant_id: TenantId, kind: &str, created: bool) {
        let mut buffer = [0; Hyphenated::LENGTH];
        let tenant = tenant_id.hyphenated().encode_lower(&mut buffer);
        let status = if created { "created" } else { "existing" };
        self.triggered.with(&[tenant, kind, status]).increment(1);
    }

    pub(crate) fn grpc_answered(&self, method: &str, code: &str) {
        self.grpc_requests.with(&[method, code]).increment(1);
    }

    /// The issuer's keys were read again.
    pub(crate) fn keys_read(&self, well: bool) {
        self.keys_read[usize::from(well)].increment(1);
    }

    /// Puts recorded durations into their buckets. To be called every few seconds: until then each takes memory.
    pub(crate) fn run_upkeep(&self) {
        self.handle.run_upkeep();
    }

    pub(crate) fn render(&self) -> String {
        self.handle.render()
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// A recorder that knows every metric.
pub(crate) fn recorder() -> PrometheusRecorder {
    let requests = Matcher::Full("flovyn_batch_requests".to_owned());
    let builder = PrometheusBuilder::new()
        .set_buckets(SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(requests, REQUESTS))
        .expect("there are buckets");
    let recorder = builder.build_recorder();
    catalog::all().for_each(|metric| metric.describe(&recorder));
    recorder
}
