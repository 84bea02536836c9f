//! Who sends an HTTP request: a worker token or a JWT in the header `Authorization: Bearer ...`.

use axum::http::{HeaderMap, header};
use flovyn_auth::{AuthError, Principal};

use crate::api::Api;

pub(super) async fn authenticate(api: &Api, headers: &HeaderMap) -> Result<Principal, AuthError> {
    const MISSING: AuthError =
        AuthError::Unauthenticated("send a worker token or a JWT as 'Authorization: Bearer ...'");
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).ok_or(MISSING)?;
    let (scheme, token) = value.split_once(' ').ok_or(MISSING)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(MISSING);
    }
    // A JWT has three parts; anything else can only be a worker token.
    match api.jwt() {
        Some(jwt) if token.split('.').count() == 3 => jwt.authenticate(token.trim()),
        _ => api.worker_tokens().authenticate(token.trim()).await,
    }
}
