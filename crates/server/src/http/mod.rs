//! HTTP: health, metrics and, on a virtual clock, time; REST and the web pages hang here too. One file per resource; no rule
//! stands here.

mod clock;
mod cors;
mod error;
pub(crate) mod health;
mod local_only;
mod metrics;
pub(crate) mod serve;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::routing::{get, post};
use tower_http::cors::CorsLayer;

pub use error::HttpError;

use crate::api::Api;
use crate::virtual_clock::VirtualClock;

/// What handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HttpState {
    pub api: Api,
    pub started: Instant,
    /// Whether `/_/metrics` needs no credential.
    pub public_metrics: bool,
    /// Whether `/api/docs` needs no credential.
    pub public_docs: bool,
    /// There is a clock to move only where this is set.
    pub clock: Option<Arc<VirtualClock>>,
    /// Refuses requests that a foreign web page might send through a browser on this machine.
    pub local_only: bool,
    /// How the web pages are served.
    pub ui: flovyn_ui::Options,
    /// Which pages may call the REST API from a browser. None: only those that this server brings.
    pub cors: Option<CorsLayer>,
}

pub(crate) use cors::layer as cors_layer;

/// All paths.
pub fn router(state: HttpState) -> Router {
    let local_only = state.local_only;
    let rest = crate::rest::router(state.api.clone(), state.public_docs);
    // The web pages are a client of REST: they call what everybody else calls, without the network between.
    let ui = flovyn_ui::router(Router::new().nest_service("/api", rest.clone()), state.ui.clone());
    let rest = match state.cors.clone() {
        Some(cors) => rest.layer(cors),
        None => rest,
    };
    let mut router = Router::new()
        .route("/_/health", get(health::health))
        .route("/_/health/live", get(health::live))
        .route("/_/health/ready", get(health::ready))
        .route("/_/metrics", get(metrics::scrape));
    if state.clock.is_some() {
        router = router.route("/_/clock/advance", post(clock::advance));
    }
    // What is at no path is answered by the pages, in the form that was asked for.
    let router = router
        .nest_service("/api", rest)
        .method_not_allowed_fallback(error::method_not_allowed)
        .with_state(state)
        .merge(ui);
    if local_only { router.layer(axum::middleware::from_fn(local_only::check)) } else { router }
}
