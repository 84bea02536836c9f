//! The actions on a standalone task, as buttons. Tasks of workflows have none.

use flovyn_rest_types::Task;
use maud::{Markup, html};

use crate::parts::form;
use crate::visitor::Visitor;

pub(super) fn buttons(visitor: &Visitor, task: &Task) -> Markup {
    if !visitor.may_operate() || task.workflow_execution_id.is_some() {
        return html! {};
    }
    let path = |action: &str| visitor.page(&format!("/tasks/{}/{action}", task.id));
    match task.status.as_str() {
        "FAILED" => form::button(visitor, &path("retry"), "Retry", "primary"),
        "PENDING" => form::button(visitor, &path("cancel"), "Cancel", "danger"),
        _ => html! {},
    }
}
