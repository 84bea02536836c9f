//! Measures how long REST requests take, by route and status.

use std::io::Write;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use flovyn_service::metrics::OTHER;

use crate::api::Api;

/// Longer than any method and route together.
const LONGEST: usize = 160;
/// The alias prefix of the same routes.
const ALIAS: &str = "/api/orgs/";
const CANONICAL: &str = "/api/tenants/";

/// Measures until the head of the answer is ready, because the body of a stream lasts as long as a client follows it.
pub(crate) async fn measure(State(api): State<Api>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let response = next.run(request).await;
    let mut buffer = [0; LONGEST];
    // Callers choose the paths. Paths that do not exist must not become labels.
    let endpoint = path.as_ref().map_or(OTHER, |path| endpoint(&mut buffer, method.as_str(), path.as_str()));
    let histogram = api.metrics().rest_duration.with(&[endpoint, response.status().as_str()]);
    histogram.record(begin.elapsed().as_secs_f64());
    response
}

/// The method and the route, joined without allocating memory.
fn endpoint<'a>(buffer: &'a mut [u8; LONGEST], method: &str, path: &str) -> &'a str {
    let (prefix, rest) = path.strip_prefix(ALIAS).map_or(("", path), |rest| (CANONICAL, rest));
    let mut left = &mut buffer[..];
    let written = write!(left, "{method} {prefix}{rest}");
    let unused = left.len();
    let used = LONGEST - unused;
    written.ok().and_then(|()| std::str::from_utf8(&buffer[..used]).ok()).unwrap_or(OTHER)
}
