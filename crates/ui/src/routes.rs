//! Every path of the pages. A path of a tenant's page contains the tenant, so it can be bookmarked and shared.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};

use crate::pages::{
    access, audit, children, event, events, execution, executions, home, live, login, overview, queues, raw,
    task, tasks, workers,
};
use crate::{Ui, actions, assets, guard, nowhere};

/// The largest body: a payload of the largest size, encoded as a form.
const MAX_BODY_BYTES: usize = 4 << 20;

/// The only table of pages and forms. The router is built from it, and tests iterate over it.
macro_rules! routes {
    ($($method:ident $path:literal $handler:path;)*) => {
        /// The method and path of every page and form.
        pub const ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path),)*];

        pub(crate) fn router(ui: Ui) -> Router {
            Router::new()
                $(.route($path, on(MethodFilter::$method, $handler)))*
                .fallback(nowhere::nothing)
                .method_not_allowed_fallback(nowhere::another_method)
                .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
                .layer(from_fn_with_state(ui.clone(), guard::check))
                .with_state(ui)
        }
    };
}

routes! {
    GET "/" home::get;
    GET "/login" login::get;
    POST "/login" login::post;
    POST "/logout" login::leave;
    POST "/tenants" actions::create_tenant;
    GET "/assets/{hash}/{name}" assets::get;
    GET "/t/{tenant}" overview::get;
    GET "/t/{tenant}/executions" executions::get;
    POST "/t/{tenant}/executions" actions::start;
    GET "/t/{tenant}/executions/{name}" execution::get;
    GET "/t/{tenant}/executions/{name}/events" events::get;
    GET "/t/{tenant}/executions/{name}/events/{sequence}" event::get;
    GET "/t/{tenant}/executions/{name}/children" children::get;
    GET "/t/{tenant}/executions/{name}/live" live::execution;
    GET "/t/{tenant}/executions/{name}/raw/{part}" raw::execution;
    GET "/t/{tenant}/executions/{name}/tasks/{task}" task::of_execution;
    POST "/t/{tenant}/executions/{name}/cancel" actions::cancel;
    POST "/t/{tenant}/executions/{name}/terminate" actions::terminate;
    POST "/t/{tenant}/executions/{name}/release" actions::release;
    POST "/t/{tenant}/executions/{name}/signal" actions::signal;
    POST "/t/{tenant}/executions/{name}/retry" actions::retry;
    POST "/t/{tenant}/executions/{name}/promises/{promise}/resolve" actions::resolve;
    POST "/t/{tenant}/executions/{name}/promises/{promise}/reject" actions::reject;
    GET "/t/{tenant}/tasks" tasks::get;
    POST "/t/{tenant}/tasks" actions::create_task;
    GET "/t/{tenant}/tasks/{task}" task::get;
    GET "/t/{tenant}/tasks/{task}/live" live::task;
    POST "/t/{tenant}/tasks/{task}/retry" actions::retry_task;
    POST "/t/{tenant}/tasks/{task}/cancel" actions::cancel_task;
    GET "/t/{tenant}/queues" queues::get;
    POST "/t/{tenant}/queues/{name}/pause" actions::pause;
    POST "/t/{tenant}/queues/{name}/resume" actions::resume;
    GET "/t/{tenant}/workers" workers::get;
    GET "/t/{tenant}/access" access::get;
    GET "/t/{tenant}/access/tokens" access::after_token;
    POST "/t/{tenant}/access/tokens" access::create_token;
    POST "/t/{tenant}/access/tokens/{name}/revoke" actions::revoke_token;
    GET "/t/{tenant}/audit" audit::get;
}
