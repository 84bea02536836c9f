//! Times and durations: a short form, and the exact form in the tooltip.

use jiff::civil::{DateTime, date};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// A time, shown as how long ago or how soon. A script keeps it up to date.
pub(crate) fn moment(ms: i64) -> Markup {
    html! { time datetime=(iso(ms)) title=(exact(ms)) data-ago { (ago(ms, now_ms())) } }
}

/// Like `moment`, for events that use real time even on a server with a virtual clock, such as heartbeats.
pub(crate) fn real_moment(ms: i64) -> Markup {
    let now_ms = Timestamp::now().as_millisecond();
    html! { time datetime=(iso(ms)) title=(exact(ms)) data-ago data-real { (ago(ms, now_ms)) } }
}

/// A time of day, for rows with times close together.
pub(crate) fn clock(ms: i64) -> Markup {
    html! { time datetime=(iso(ms)) title=(exact(ms)) { (written(ms, "%H:%M:%S%.3f")) } }
}

pub(crate) fn exact(ms: i64) -> String {
    written(ms, "%Y-%m-%d %H:%M:%S%.3f UTC")
}

pub(crate) fn iso(ms: i64) -> String {
    written(ms, "%Y-%m-%dT%H:%M:%S%.3fZ")
}

fn written(ms: i64, format: &str) -> String {
    // A date, because a timestamp of the library ends a day before year 9999 does. Later times cannot be written.
    let time = EPOCH.checked_add(SignedDuration::from_millis(ms));
    time.map(|time| time.strftime(format).to_string()).unwrap_or_default()
}

tokio::task_local! {
    /// The time of a server whose clock differs from this machine's.
    static NOW_MS: i64;
}

/// Renders pages at this time instead of this machine's time.
pub async fn as_of<F: Future>(now_ms: i64, render: F) -> F::Output {
    NOW_MS.scope(now_ms, render).await
}

pub(crate) fn now_ms() -> i64 {
    NOW_MS.try_with(|now_ms| *now_ms).unwrap_or_else(|_| Timestamp::now().as_millisecond())
}

/// How far the server's clock is ahead of this machine's. `None`: it uses this machine's clock.
pub(crate) fn ahead_ms() -> Option<i64> {
    NOW_MS.try_with(|now_ms| now_ms - Timestamp::now().as_millisecond()).ok()
}

/// The duration from one time to another. `None`: to now.
pub(crate) fn between(from_ms: i64, to_ms: Option<i64>) -> i64 {
    (to_ms.unwrap_or_else(now_ms) - from_ms).max(0)
}

fn ago(time_ms: i64, now_ms: i64) -> String {
    match now_ms - time_ms {
        passed if passed.abs() < 1_000 => "just now".to_owned(),
        passed if passed < 0 => format!("in {}", coarse(-passed)),
        passed => format!("{} ago", coarse(passed)),
    }
}

/// A duration in its largest unit only.
fn coarse(ms: i64) -> String {
    const UNITS: &[(i64, &str)] = &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let (unit, name) = UNITS.iter().find(|(unit, _)| ms >= *unit).unwrap_or(&(1_000, "s"));
    format!("{} {name}", ms / unit)
}

/// Formats a duration: `850 ms`, `12.3 s`, `4 min 5 s`, `2 h 3 min`, `5 d 1 h`.
pub(crate) fn duration(ms: i64) -> String {
    match ms {
        ..=999 => format!("{ms} ms"),
        1_000..=59_999 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..=3_599_999 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000..=86_399_999 => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
        _ => format!("{} d {} h", ms / 86_400_000, ms % 86_400_000 / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_day_of_year_9999_is_shown() {
        assert_eq!(iso(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!(exact(253_402_300_799_999), "9999-12-31 23:59:59.999 UTC");
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn durations_read_well() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (12_345, "12.3 s"),
            (245_000, "4 min 5 s"),
            (7_380_000, "2 h 3 min"),
            (435_600_000, "5 d 1 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn moments_are_told_from_now() {
        assert_eq!(ago(10_000, 10_500), "just now");
        assert_eq!(ago(0, 61_000), "1 min ago");
        assert_eq!(ago(0, 90_000_000), "1 d ago");
        assert_eq!(ago(5_000, 0), "in 5 s");
    }
}
