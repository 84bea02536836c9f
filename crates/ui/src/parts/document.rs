//! Shows payloads and errors to people. They may come from an attacker: their content is shown, never interpreted.
//!
//! JSON is formatted token by token, as it was written: numbers keep all their digits, and the depth is unlimited.
//! Characters that are invisible, or that change the text direction, are shown by their number.

use maud::{Markup, PreEscaped, html};
use serde_json::value::RawValue;

use super::copy;

/// The most bytes of markup for one document.
const MOST: usize = 48 << 10;
/// The most bytes that are shown of one text.
const MOST_OF_TEXT: usize = 8 << 10;
/// The longest name has 255 characters, of up to 4 bytes.
const MOST_OF_NAME: usize = 255 * 4;
/// The most levels that are indented.
const DEEPEST: usize = 24;
/// The most bytes that a copy button holds.
const MOST_TO_COPY: usize = 16 << 10;

/// A JSON document with a title. `whole` is the URL of the whole document, shown if the document is too large.
pub(crate) fn json(title: &str, document: Option<&RawValue>, whole: Option<&str>) -> Markup {
    let text = document.map_or("null", RawValue::get);
    let laid_out = lay_out(text);
    html! {
        figure.document {
            figcaption {
                span { (name(title)) }
                @if text.len() <= MOST_TO_COPY { (copy(text)) }
                @if let Some(whole) = whole { a.quiet href=(whole) { "Raw" } }
            }
            pre tabindex="0" { code { (PreEscaped(laid_out.html)) } }
            @if laid_out.cut {
                p.cut { "The beginning of " (super::number(text.len() as i64)) " bytes" }
            }
        }
    }
}

/// Text that is not JSON, such as an error.
pub(crate) fn text(title: &str, text: &str) -> Markup {
    let (shown, cut) = beginning(text, MOST_OF_TEXT);
    let mut safe = String::new();
    push_safe(&mut safe, shown, true);
    html! {
        figure.document {
            figcaption { span { (title) } @if text.len() <= MOST_TO_COPY { (copy(text)) } }
            pre.wrap tabindex="0" { code { (PreEscaped(safe)) } }
            @if cut { p.cut { "The beginning of " (super::number(text.len() as i64)) " bytes" } }
        }
    }
}

/// A user-chosen name, unshortened.
pub(crate) fn name(text: &str) -> Markup {
    inline(text, MOST_OF_NAME)
}

/// User-chosen text for places that cannot have markup: attributes and titles.
pub(crate) fn flat(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_unseen(letter) { out.push_str(&number_of(letter)) } else { out.push(letter) }
    }
    out
}

/// Whether all characters are visible.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains(is_unseen)
}

/// A short text within a line.
pub(crate) fn inline(text: &str, most: usize) -> Markup {
    let (shown, cut) = beginning(text, most);
    let mut safe = String::new();
    push_safe(&mut safe, shown, false);
    html! { bdi { (PreEscaped(safe)) } @if cut { "…" } }
}

struct LaidOut {
    html: String,
    cut: bool,
}

