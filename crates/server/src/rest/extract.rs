//! Extractors of handlers, with Flovyn's own errors.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_ENCODING;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use flovyn_engine::Code;
use serde::de::DeserializeOwned;

use super::error::RestError;
use crate::api::Api;
use crate::slow::is_too_slow;

/// The whole body.
#[derive(Debug)]
pub(super) struct Body(pub(super) Bytes);

impl FromRequest<Api> for Body {
    type Rejection = RestError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, RestError> {
        // Bodies are not decompressed, so a small body cannot expand to a large one.
        let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !request.headers().get_all(CONTENT_ENCODING).iter().all(plain) {
            let error = "the body is compressed: send it without Content-Encoding";
            return Err(RestError::new(Code::InvalidPayload, error));
        }
        let refused = |rejection: BytesRejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                RestError::new(Code::PayloadTooLarge, "the body is larger than 16 MiB")
            }
            _ if is_too_slow(&rejection) => {
                RestError::new(Code::RequestTooSlow, "the body of the request arrived too slowly")
            }
            _ => RestError::new(Code::InvalidPayload, "cannot read the whole body"),
        };
        Bytes::from_request(request, api).await.map(Self).map_err(refused)
    }
}

/// The query string of the URL.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Query<T> {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, RestError> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, api).await;
        let query = query.map_err(|rejection| RestError::new(Code::InvalidValue, rejection.body_text()))?;
        Ok(Self(query.0))
    }
}
