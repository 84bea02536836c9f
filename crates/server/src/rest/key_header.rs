//! The header `Idempotency-Key`: for requests that start one thing.

use axum::http::HeaderMap;
use flovyn_engine::Code;

use super::error::RestError;

/// A body may name the key, and so may this header.
const KEY_HEADER: &str = "idempotency-key";

/// The key of a request, of which the body may name it as well.
pub(super) fn key(headers: &HeaderMap, in_body: Option<String>) -> Result<Option<String>, RestError> {
    match (header_key(headers)?, in_body) {
        (Some(one), Some(other)) if one != other => {
            let error = "the header Idempotency-Key and the body name different idempotency keys";
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
            "there are several headers Idempotency-Key, which differ",
        ));
    }
    let text =
        value.to_str().map_err(|_| RestError::new(Code::InvalidName, "Idempotency-Key is not plain text"))?;
    Ok(Some(text.to_owned()))
}

/// One key cannot stand for many things: who sends it expects more than a batch could keep.
pub(super) fn no_header_key(headers: &HeaderMap) -> Result<(), RestError> {
    if headers.contains_key(KEY_HEADER) {
        let error = "a batch takes no Idempotency-Key header: give each item its own key";
        return Err(RestError::new(Code::InvalidBatch, error));
    }
    Ok(())
}
