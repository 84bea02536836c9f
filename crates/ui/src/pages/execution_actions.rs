//! The actions on an execution, as buttons. REST decides whether an action is allowed.

use flovyn_rest_types::Execution;
use maud::{Markup, html};

use crate::parts::form;
use crate::visitor::Visitor;

pub(super) fn buttons(visitor: &Visitor, row: &Execution, own: &str) -> Markup {
    if !visitor.may_operate() {
        return html! {};
    }
    let path = |action: &str| format!("{own}/{action}");
    let reason = || form::field("reason", "Reason", "kept in the history", false);
    if !row.has_ended() {
        let signal = html! {
            (form::field("name", "Name", "such as approved", true))
            (form::json("value", "Value (JSON)", "null"))
        };
        let cancel = html! {
            p.muted { "The workflow is asked to stop and may clean up first. Its children are cancelled too." }
            (reason())
        };
        let terminate = html! {
            p.muted { "It is stopped at once, without clean-up. Its children continue." }
            (reason())
        };
        let held_back = row.waiting_on.iter().flatten().any(|one| one.kind == "ACTIVATION_BACKOFF");
        let release = html! {
            p.muted { "A worker of any build may take it now, including a build that failed on it." }
        };
        return html! {
            @if held_back {
                (form::opener("release", "Release", "primary"))
                (form::dialog(visitor, "release", "Release this execution?", &path("release"), "Release it", release))
            }
            (form::opener("signal", "Signal", ""))
            (form::opener("cancel", "Cancel", "danger"))
            (form::opener("terminate", "Terminate", "danger quiet-danger"))
            (form::dialog(visitor, "signal", "Send a signal", &path("signal"), "Send", signal))
            (form::dialog(visitor, "cancel", "Cancel this execution?", &path("cancel"), "Cancel it", cancel))
            (form::dialog(visitor, "terminate", "Terminate this execution?", &path("terminate"), "Terminate it", terminate))
        };
    }
    if row.status == "COMPLETED" {
        return html! {};
    }
    let about = html! { p.muted { "A new execution with the same input, linked to this one." } };
    html! {
        (form::opener("retry", "Retry", "primary"))
        (form::dialog(visitor, "retry", "Retry this execution?", &path("retry"), "Retry", about))
    }
}
