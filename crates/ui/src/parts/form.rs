//! Forms that change something. Each carries its session's token.

use maud::{Markup, html};

use crate::visitor::Visitor;

/// A form with nothing but a button.
pub(crate) fn button(visitor: &Visitor, action: &str, label: &str, class: &str) -> Markup {
    html! {
        form.inline method="post" action=(action) data-action {
            (token(visitor))
            button class=(format!("button {class}")) { (label) }
        }
    }
}

/// A button that opens a form.
pub(crate) fn opener(id: &str, label: &str, class: &str) -> Markup {
    html! { button class=(format!("button {class}")) type="button" popovertarget=(id) { (label) } }
}

/// The form that it opens.
pub(crate) fn dialog(
    visitor: &Visitor,
    id: &str,
    title: &str,
    action: &str,
    submit: &str,
    fields: Markup,
) -> Markup {
    html! {
        div.dialog id=(id) popover aria-label=(title) {
            form method="post" action=(action) data-action {
                h2 { (title) }
                (token(visitor))
                (fields)
                p.problem role="alert" hidden {}
                div.dialog-buttons {
                    button.button type="button" popovertarget=(id) popovertargetaction="hide" { "Close" }
                    button.button.primary type="submit" { (submit) }
                }
            }
        }
    }
}

pub(crate) fn token(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="form_token" value=(visitor.session.form_token()); }
}

/// A line of text.
pub(crate) fn field(name: &str, label: &str, hint: &str, required: bool) -> Markup {
    html! {
        label.field {
            span { (label) }
            input type="text" name=(name) placeholder=(hint) required[required] autocomplete="off" spellcheck="false";
        }
    }
}

/// A JSON document.
pub(crate) fn document(name: &str, label: &str, initial: &str) -> Markup {
    html! {
        label.field {
            span { (label) }
            textarea name=(name) rows="6" spellcheck="false" autocomplete="off" { (initial) }
        }
    }
}
