//! Building blocks of pages.

pub(crate) mod document;
pub(crate) mod empty;
pub(crate) mod form;
pub(crate) mod icons;
pub(crate) mod plot;
pub(crate) mod tenant;
pub(crate) mod times;

use maud::{Markup, PreEscaped, html};

/// A status as text with a coloured mark.
pub(crate) fn status(name: &str) -> Markup {
    html! { span.status data-status=(name) { (words(name)) } }
}

/// `TASK_COMPLETED` as readable text.
pub(crate) fn words(name: &str) -> String {
    let lower = name.to_lowercase().replace('_', " ");
    let mut letters = lower.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// An id that can be copied. Its end is shown, because the beginning is the time and does not distinguish neighbours.
pub(crate) fn id(id: &str) -> Markup {
    html! { span.id { code title=(id) { (short(id)) } (copy(id)) } }
}

/// Like `id`, unshortened.
pub(crate) fn whole_id(id: &str) -> Markup {
    html! { span.id { code { (id) } (copy(id)) } }
}

pub(crate) fn copy(text: &str) -> Markup {
    html! {
        button.copy type="button" data-copy=(text) aria-label="Copy" title="Copy" { (PreEscaped(icons::COPY)) }
    }
}

pub(crate) fn short(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

/// A name and its value in a list of facts. Empty if the value is `None`.
pub(crate) fn fact(name: &str, value: Option<Markup>) -> Markup {
    html! { @if let Some(value) = value { div.fact { dt { (name) } dd { (value) } } } }
}

/// A number with separated thousands.
pub(crate) fn number(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if number < 0 { format!("-{grouped}") } else { grouped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_read_well() {
        assert_eq!(words("WORKFLOW_EXECUTION_FAILED"), "Workflow execution failed");
        assert_eq!(words(""), "");
        assert_eq!(number(0), "0");
        assert_eq!(number(-1_234_567), "-1,234,567");
        assert_eq!(number(999), "999");
        assert_eq!(short("0198f3a2-7c1e-7b7e-9d3a-5b1c7a9e0001"), "5b1c7a9e0001");
    }
}
