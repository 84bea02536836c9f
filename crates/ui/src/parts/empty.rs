//! Where there is nothing yet: what would be here, and the command that puts something there.

use maud::{Markup, html};

use super::copy;

/// What is missing, why it matters, and what to type.
pub(crate) fn empty(title: &str, about: &str, command: Option<&str>) -> Markup {
    html! {
        div.empty {
            p.empty-title { (title) }
            p.muted { (about) }
            @if let Some(command) = command {
                div.command { code { (command) } (copy(command)) }
            }
        }
    }
}
