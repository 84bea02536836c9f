//! Whole payloads, for those that are too large for a page. They are sent as plain text, so a browser shows them and
//! runs nothing.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use flovyn_rest_types::Execution;

use crate::extract::Path;
use crate::failure::Failure;
use crate::urls::encode;
use crate::visitor::Visitor;

pub(crate) async fn execution(
    visitor: Visitor,
    Path((_, name, part)): Path<(String, String, String)>,
) -> Result<Response, Failure> {
    let path = visitor.api(&format!("/workflow-executions/{}", encode(&name)));
    let row: Execution = visitor.rest().get(&path).await?;
    let document = match part.as_str() {
        "input" => row.input,
        "output" => row.output,
        _ => None,
    };
    let document = document.ok_or_else(|| Failure::not_found("the execution has no such payload"))?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], document.get().to_owned()).into_response())
}
