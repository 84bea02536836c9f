//! Answers promises, by id or by `key:` and the key.

use axum::extract::Path;
use axum::http::StatusCode;
use flovyn_auth::Role;
use flovyn_engine::Code;
use flovyn_engine::request::{Answer, AnswerPromise, PromiseRef};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::Caller;
use super::body::{payload, read, read_or_default};
use super::error::RestError;
use super::executions::id;
use super::extract::Body;

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = ResolvePromiseRequest)]
pub(super) struct ResolveRequest {
    /// Any JSON. Default null.
    #[schema(value_type = Value)]
    value: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RejectPromiseRequest)]
pub(super) struct RejectRequest {
    /// The error that the workflow receives.
    error: String,
}

/// Resolve a promise
#[utoipa::path(
    post,
    path = "/promises/{promise}/resolve",
    operation_id = "resolvePromise",
    tag = "Promises",
    params(("promise" = String, Path, description = "Id of the promise, or `key:` and its key")),
    request_body = Option<ResolveRequest>,
    responses((status = 204, description = "The promise is resolved")),
)]
pub(super) async fn resolve(
    caller: Caller,
    Path((_, promise)): Path<(String, String)>,
    Body(body): Body,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Operator)?;
    let request: ResolveRequest = read_or_default(&body)?;
    answer(&caller, &promise, Answer::Resolve(payload(request.value, "null"))).await
}

/// Reject a promise
#[utoipa::path(
    post,
    path = "/promises/{promise}/reject",
    operation_id = "rejectPromise",
    tag = "Promises",
    params(("promise" = String, Path, description = "Id of the promise, or `key:` and its key")),
    request_body = RejectRequest,
    responses((status = 204, description = "The promise is rejected")),
)]
pub(super) async fn reject(
    caller: Caller,
    Path((_, promise)): Path<(String, String)>,
    Body(body): Body,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Operator)?;
    let request: RejectRequest = read(&body)?;
    answer(&caller, &promise, Answer::Reject(request.error.into())).await
}

async fn answer(caller: &Caller, promise: &str, answer: Answer) -> Result<StatusCode, RestError> {
    let promise = match promise.strip_prefix("key:") {
        Some(key) => PromiseRef::Key(key.into()),
        None => PromiseRef::Id(id(promise, Code::PromiseNotFound, "Promise")?),
    };
    caller.run(AnswerPromise { promise, answer }).await?;
    Ok(StatusCode::NO_CONTENT)
}
