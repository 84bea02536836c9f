//! HTTP: health, metrics and the virtual clock; REST and the web pages are mounted here too. One file per resource. It
//! contains no rules.

mod clock;
mod cors;
mod error;
mod heads;
pub(crate) mod health;
mod local_only;
mod metrics;
pub(crate) mod serve;
mod slow;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, X_FRAME_OPTIONS};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use flovyn_store::Clock;
use tower_http::cors::CorsLayer;

pub use error::HttpError;

pub use metrics::Readers;

use crate::api::Api;
use crate::config::MetricsAccess;
use crate::slow::Patience;
use crate::virtual_clock::VirtualClock;

/// The header with the time of a virtual clock.
const NOW_MS: &str = "flovyn-now-ms";

/// The state that handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HttpState {
    pub api: Api,
    pub started: Instant,
    /// The callers that may read `/_/metrics`.
    pub metrics: Readers,
    /// Whether `/api/docs` needs no credential.
    pub public_docs: bool,
    /// The virtual clock. `None`: the server uses real time, and the clock cannot be moved.
    pub clock: Option<Arc<VirtualClock>>,
    /// Whether to refuse requests that a foreign web page might send through a browser on this machine.
    pub local_only: bool,
    /// The options of the web pages.
    pub ui: flovyn_ui::Options,
    /// Which pages may call the REST API from a browser. `None`: only the pages of this server.
    pub cors: Option<CorsLayer>,
    /// The limits for slow requests.
    pub(crate) patience: Patience,
}

pub(crate) use cors::layer as cors_layer;

/// The only table of paths outside of `/api` and the pages. The router is built from it, and tests iterate over it.
macro_rules! routes {
    ($($method:ident $path:literal $handler:path $(, only if $there:expr)?;)*) => {
        /// The method and path of every route here. Some exist only if the server is configured for them.
        pub const ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path),)*];

        fn own_routes(state: &HttpState) -> Router<HttpState> {
            let mut router = Router::new();
            $(
                let there: fn(&HttpState) -> bool = |_state| { true $(&& $there(_state))? };
                if there(state) {
                    router = router.route($path, on(MethodFilter::$method, $handler));
                }
            )*
            router
        }
    };
}

routes! {
    GET "/_/health" health::health;
    GET "/_/health/live" health::live;
    GET "/_/health/ready" health::ready;
    GET "/_/metrics" metrics::scrape, only if has_metrics;
    POST "/_/clock/advance" clock::advance, only if has_clock;
}

fn has_metrics(state: &HttpState) -> bool {
    state.metrics.access != MetricsAccess::Off
}

fn has_clock(state: &HttpState) -> bool {
    state.clock.is_some()
}

/// All paths.
pub fn router(state: HttpState) -> Router {
    let (local_only, patience) = (state.local_only, state.patience);
    let rest = crate::rest::router(state.api.clone(), state.public_docs);
    // The web pages are a client of REST: they call the same router, without a network in between.
    let ui = flovyn_ui::router(Router::new().nest_service("/api", rest.clone()), state.ui.clone());
    let rest = match state.cors.clone() {
        Some(cors) => rest.layer(cors),
        None => rest,
    };
    let clock = state.clock.clone();
    let ui = match clock.clone() {
        Some(clock) => {
            ui.layer(from_fn(move |request, next: Next| flovyn_ui::as_of(clock.now().ms, next.run(request))))
        }
        None => ui,
    };
    // The pages answer unknown paths, in the form that the caller accepts.
    let router = own_routes(&state)
        .nest_service("/api", rest)
        .method_not_allowed_fallback(error::method_not_allowed)
        .with_state(state)
        .merge(ui);
    let router = if local_only { router.layer(from_fn(local_only::check)) } else { router };
    let router = match clock {
        Some(clock) => router.layer(map_response(move |response| tell_time(response, clock.now().ms))),
        None => router,
    };
    let in_time = from_fn_with_state(patience, slow::check);
    router.layer(in_time).layer(map_response(no_frame)).layer(from_fn(crate::peer::know))
}

/// Adds the current time to every answer of a server with a virtual clock. Clients compute ages from it.
async fn tell_time(mut response: Response, now_ms: i64) -> Response {
    response.headers_mut().insert(NOW_MS, HeaderValue::from(now_ms));
    response
}

/// Forbids pages of other sites to embed any answer of this server in a frame.
async fn no_frame(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.entry(X_FRAME_OPTIONS).or_insert(HeaderValue::from_static("DENY"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("frame-ancestors 'none'"));
    response
}
