//! Requests that create something: many things at once, and the status of the answer.

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use flovyn_auth::Role;
use serde::de::DeserializeOwned;

use super::access::Caller;
use super::body::{Object, read};
use super::error::RestError;
use super::key_header::no_header_key;

/// Reads a batch: `items` takes the items from the body, `convert` converts one. If one is refused, the batch is.
pub(super) fn read_batch<B: DeserializeOwned, T, I>(
    caller: &Caller,
    headers: &HeaderMap,
    body: &Bytes,
    items: impl FnOnce(B) -> Vec<Object<T>>,
    convert: impl Fn(T) -> Result<I, RestError>,
) -> Result<Vec<I>, RestError> {
    caller.must_be(Role::Operator)?;
    no_header_key(headers)?;
    items(read(body)?).into_iter().map(|Object(item)| convert(item)).collect()
}

/// The status of an answer to a request that creates something, or finds it by its idempotency key.
pub(super) fn created(is_new: bool) -> StatusCode {
    if is_new { StatusCode::CREATED } else { StatusCode::OK }
}
