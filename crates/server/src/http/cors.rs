//! Which web pages of other origins may call the REST API from a browser.

use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::api::API_KEY_HEADER;
use crate::config::Cors;

/// How long a browser may cache a preflight answer.
const MAX_AGE: Duration = Duration::from_secs(3_600);

/// Creates the layer from a checked configuration: origins are valid, and `*` does not allow credentials.
pub(crate) fn layer(config: &Cors) -> CorsLayer {
    let origins = match config.allowed_origins.as_slice() {
        [any] if any == "*" => AllowOrigin::any(),
        origins => AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok())),
    };
    CorsLayer::new()
        .allow_origin(origins)
        .allow_credentials(config.allow_credentials)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers([
            AUTHORIZATION,
            CONTENT_TYPE,
            HeaderName::from_static(API_KEY_HEADER),
            HeaderName::from_static("idempotency-key"),
            HeaderName::from_static("last-event-id"),
            HeaderName::from_static("traceparent"),
        ])
        .expose_headers([RETRY_AFTER])
        .max_age(MAX_AGE)
}
