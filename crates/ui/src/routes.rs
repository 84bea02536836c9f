//! Every path of the pages. What is below a tenant names it, so that an address can be kept and shared.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::pages::{
    access, audit, children, event, events, execution, executions, home, live, login, overview, queues, raw,
    task, tasks, workers,
};
use crate::{Ui, actions, assets, guard, nowhere};

/// A payload of the largest size, encoded as forms are.
const MAX_BODY_BYTES: usize = 4 << 20;

pub(crate) fn router(ui: Ui) -> Router {
    let of_tenant = Router::new()
        .route("/", get(overview::get))
        .route("/executions", get(executions::get).post(actions::start))
        .route("/executions/{name}", get(execution::get))
        .route("/executions/{name}/events", get(events::get))
        .route("/executions/{name}/events/{sequence}", get(event::get))
        .route("/executions/{name}/children", get(children::get))
        .route("/executions/{name}/live", get(live::execution))
        .route("/executions/{name}/raw/{part}", get(raw::execution))
        .route("/executions/{name}/tasks/{task}", get(task::of_execution))
        .route("/executions/{name}/cancel", post(actions::cancel))
        .route("/executions/{name}/terminate", post(actions::terminate))
        .route("/executions/{name}/signal", post(actions::signal))
        .route("/executions/{name}/retry", post(actions::retry))
        .route("/executions/{name}/promises/{promise}/resolve", post(actions::resolve))
        .route("/executions/{name}/promises/{promise}/reject", post(actions::reject))
        .route("/tasks", get(tasks::get).post(actions::create_task))
        .route("/tasks/{task}", get(task::get))
        .route("/tasks/{task}/live", get(live::task))
        .route("/tasks/{task}/retry", post(actions::retry_task))
        .route("/tasks/{task}/cancel", post(actions::cancel_task))
        .route("/queues", get(queues::get))
        .route("/queues/{name}/pause", post(actions::pause))
        .route("/queues/{name}/resume", post(actions::resume))
        .route("/workers", get(workers::get))
        .route("/access", get(access::get))
        .route("/access/tokens", get(access::after_token).post(access::create_token))
        .route("/access/tokens/{name}/revoke", post(actions::revoke_token))
        .route("/audit", get(audit::get));
    Router::new()
        .route("/", get(home::get))
        .route("/login", get(login::get).post(login::post))
        .route("/logout", post(login::leave))
        .route("/tenants", post(actions::create_tenant))
        .route("/assets/{hash}/{name}", get(assets::get))
        .nest("/t/{tenant}", of_tenant)
        .fallback(nowhere::nothing)
        .method_not_allowed_fallback(nowhere::another_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(ui.clone(), guard::check))
        .with_state(ui)
}
