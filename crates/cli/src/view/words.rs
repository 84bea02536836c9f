//! Formats times, durations and text of other users.

use std::fmt::Write;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A duration with at most eight characters.
pub(crate) fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    match ms {
        ..10_000 => format!("{ms} ms"),
        10_000..MINUTE => format!("{}.{} s", ms / SECOND, ms % SECOND / 100),
        MINUTE..HOUR => format!("{}m {:02}s", ms / MINUTE, ms % MINUTE / SECOND),
        HOUR..DAY => format!("{}h {:02}m", ms / HOUR, ms % HOUR / MINUTE),
        _ => format!("{}d {}h", ms / DAY, ms % DAY / HOUR),
    }
}

/// The time from then until now, in one unit.
pub(crate) fn age(then_ms: i64, now_ms: i64) -> String {
    let apart = now_ms.saturating_sub(then_ms);
    let length = match apart.saturating_abs() {
        ..SECOND => return "now".to_owned(),
        ms @ SECOND..MINUTE => format!("{}s", ms / SECOND),
        ms @ MINUTE..HOUR => format!("{}m", ms / MINUTE),
        ms @ HOUR..DAY => format!("{}h", ms / HOUR),
        ms => format!("{}d", ms / DAY),
    };
    if apart < 0 { format!("in {length}") } else { format!("{length} ago") }
}

/// ISO 8601 in UTC with milliseconds. All texts have the same length.
pub(crate) fn moment(ms: i64) -> String {
    flovyn_server::times::iso_ms(ms)
}

/// The end of an id, as on the web pages: the beginning may be a time, which does not distinguish neighbours.
pub(crate) fn short(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

/// The time of this machine's clock.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Whether a terminal would interpret the character, or the character changes the text direction.
pub(super) fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text of other users on one line, with control characters escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\t' => out.push(' '),
            '\r' => {}
            other if is_obeyed(other) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(other));
            }
            other => out.push(other),
        }
    }
    out
}

/// Like [`printable`], but keeps line breaks.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let found = [-5, 0, 9_999, 12_340, 61_000, 3_725_000, 90_000_000, 10 * 366 * DAY].map(duration);
        let expected = ["0 ms", "0 ms", "9999 ms", "12.3 s", "1m 01s", "1h 02m", "1d 1h", "3660d 0h"];
        assert_eq!(found, expected);
    }

    #[test]
    fn ages_are_in_one_unit() {
        let now = 10 * DAY;
        let found = [now, now - 30_000, now - 5 * MINUTE, now - 3 * HOUR, 0, now + 2 * HOUR, i64::MIN]
            .map(|then| age(then, now));
        assert_eq!(found[..6], ["now", "30s ago", "5m ago", "3h ago", "10d ago", "in 2h"]);
        assert!(found[6].ends_with("d ago"));
    }

    #[test]
    fn a_terminal_obeys_nothing_of_it() {
        assert_eq!(printable("a\n\x1b[31mb\u{202e}c\r\td"), "a\\n\\u{1b}[31mb\\u{202e}c d");
        assert_eq!(printable_lines("a\nb\x07"), "a\nb\\u{7}");
        assert_eq!(printable("Grüße, 世界"), "Grüße, 世界");
    }

    #[test]
    fn moments_line_up() {
        assert_eq!(moment(1_736_937_000_000), "2025-01-15T10:30:00.000Z");
        assert_eq!(moment(1_736_937_000_120), "2025-01-15T10:30:00.120Z");
    }
}
