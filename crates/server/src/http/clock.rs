//! `POST /_/clock/advance {"ms": N}`, available only with a virtual clock.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use flovyn_auth::Role;
use flovyn_engine::Code;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{HttpError, HttpState};
use crate::slow::is_too_slow;

/// Ten years, the same as the longest timer.
const FARTHEST_MS: i64 = 3_653 * 24 * 60 * 60 * 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    ms: i64,
}

pub(super) async fn advance(
    State(state): State<HttpState>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, HttpError> {
    if state.api.authenticate(&headers).await?.role() < Role::Operator {
        return Err(HttpError::forbidden("moving the clock requires the role operator"));
    }
    let Some(clock) = &state.clock else {
        let message = "this server has no virtual clock";
        return Err(HttpError::new(StatusCode::NOT_FOUND, "NOT_FOUND", Code::NotOffered, message));
    };
    let body = body.map_err(|rejection| {
        let code = if is_too_slow(&rejection) { Code::RequestTooSlow } else { Code::InvalidPayload };
        let status = if is_too_slow(&rejection) { StatusCode::REQUEST_TIMEOUT } else { rejection.status() };
        HttpError::new(status, "INVALID_ARGUMENT", code, code.advice())
    })?;
    let wanted =
        serde_json::from_slice::<Advance>(&body).ok().filter(|wanted| (0..=FARTHEST_MS).contains(&wanted.ms));
    let Some(Advance { ms }) = wanted else {
        let message = format!("send {{\"ms\": N}} with N from 0 to {FARTHEST_MS}");
        return Err(HttpError::new(
            StatusCode::BAD_REQUEST,
            "INVALID_ARGUMENT",
            Code::InvalidDuration,
            message,
        ));
    };
    let now_ms = clock.advance(state.api.service(), ms).await.map_err(|error| {
        tracing::warn!(%error, "cannot move the clock");
        let code = Code::StoreUnavailable;
        HttpError::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", code, code.advice())
    })?;
    Ok(Json(json!({ "nowMs": now_ms })))
}
