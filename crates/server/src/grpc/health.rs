//! gRPC health checking: serving until the server begins to stop.

use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::health_reporter;

use crate::api::Api;

pub(super) fn server(api: Api) -> HealthServer<impl Health> {
    let (reporter, server) = health_reporter();
    tokio::spawn(async move {
        api.drains().await;
        reporter.set_service_status("", ServingStatus::NotServing).await;
    });
    server
}
