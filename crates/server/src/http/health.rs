//! Liveness and readiness of the server. No credential is needed.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::HttpState;

/// If the store takes longer to answer, the server is not ready.
const STORE_ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// The health of the server.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HealthResponse {
    /// `ok` or `unavailable`.
    status: &'static str,
    /// Why it is not ready: `draining`, `storeUnavailable` or `storageFailed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The server's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uptime_seconds: Option<u64>,
}

/// Get version and readiness
#[utoipa::path(
    get,
    path = "/_/health",
    operation_id = "getHealth",
    tag = "Health",
    security(()),
    responses(
        (status = 200, description = "The server is ready", body = HealthResponse),
        (status = 503, description = "The server is not ready", body = HealthResponse),
    ),
)]
pub(crate) async fn health(State(state): State<HttpState>) -> Response {
    answer(HealthResponse {
        version: Some(env!("CARGO_PKG_VERSION")),
        uptime_seconds: Some(state.started.elapsed().as_secs()),
        ..checked(&state).await
    })
}

/// Check liveness
///
/// For process supervisors: a process that answers needs no restart, whatever the state of its database.
#[utoipa::path(
    get,
    path = "/_/health/live",
    operation_id = "getLiveness",
    tag = "Health",
    security(()),
    responses((status = 200, description = "The process is alive", body = HealthResponse)),
)]
pub(crate) async fn live() -> Json<HealthResponse> {
    Json(HealthResponse { status: "ok", ..HealthResponse::default() })
}

/// Check readiness
///
/// For load balancers: whether this process should receive requests.
#[utoipa::path(
    get,
    path = "/_/health/ready",
    operation_id = "getReadiness",
    tag = "Health",
    security(()),
    responses(
        (status = 200, description = "The server is ready", body = HealthResponse),
        (status = 503, description = "The server is not ready", body = HealthResponse),
    ),
)]
pub(crate) async fn ready(State(state): State<HttpState>) -> Response {
    answer(checked(&state).await)
}

async fn checked(state: &HttpState) -> HealthResponse {
    match check(state).await {
        Ok(()) => HealthResponse { status: "ok", ..HealthResponse::default() },
        Err(reason) => {
            HealthResponse { status: "unavailable", reason: Some(reason), ..HealthResponse::default() }
        }
    }
}

async fn check(state: &HttpState) -> Result<(), &'static str> {
    if state.api.is_draining() {
        return Err("draining");
    }
    if state.api.service().has_failed() {
        return Err("storageFailed");
    }
    let store = state.api.service().store();
    match tokio::time::timeout(STORE_ANSWERS_WITHIN, store.now()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready: the store does not answer");
            Err("storeUnavailable")
        }
        Err(_) => Err("storeUnavailable"),
    }
}

fn answer(health: HealthResponse) -> Response {
    let status = if health.reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health)).into_response()
}
