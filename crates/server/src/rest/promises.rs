//! Answering promises: by id, or by `key:` and the key.

use axum::extract::Path;
use axum::http::StatusCode;
use flovyn_auth::Role;
use flovyn_engine::Code;
use flovyn_engine::request::{Answer, AnswerPromise, PromiseRef};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::access::Caller;
use super::body::{payload, read, read_or_default};
use super::error::RestError;
use super::executions::id;
use super::extract::Body;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ResolveRequest {
    value: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RejectRequest {
    error: String,
}

pub(super) async fn resolve(
    caller: Caller,
    Path((_, promise)): Path<(String, String)>,
    Body(body): Body,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Operator)?;
    let request: ResolveRequest = read_or_default(&body)?;
    answer(&caller, &promise, Answer::Resolve(payload(request.value, "null"))).await
}

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
