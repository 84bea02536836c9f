//! The form of the answer that a request wants: browsers that navigate want a page; these pages' scripts and other
//! programs want JSON.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// The header that these pages' scripts send when they want a part of a page, or the outcome of a form.
pub(crate) const PART: &str = "x-flovyn-part";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A page for people.
    Page,
    /// Content that a script shows within its page.
    Part,
    /// Neither: a program that calls a page, usually by mistake.
    Data,
}

impl Wish {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key(PART) {
            return Self::Part;
        }
        let named = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let is_page = named.flat_map(|value| value.split(',')).any(is_html);
        if is_page { Self::Page } else { Self::Data }
    }
}

/// Whether a range of `Accept` names HTML and does not refuse it. Every browser names it when it navigates.
fn is_html(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let named = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"));
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    named && weight.is_none_or(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight > 0.0))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn pages_are_for_those_who_name_them() {
        let cases: &[(&[(&'static str, &'static str)], Wish)] = &[
            (&[], Wish::Data),
            (&[("accept", "*/*")], Wish::Data),
            (&[("accept", "application/json")], Wish::Data),
            (&[("accept", "text/html;q=0")], Wish::Data),
            (&[("accept", "text/html;q=0.0, */*")], Wish::Data),
            (&[("accept", "text/htmlx")], Wish::Data),
            (&[("accept", "text/html")], Wish::Page),
            (&[("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")], Wish::Page),
            (&[("accept", "application/json, Text/HTML ; Q=0.2")], Wish::Page),
            (&[("accept", "text/html"), ("x-flovyn-part", "1")], Wish::Part),
        ];
        for (given, wish) in cases {
            let given = given
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            assert_eq!(Wish::of(&given.clone().collect()), *wish, "{:?}", given.collect::<Vec<_>>());
        }
    }
}
