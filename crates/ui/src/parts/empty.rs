//! Placeholders for empty pages: what would be here, and the command that creates it.

use maud::{Markup, html};

use super::copy;

/// The title, an explanation, and a command. `None`: no command is shown.
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