fn lay_out(text: &str) -> LaidOut {
    let (mut html, mut depth, mut rest) = (String::new(), 0_usize, text.trim_start());
    while let Some(first) = rest.chars().next() {
        if html.len() > MOST {
            return LaidOut { html, cut: true };
        }
        let length = token_length(rest, first);
        let (token, after) = rest.split_at(length);
        rest = after.trim_start();
        match first {
            '{' | '[' => {
                html.push(first);
                let close = if first == '{' { '}' } else { ']' };
                if let Some(empty) = rest.strip_prefix(close) {
                    html.push(close);
                    rest = empty.trim_start();
                } else {
                    depth += 1;
                    new_line(&mut html, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut html, depth);
                html.push(first);
            }
            ',' => {
                html.push(',');
                new_line(&mut html, depth);
            }
            ':' => html.push_str(": "),
            '"' => push_token(&mut html, if rest.starts_with(':') { "k" } else { "s" }, token),
            '-' | '0'..='9' => push_token(&mut html, "n", token),
            _ => push_token(&mut html, "b", token),
        }
    }
    LaidOut { html, cut: false }
}

fn new_line(html: &mut String, depth: usize) {
    html.push('\n');
    (0..depth.min(DEEPEST)).for_each(|_| html.push_str("  "));
}

/// The length in bytes. Never zero, so that the loop ends.
fn token_length(rest: &str, first: char) -> usize {
    match first {
        '"' => {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|(_, letter)| {
                let ends = *letter == '"' && !escaped;
                escaped = *letter == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |(at, _)| at + 1)
        }
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        _ => rest
            .find(|letter: char| letter.is_whitespace() || ",]}:".contains(letter))
            .unwrap_or(rest.len())
            .max(first.len_utf8()),
    }
}

fn push_token(html: &mut String, class: &str, token: &str) {
    let (shown, cut) = beginning(token, MOST_OF_TEXT);
    html.push_str(&format!(r#"<span class="{class}">"#));
    push_safe(html, shown, false);
    html.push_str("</span>");
    if cut {
        html.push_str(&format!(r#"<i class="cut">… {} bytes</i>"#, super::number(token.len() as i64)));
    }
}

/// The longest beginning that does not split a character.
fn beginning(text: &str, most: usize) -> (&str, bool) {
    if text.len() <= most {
        return (text, false);
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    (&text[..end], true)
}

fn push_safe(html: &mut String, text: &str, lines: bool) {
    for letter in text.chars() {
        match letter {
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '&' => html.push_str("&amp;"),
            '"' => html.push_str("&quot;"),
            '\n' | '\t' if lines => html.push(letter),
            unseen if is_unseen(unseen) => {
                html.push_str(&format!(r#"<i class="unseen">{}</i>"#, number_of(unseen)));
            }
            _ => html.push(letter),
        }
    }
}

fn number_of(letter: char) -> String {
    format!(r"\u{:04x}", u32::from(letter))
}

/// Control characters, marks that change the text direction, and characters without width.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(text: &str) -> String {
        lay_out(text).html
    }

    /// The text without the markup.
    fn plain(text: &str) -> String {
        let html = laid_out(text);
        let mut plain = String::new();
        let mut inside = false;
        for letter in html.chars() {
            match letter {
                '<' => inside = true,
                '>' => inside = false,
                _ if !inside => plain.push(letter),
                _ => {}
            }
        }
        plain
    }

    #[test]
    fn json_is_laid_out_as_it_was_written() {
        let text = r#"{"a":[1,2.50,{}],"b":{"c":"x\"y","d":[]},"e":null,"f":12345678901234567890.000}"#;
        let expected = "{\n  &quot;a&quot;: [\n    1,\n    2.50,\n    {}\n  ],\n  &quot;b&quot;: {\n    \
                        &quot;c&quot;: &quot;x\\&quot;y&quot;,\n    &quot;d&quot;: []\n  },\n  \
                        &quot;e&quot;: null,\n  &quot;f&quot;: 12345678901234567890.000\n}";
        assert_eq!(plain(text), expected);
        assert!(laid_out(text).contains(r#"<span class="k">&quot;a&quot;</span>"#));
        assert!(laid_out(text).contains(r#"<span class="b">null</span>"#));
    }

    #[test]
    fn markup_in_payloads_is_text() {
        let html = laid_out(r#"{"<script>":"<img src=x onerror=alert(1)>&"}"#);
        assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
        assert!(html.contains("&lt;script&gt;") && html.contains("&amp;"), "{html}");
    }

    #[test]
    fn what_turns_text_around_is_shown_by_its_number() {
        let html = laid_out("\"a\u{202e}b\u{200b}c\"");
        assert!(html.contains(r"\u202e") && html.contains(r"\u200b"), "{html}");
        assert!(!html.contains('\u{202e}'));
        assert!(laid_out("\"שלום\"").contains("שלום"));
        assert_eq!(flat("a\u{202e}<b\n"), r"a\u202e<b\u000a");
        assert_eq!(name("a\u{1b}&").into_string(), r#"<bdi>a<i class="unseen">\u001b</i>&amp;</bdi>"#);
    }

    #[test]
    fn large_and_deep_documents_are_cut() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let laid = lay_out(&deep);
        assert!(laid.cut && laid.html.len() < MOST + 1_000, "{}", laid.html.len());
        let long = format!("\"{}\"", "é".repeat(500_000));
        let laid = lay_out(&long);
        assert!(laid.html.len() < 2 * MOST_OF_TEXT && laid.html.contains("1,000,002 bytes"));
        // Text that is not JSON ends too.
        for odd in ["\"open", "}}}}", "@#\u{e9}", "", "   "] {
            let _ = lay_out(odd);
        }
    }
}
