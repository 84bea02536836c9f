//! REST: one file per resource. Requests in JSON, answers in JSON; no rule stands here.
//!
//! Everything lies below `/api/tenants/{tenant}`, where the tenant is a slug or an id; `/api/orgs` is the same.

mod access;
mod body;
mod cursor;
mod error;
mod events;
mod executions;
mod page;
mod promises;
mod queues;
mod stream;
mod tasks;
mod tenants;
mod times;
mod trigger;
mod worker_tokens;
mod workers;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};

pub use error::RestError;

use crate::api::Api;

/// Largest body: a batch of starts.
const MAX_BODY_BYTES: usize = 16 << 20;

/// All paths below `/api`.
pub fn router(api: Api) -> Router {
    let tenant = tenant_routes();
    Router::new()
        .route("/tenants", post(tenants::create))
        .nest("/tenants/{tenant}", tenant.clone())
        .nest("/orgs/{tenant}", tenant)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(api)
}

fn tenant_routes() -> Router<Api> {
    Router::new()
        .route("/", get(tenants::get))
        .route("/workflows/batch", post(trigger::batch))
        // One segment is a kind here and an execution's id there: the router knows it by its position only.
        .route("/workflows/{name}/trigger", post(trigger::trigger))
        .route("/workflows/{name}/status", get(executions::status))
        .route("/workflows/{name}/cancel", post(executions::cancel))
        .route("/workflow-executions", get(executions::list).post(trigger::start))
        .route("/workflow-executions/signal-with-start", post(trigger::signal_with_start))
        .route("/workflow-executions/{name}", get(executions::get).delete(executions::delete))
        .route("/workflow-executions/{name}/events", get(events::list))
        .route("/workflow-executions/{name}/tasks", get(executions::tasks))
        .route("/workflow-executions/{name}/children", get(executions::children))
        .route("/workflow-executions/{name}/state", get(executions::state))
        .route("/workflow-executions/{name}/stream", get(stream::execution))
        .route("/workflow-executions/{name}/cancel", post(executions::cancel))
        .route("/workflow-executions/{name}/terminate", post(executions::terminate))
        .route("/workflow-executions/{name}/retry", post(executions::retry))
        .route("/workflow-executions/{name}/signal", post(executions::signal))
        .merge(task_routes("/tasks"))
        .merge(task_routes("/task-executions"))
        .route("/promises/{promise}/resolve", post(promises::resolve))
        .route("/promises/{promise}/reject", post(promises::reject))
        .route("/worker-tokens", get(worker_tokens::list).post(worker_tokens::create))
        .route("/worker-tokens/{name}", delete(worker_tokens::revoke))
        .route("/workers", get(workers::list))
        .route("/definitions", get(workers::definitions))
        .route("/queues", get(queues::list))
        .route("/queues/{name}/pause", post(queues::pause))
        .route("/queues/{name}/resume", post(queues::resume))
}

fn task_routes(base: &str) -> Router<Api> {
    let path = |rest: &str| format!("{base}{rest}");
    Router::new()
        .route(base, get(tasks::list).post(tasks::create))
        .route(&path("/batch"), post(tasks::batch))
        .route(&path("/{name}"), get(tasks::get).delete(tasks::cancel))
        .route(&path("/{name}/attempts"), get(tasks::attempts))
        .route(&path("/{name}/logs"), get(tasks::logs))
        .route(&path("/{name}/retry"), post(tasks::retry))
}
