//! Forms that change something. Each contains its session's token.

use flovyn_rest_types::Definition;
use maud::{Markup, html};

use crate::parts::document;
use crate::session::random;
use crate::visitor::Visitor;

/// A form with only a button.
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

/// The form that the button opens.
pub(crate) fn dialog(
    visitor: &Visitor,
    id: &str,
    title: &str,
    action: &str,
    submit: &str,
    fields: Markup,
) -> Markup {
    html! {
        div.dialog id=(id) popover aria-label=(document::flat(title)) {
            form method="post" action=(action) data-action {
                h2 { (document::name(title)) }
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

/// The hidden fields: a token that proves that the form is from this session, and a key that identifies the form. With
/// the key, a form that is sent twice is executed once.
pub(crate) fn token(visitor: &Visitor) -> Markup {
    html! {
        input type="hidden" name="form_token" value=(visitor.session.form_token());
        @if let Some(key) = random() { input type="hidden" name="form_key" value=(key) autocomplete="off"; }
    }
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
pub(crate) fn json(name: &str, label: &str, initial: &str) -> Markup {
    html! {
        label.field {
            span { (label) }
            textarea name=(name) rows="6" spellcheck="false" autocomplete="off" { (initial) }
        }
    }
}

/// Suggested names. A name with invisible characters is not suggested, because a chosen name is sent unchanged.
pub(crate) fn suggestions(id: &str, known: &[Definition]) -> Markup {
    html! {
        datalist id=(id) {
            @for one in known.iter().filter(|one| document::is_plain(&one.kind)) { option value=(one.kind) {} }
        }
    }
}
