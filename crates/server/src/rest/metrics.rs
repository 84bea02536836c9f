//! The metrics of one tenant, for a scraper.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use flovyn_engine::state::SmallEnum;
use flovyn_service::metrics::catalog::QUEUE_DEPTH;

use super::access::Caller;
use super::error::RestError;
use crate::metrics::{depths, of_tenant, recorder};

/// Get the tenant's metrics
///
/// The tenant's metrics in the text format of Prometheus, as the server process that answers has counted them since its
/// start.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "getMetrics",
    tag = "Activity",
    responses((
        status = 200,
        description = "The tenant's series",
        body = String,
        content_type = "text/plain",
        example = json!("flovyn_workflow_started_total{tenant_id=\"01980f39-0b7d-7e11-8a55-2c9d3e4f5a6b\"} 12\n"),
    )),
)]
pub(super) async fn get(caller: Caller) -> Result<impl IntoResponse, RestError> {
    let tenant_id = caller.tenant_id();
    let (now, tenant) = (recorder(), tenant_id.to_string());
    for depth in depths::of_tenant(caller.store().as_ref(), tenant_id).await? {
        QUEUE_DEPTH.set(&now, &[&tenant, &depth.queue, depth.class.name()], depth.ready as f64);
    }
    let text = now.handle().render() + &of_tenant(&caller.api().metrics().render(), tenant_id);
    Ok(([(CONTENT_TYPE, crate::metrics::CONTENT_TYPE)], text))
}
