//! One file per page, or per part of a page that is fetched separately.

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod children;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod execution;
mod execution_actions;
pub(crate) mod executions;
pub(crate) mod home;
mod list;
pub(crate) mod live;
pub(crate) mod login;
pub(crate) mod overview;
pub(crate) mod queues;
pub(crate) mod raw;
pub(crate) mod task;
mod task_actions;
pub(crate) mod tasks;
mod timeline;
pub(crate) mod workers;

use axum::http::HeaderMap;

use crate::wish::Wish;

/// Whether only the part is requested, without the layout around it.
fn is_part(headers: &HeaderMap) -> bool {
    Wish::of(headers) == Wish::Part
}
