//! Refuses HTTP requests that are too slow, or that have two lengths.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flovyn_engine::Code;

use super::HttpError;
use super::heads::TwoLengths;
use crate::slow::{Patience, Progress};

/// The longest wait for a result that REST allows.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

pub(super) async fn check(State(patience): State<Patience>, request: Request, next: Next) -> Response {
    if request.extensions().get::<TwoLengths>().is_some() {
        let message = "the request has both Content-Length and Transfer-Encoding: send only one";
        let error =
            HttpError::new(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", Code::AmbiguousLength, message);
        return closing(error.into_response());
    }
    let waits = if may_wait(request.uri()) { LONGEST_WAIT } else { Duration::ZERO };
    let (request, progress) = Progress::of(request, patience);
    match progress.answered(waits, next.run(request)).await {
        Ok(response) if progress.was_cut() => closing(response),
        Ok(response) => response,
        Err(_) => {
            let code = Code::OutcomeUnknown;
            let message = "the request was not answered in time: check the state before you send it again";
            let error = HttpError::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", code, message);
            closing(error.into_response())
        }
    }
}

fn may_wait(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("wait=")))
}

/// Closes the connection after the response, because the rest of the body is not read.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
