//! Counts gRPC requests by method and status, and gives each a span.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

/// The status of a method that does not exist.
const UNIMPLEMENTED: &str = "12";

/// A status that comes in trailers, after the answer began, is not seen here: such a request counts as begun well.
pub(crate) async fn count(request: Request, next: Next) -> Response {
    let method = request.uri().path().to_owned();
    let span = tracing::debug_span!(target: "flovyn", "grpc.request", rpc.method = %method);
    let response = next.run(request).instrument(span).await;
    let status = response.headers().get("grpc-status").and_then(|status| status.to_str().ok()).unwrap_or("0");
    // Callers choose paths: those that lead nowhere must not become labels.
    let method = if status == UNIMPLEMENTED { "unknown".to_owned() } else { method };
    metrics::counter!("flovyn_grpc_requests_total", "method" => method, "code" => status.to_owned())
        .increment(1);
    response
}
