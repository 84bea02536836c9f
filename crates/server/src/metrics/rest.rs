//! How long REST requests take, by route and status.

use std::io::Write;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use flovyn_service::metrics::OTHER;

use crate::api::Api;

/// Longer than any route with its method.
const LONGEST: usize = 160;
/// The same routes under another name.
const ALIAS: &str = "/api/orgs/";
const CANONICAL: &str = "/api/tenants/";

/// Until the answer's head is ready: the body of a stream goes on for as long as somebody follows it.
pub(crate) async fn measure(State(api): State<Api>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let response = next.run(request).await;
    let mut buffer = [0; LONGEST];
    // Callers choose paths: those that lead nowhere must not become labels.
    let endpoint = path.as_ref().map_or(OTHER, |path| endpoint(&mut buffer, method.as_str(), path.as_str()));
    let histogram = api.metrics().rest_duration.with(&[endpoint, response.status().as_str()]);
    histogram.record(begin.elapsed().as_secs_f64());
    response
}

/// Method and route, put together without taking memory for it.
fn endpoint<'a>(buffer: &'a mut [u8; LONGEST], method: &str, path: &str) -> &'a str {
    let (prefix, rest) = path.strip_prefix(ALIAS).map_or(("", path), |rest| (CANONICAL, rest));
    let mut left = &mut buffer[..];
    let written = write!(left, "{method} {prefix}{rest}");
    let unused = left.len();
    let used = LONGEST - unused;
    written.ok().and_then(|()| std::str::from_utf8(&buffer[..used]).ok()).unwrap_or(OTHER)
}
