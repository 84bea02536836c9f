//! Whether the process lives, and whether it should be sent requests. Anybody may ask.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::HttpState;

/// A store that takes longer to tell the time is of no use to callers.
const STORE_ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// For people: what runs here, and whether it is ready.
pub(super) async fn health(State(state): State<HttpState>) -> Response {
    answer(check(&state).await, |body| {
        body["version"] = json!(env!("CARGO_PKG_VERSION"));
        body["uptimeSeconds"] = json!(state.started.elapsed().as_secs());
    })
}

/// For supervisors: a process that answers needs no restart, whatever its database does.
pub(super) async fn live() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// For load balancers.
pub(super) async fn ready(State(state): State<HttpState>) -> Response {
    answer(check(&state).await, |_| {})
}

async fn check(state: &HttpState) -> Result<(), &'static str> {
    if state.api.is_draining() {
        return Err("draining");
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

fn answer(checked: Result<(), &'static str>, more: impl FnOnce(&mut Value)) -> Response {
    let (status, mut body) = match checked {
        Ok(()) => (StatusCode::OK, json!({ "status": "ok" })),
        Err(reason) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "unavailable", "reason": reason }))
        }
    };
    more(&mut body);
    (status, Json(body)).into_response()
}
