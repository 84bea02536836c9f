//! Creates a tenant, for visitors who may.

use maud::{Markup, html};

use super::form;
use crate::visitor::Visitor;

/// The command that does the same in a terminal.
pub(crate) const COMMAND: &str = "flovyn tenant create my-team";

/// The button and the form that it opens.
pub(crate) fn maker(visitor: &Visitor, class: &str) -> Markup {
    if !visitor.is_server_admin() {
        return html! {};
    }
    let fields = html! {
        p.muted { "A tenant has its own executions, tasks, queues and tokens; other tenants cannot see them." }
        (form::field("slug", "Slug", "lower-case letters, digits and hyphens, such as my-team", true))
        (form::field("name", "Name", "the display name; default: the slug", false))
    };
    html! {
        (form::opener("make-tenant", "New tenant", class))
        (form::dialog(visitor, "make-tenant", "New tenant", "/tenants", "Create", fields))
    }
}
