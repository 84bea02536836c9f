//! The header `Idempotency-Key`: for requests that start one thing.

use axum::http::HeaderMap;
use flovyn_engine::Code;

use super::error::RestError;

/// A body may name the key, and so may this header.
const KEY_HEADER: &str = "idempotency-key";

pub(super) fn header_key(headers: &HeaderMap) -> Result<Option<String>, RestError> {
    let Some(value) = headers.get(KEY_HEADER) else { return Ok(None) };
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
