//! Counts gRPC requests by method and status, and creates a span for each.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::api::Api;

/// The status of a method that does not exist.
const UNIMPLEMENTED: &str = "12";

/// Reads the caller's trace context from the headers.
struct HeaderExtractor<'a>(&'a HeaderMap);

impl Extractor for HeaderExtractor<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

/// Counts one request. A status in the trailers of a stream is not visible here, so such a request counts as
/// successful.
pub(crate) async fn count(State(api): State<Api>, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let span = tracing::debug_span!(target: "flovyn", "grpc.request", rpc.method = %uri.path());
    if !span.is_disabled() {
        // Only if a collector is configured. An error means that there is none.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&HeaderExtractor(request.headers())));
    }
    let response = next.run(request).instrument(span).await;
    let status = response.headers().get("grpc-status").and_then(|status| status.to_str().ok()).unwrap_or("0");
    // Callers choose the paths. Paths that do not exist must not become labels.
    let method = if status == UNIMPLEMENTED { "unknown" } else { uri.path() };
    api.metrics().grpc_answered(method, status);
    response
}
