//! Times and durations in text form.

use flovyn_engine::Code;
use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::DateTimeParser;

use super::error::RestError;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
const DAY_SECONDS: u32 = 86_400;
const PARSER: DateTimeParser = DateTimeParser::new();

/// Formats a time in RFC 3339, in UTC. Years beyond 9999 cannot be written, so the text is empty.
pub(super) fn iso(ms: i64) -> String {
    let Ok(time) = jiff::Timestamp::from_millisecond(ms) else {
        // The library's largest time is a day before the end of year 9999, so that it can be shown in every time zone.
        let time = EPOCH.checked_add(SignedDuration::from_millis(ms));
        return time.map(|time| format!("{time}Z")).unwrap_or_default();
    };
    time.to_string()
}

pub(super) fn optional_iso(ms: Option<i64>) -> Option<String> {
    ms.map(iso)
}

/// Reads a time in RFC 3339, in milliseconds. Years from 0 to 9999 are accepted, in UTC or with an offset.
pub(super) fn moment(field: &str, text: &str) -> Result<i64, RestError> {
    read_moment(text).map_err(|why| {
        let error =
            format!("Invalid {field}: '{text}' {why}. Expected RFC 3339, such as 2025-01-15T10:00:00Z");
        RestError::new(Code::InvalidValue, error)
    })
}

fn read_moment(text: &str) -> Result<i64, &'static str> {
    const NO_TIME: &str = "is not a time";
    let pieces = PARSER.parse_pieces(text).map_err(|_| NO_TIME)?;
    let time = pieces.time().ok_or("has no time of day")?;
    if pieces.time_zone_annotation().is_some() {
        return Err("names a time zone: give an offset instead");
    }
    let offset = pieces.to_numeric_offset().ok_or("has no offset from UTC: end it with Z")?;
    // The library accepts slightly more than a day.
    if offset.seconds().unsigned_abs() >= DAY_SECONDS {
        return Err("has an offset beyond 23:59");
    }
    let since = pieces.date().to_datetime(time).duration_since(EPOCH);
    let since = since - SignedDuration::from_secs(offset.seconds().into());
    let is_written = EPOCH.checked_add(since).is_ok_and(|utc| utc.year() >= 0);
    let ms = i64::try_from(since.as_millis()).map_err(|_| NO_TIME)?;
    if is_written { Ok(ms) } else { Err("is not within the years 0 to 9999 in UTC") }
}

/// Reads `30s`, `5m`, `2h` or `7d`, in milliseconds. The engine checks the range.
pub(super) fn duration_ms(field: &str, code: Code, text: &str) -> Result<i64, RestError> {
    let wrong =
        || RestError::new(code, format!("Invalid {field} format: '{text}'. Expected: 30s, 5m, 2h, 7d"));
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number = &text[..text.len() - unit.len_utf8()];
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds: i64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    Ok(number.saturating_mul(seconds).saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        let read = |text: &str| duration_ms("ttl", Code::InvalidTtl, text).ok();
        assert_eq!(read("30s"), Some(30_000));
        assert_eq!(read("5m"), Some(300_000));
        assert_eq!(read("2h"), Some(7_200_000));
        assert_eq!(read("7d"), Some(604_800_000));
        for wrong in ["", "s", "2x", "-1s", "1.5h", "1", " 1s", "1s ", "٣s", "1é"] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(read("99999999999999999999d"), None);
        assert_eq!(read("9999999999999999d"), Some(i64::MAX));
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(iso(1_736_937_000_000), "2025-01-15T10:30:00Z");
        for (text, ms) in [
            ("2025-01-15T10:30:00Z", 1_736_937_000_000),
            ("2025-01-15t10:30:00.250z", 1_736_937_000_250),
            ("2025-01-15T12:30:00+02:00", 1_736_937_000_000),
            ("2025-01-14T10:31:00-23:59", 1_736_937_000_000),
            ("1970-01-01T00:00:00Z", 0),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("9999-12-31T23:59:59+23:59", 253_402_214_459_000),
        ] {
            assert_eq!(read_moment(text), Ok(ms), "{text}");
        }
        // Every accepted time can be shown, up to the end of year 9999.
        for text in ["9999-12-31T23:59:59.999Z", "9999-12-31T00:00:00Z", "2025-01-15T10:30:00Z"] {
            assert_eq!(read_moment(text).map(iso).as_deref(), Ok(text));
        }
        for (text, why) in [
            ("tomorrow", "not a time"),
            ("", "not a time"),
            ("2025-01-15", "no time of day"),
            ("2025-01-15T10:30:00", "no offset"),
            ("2025-01-15T10:30:00+25:00", "offset beyond"),
            ("2025-01-15T10:30:00-24:00", "offset beyond"),
            ("2025-01-15T10:30:00+26:00", "not a time"),
            ("2025-02-30T10:30:00Z", "not a time"),
            ("2025-01-15T25:30:00Z", "not a time"),
            ("2025-01-15T10:30:00Z[UTC]", "time zone"),
            ("10000-01-01T00:00:00Z", "not a time"),
            ("9999-12-31T23:59:59-00:01", "within the years"),
        ] {
            let error = moment("t", text).unwrap_err();
            let told = format!("{error:?}");
            assert!(told.contains(why) && told.contains("Invalid t"), "{text}: {told}");
        }
    }
}
