//! REST: one file per resource. Requests and answers are JSON. It contains no rules.
//!
//! All paths begin with `/api/tenants/{tenant}`, where the tenant is a slug or an id; `/api/orgs` is an alias.

mod access;
mod activity;
mod audit;
mod body;
mod by_key;
mod create;
mod cursor;
mod docs;
mod error;
mod events;
mod examples;
mod execution_actions;
mod execution_info;
mod execution_list;
mod executions;
mod extract;
mod filter;
mod key_header;
mod me;
mod metrics;
mod names;
pub mod openapi;
mod page;
mod problem;
mod promises;
mod queues;
mod quota;
mod refusals;
mod stream;
mod task_create;
mod task_history;
mod task_info;
mod task_stream;
mod tasks;
mod tenants;
mod times;
mod trigger;
mod worker_tokens;
mod workers;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, on};
use utoipa::OpenApi;

pub use docs::DOCS_ROUTES;
pub use error::RestError;

use crate::api::Api;

/// The largest body, for example a batch of starts.
const MAX_BODY_BYTES: usize = 16 << 20;

/// The only table of routes. The router and the OpenAPI document are built from it, and tests iterate over it.
macro_rules! routes {
    (
        documented { $($method:ident $path:literal $module:ident::$handler:ident;)* }
        aliases { $($alias_method:ident $alias:literal $alias_of:path;)* }
    ) => {
        /// The method and path of every route below a tenant, of creating tenants, and of `/me`. `/api/orgs` has the
        /// same routes.
        pub const ROUTES: &[(&str, &str)] = &[
            ("GET", "/api/me"),
            ("POST", "/api/tenants"),
            $((stringify!($method), concat!("/api/tenants/{tenant}", $path)),)*
            $((stringify!($alias_method), concat!("/api/tenants/{tenant}", $alias)),)*
        ];

        /// The operations below `/api/tenants/{tenant}`, for the OpenAPI document.
        #[derive(Debug, OpenApi)]
        #[openapi(paths($($module::$handler),*))]
        struct OfTenant;

        /// All paths below `/api`. The API documentation needs a credential unless `public_docs` is true.
        pub fn router(api: Api, public_docs: bool) -> Router {
            Router::new()
                .merge(docs::router(&api, public_docs))
                .route("/me", on(MethodFilter::GET, me::get))
                .route("/tenants", on(MethodFilter::POST, tenants::create))
                $(
                    .route(concat!("/tenants/{tenant}", $path), on(MethodFilter::$method, $module::$handler))
                    .route(concat!("/orgs/{tenant}", $path), on(MethodFilter::$method, $module::$handler))
                )*
                $(
                    .route(concat!("/tenants/{tenant}", $alias), on(MethodFilter::$alias_method, $alias_of))
                    .route(concat!("/orgs/{tenant}", $alias), on(MethodFilter::$alias_method, $alias_of))
                )*
                .fallback(error::no_such_path)
                .method_not_allowed_fallback(error::no_such_method)
                .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
                .layer(from_fn(problem::answer))
                .layer(axum::middleware::from_fn_with_state(api.clone(), crate::metrics::rest::measure))
                .with_state(api)
        }
    };
}

// The same segment is a kind in one route and an execution's id in another; the router needs one name for both.
routes! {
    documented {
        GET "" tenants::get;
        POST "/workflows/batch" trigger::batch;
        POST "/workflows/{name}/trigger" trigger::trigger;
        GET "/workflows/{name}/status" executions::status;
        GET "/workflow-executions" execution_list::list;
        POST "/workflow-executions" trigger::start;
        POST "/workflow-executions/signal-with-start" trigger::signal_with_start;
        GET "/workflow-executions/by-key/{name}" by_key::get;
        GET "/workflow-executions/by-key/{name}/state" by_key::state;
        POST "/workflow-executions/by-key/{name}/signal" by_key::signal;
        POST "/workflow-executions/by-key/{name}/cancel" by_key::cancel;
        POST "/workflow-executions/by-key/{name}/terminate" by_key::terminate;
        GET "/workflow-executions/{name}" executions::get;
        DELETE "/workflow-executions/{name}" execution_actions::delete;
        GET "/workflow-executions/{name}/events" events::list;
        GET "/workflow-executions/{name}/tasks" execution_list::tasks;
        GET "/workflow-executions/{name}/children" execution_list::children;
        GET "/workflow-executions/{name}/state" executions::state;
        GET "/workflow-executions/{name}/stream" stream::execution;
        POST "/workflow-executions/{name}/cancel" execution_actions::cancel;
        POST "/workflow-executions/{name}/terminate" execution_actions::terminate;
        POST "/workflow-executions/{name}/release" execution_actions::release;
        POST "/workflow-executions/{name}/retry" execution_actions::retry;
        POST "/workflow-executions/{name}/signal" execution_actions::signal;
        GET "/tasks" tasks::list;
        POST "/tasks" task_create::create;
        POST "/tasks/batch" task_create::batch;
        GET "/tasks/{name}" tasks::get;
        DELETE "/tasks/{name}" tasks::cancel;
        GET "/tasks/{name}/attempts" task_history::attempts;
        GET "/tasks/{name}/logs" task_history::logs;
        GET "/tasks/{name}/stream" task_stream::task;
        POST "/tasks/{name}/retry" tasks::retry;
        POST "/promises/{promise}/resolve" promises::resolve;
        POST "/promises/{promise}/reject" promises::reject;
        GET "/worker-tokens" worker_tokens::list;
        POST "/worker-tokens" worker_tokens::create;
        DELETE "/worker-tokens/{name}" worker_tokens::revoke;
        GET "/workers" workers::list;
        GET "/definitions" workers::definitions;
        GET "/activity" activity::get;
        GET "/metrics" metrics::get;
        GET "/audit" audit::list;
        GET "/queues" queues::list;
        POST "/queues/{name}/pause" queues::pause;
        POST "/queues/{name}/resume" queues::resume;
        GET "/quota" quota::get;
        PUT "/quota" quota::set;
    }
    // Left out of the OpenAPI document.
    aliases {
        POST "/workflows/{name}/cancel" execution_actions::cancel;
        GET "/task-executions" tasks::list;
        POST "/task-executions" task_create::create;
        POST "/task-executions/batch" task_create::batch;
        GET "/task-executions/{name}" tasks::get;
        DELETE "/task-executions/{name}" tasks::cancel;
        GET "/task-executions/{name}/attempts" task_history::attempts;
        GET "/task-executions/{name}/logs" task_history::logs;
        GET "/task-executions/{name}/stream" task_stream::task;
        POST "/task-executions/{name}/retry" tasks::retry;
    }
}
