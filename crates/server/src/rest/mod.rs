//! REST: one file per resource. Requests in JSON, answers in JSON; no rule stands here.
//!
//! Everything lies below `/api/tenants/{tenant}`, where the tenant is a slug or an id; `/api/orgs` is the same.

mod access;
mod body;
mod cursor;
mod error;
mod events;
mod executions;
mod extract;
mod page;
mod promises;
mod queues;
mod quota;
mod stream;
mod task_stream;
mod tasks;
mod tenants;
mod times;
mod trigger;
mod worker_tokens;
mod workers;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodFilter, on};

pub use error::RestError;

use crate::api::Api;

/// Largest body: a batch of starts.
const MAX_BODY_BYTES: usize = 16 << 20;

/// The one table of routes: the router is built from it, and tests go through it.
macro_rules! routes {
    ($($method:ident $path:literal $handler:path;)*) => {
        /// Method and path of every route below a tenant, and of making tenants. `/api/orgs` has the same.
        pub const ROUTES: &[(&str, &str)] = &[
            ("POST", "/api/tenants"),
            $((stringify!($method), concat!("/api/tenants/{tenant}", $path)),)*
        ];

        /// All paths below `/api`.
        pub fn router(api: Api) -> Router {
            Router::new()
                .route("/tenants", on(MethodFilter::POST, tenants::create))
                $(
                    .route(concat!("/tenants/{tenant}", $path), on(MethodFilter::$method, $handler))
                    .route(concat!("/orgs/{tenant}", $path), on(MethodFilter::$method, $handler))
                )*
                .fallback(error::no_such_path)
                .method_not_allowed_fallback(error::no_such_method)
                .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
                .layer(axum::middleware::from_fn_with_state(api.clone(), crate::metrics::rest::measure))
                .with_state(api)
        }
    };
}

// One segment is a kind here and an execution's id there: the router knows it by its position only.
routes! {
    GET "" tenants::get;
    POST "/workflows/batch" trigger::batch;
    POST "/workflows/{name}/trigger" trigger::trigger;
    GET "/workflows/{name}/status" executions::status;
    POST "/workflows/{name}/cancel" executions::cancel;
    GET "/workflow-executions" executions::list;
    POST "/workflow-executions" trigger::start;
    POST "/workflow-executions/signal-with-start" trigger::signal_with_start;
    GET "/workflow-executions/{name}" executions::get;
    DELETE "/workflow-executions/{name}" executions::delete;
    GET "/workflow-executions/{name}/events" events::list;
    GET "/workflow-executions/{name}/tasks" executions::tasks;
    GET "/workflow-executions/{name}/children" executions::children;
    GET "/workflow-executions/{name}/state" executions::state;
    GET "/workflow-executions/{name}/stream" stream::execution;
    POST "/workflow-executions/{name}/cancel" executions::cancel;
    POST "/workflow-executions/{name}/terminate" executions::terminate;
    POST "/workflow-executions/{name}/retry" executions::retry;
    POST "/workflow-executions/{name}/signal" executions::signal;
    GET "/tasks" tasks::list;
    POST "/tasks" tasks::create;
    POST "/tasks/batch" tasks::batch;
    GET "/tasks/{name}" tasks::get;
    DELETE "/tasks/{name}" tasks::cancel;
    GET "/tasks/{name}/attempts" tasks::attempts;
    GET "/tasks/{name}/logs" tasks::logs;
    GET "/tasks/{name}/stream" task_stream::task;
    POST "/tasks/{name}/retry" tasks::retry;
    GET "/task-executions" tasks::list;
    POST "/task-executions" tasks::create;
    POST "/task-executions/batch" tasks::batch;
    GET "/task-executions/{name}" tasks::get;
    DELETE "/task-executions/{name}" tasks::cancel;
    GET "/task-executions/{name}/attempts" tasks::attempts;
    GET "/task-executions/{name}/logs" tasks::logs;
    GET "/task-executions/{name}/stream" task_stream::task;
    POST "/task-executions/{name}/retry" tasks::retry;
    POST "/promises/{promise}/resolve" promises::resolve;
    POST "/promises/{promise}/reject" promises::reject;
    GET "/worker-tokens" worker_tokens::list;
    POST "/worker-tokens" worker_tokens::create;
    DELETE "/worker-tokens/{name}" worker_tokens::revoke;
    GET "/workers" workers::list;
    GET "/definitions" workers::definitions;
    GET "/queues" queues::list;
    POST "/queues/{name}/pause" queues::pause;
    POST "/queues/{name}/resume" queues::resume;
    GET "/quota" quota::get;
    PUT "/quota" quota::set;
}
