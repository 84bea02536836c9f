//! The header `Idempotency-Key`, for requests that start a single thing.

use axum::http::HeaderMap;
use flovyn_engine::Code;

use super::error::RestError;

/// The header. The body may name the key as well.
const KEY_HEADER: &str = "idempotency-key";

/// The key of a request, from its header or its body. `None` if neither names one.
pub(super) fn key(headers: &HeaderMap, in_body: Option<String>) -> Result<Option<String>, RestError> {
    match (header_key(headers)?, in_body) {
        (Some(one), Some(other)) if one != other => {
            let error = "the Idempotency-Key header and the body name different idempotency keys";
            Err(RestError::new(Code::KeysDiffer, error))
        }
        (in_header, in_body) => Ok(in_body.or(in_header)),
    }
}

pub(super) fn header_key(headers: &HeaderMap) -> Result<Option<String>, RestError> {
    let mut values = headers.get_all(KEY_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.any(|other| other != value) {
        return Err(RestError::new(
            Code::KeysDiffer,
            "the request has several Idempotency-Key headers with different values",
        ));
    }
    let text =
        value.to_str().map_err(|_| RestError::new(Code::InvalidName, "Idempotency-Key is not plain text"))?;
    Ok(Some(text.to_owned()))
}

/// Refuses the header on a batch, because a single key cannot identify several items.
pub(super) fn no_header_key(headers: &HeaderMap) -> Result<(), RestError> {
    if headers.contains_key(KEY_HEADER) {
        let error = "a batch takes no Idempotency-Key header: give each item its own key";
        return Err(RestError::new(Code::InvalidBatch, error));
    }
    Ok(())
}
