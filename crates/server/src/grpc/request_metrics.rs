//! Counts gRPC requests by method and status, and gives each a span.

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

/// Where the caller's trace context is.
struct HeaderExtractor<'a>(&'a HeaderMap);

impl Extractor for HeaderExtractor<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

/// A status that comes in trailers, after the answer began, is not seen here: such a request counts as begun well.
pub(crate) async fn count(State(api): State<Api>, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let span = tracing::debug_span!(target: "flovyn", "grpc.request", rpc.method = %uri.path());
    if !span.is_disabled() {
        // Only where a collector wants it. A failure says that there is none.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&HeaderExtractor(request.headers())));
    }
    let response = next.run(request).instrument(span).await;
    let status = response.headers().get("grpc-status").and_then(|status| status.to_str().ok()).unwrap_or("0");
    // Callers choose paths: those that lead nowhere must not become labels.
    let method = if status == UNIMPLEMENTED { "unknown" } else { uri.path() };
    api.metrics().grpc_answered(method, status);
    response
}
