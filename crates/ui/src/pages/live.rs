//! Live updates: the streams of the REST API, passed on to the page's script.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, header::CACHE_CONTROL};
use axum::response::{IntoResponse, Response};

use crate::extract::Path;
use crate::failure::Failure;
use crate::urls::encode;
use crate::visitor::Visitor;

pub(crate) async fn execution(
    visitor: Visitor,
    Path((_, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    follow(&visitor, &format!("/workflow-executions/{}/stream", encode(&name)), &headers).await
}

pub(crate) async fn task(
    visitor: Visitor,
    Path((_, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    follow(&visitor, &format!("/tasks/{}/stream", encode(&name)), &headers).await
}

async fn follow(visitor: &Visitor, path: &str, headers: &HeaderMap) -> Result<Response, Failure> {
    let body = visitor.rest().follow(&visitor.api(path), headers.get("last-event-id")).await?;
    Ok(([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")], body).into_response())
}
