//! Times as text in RFC 3339. REST, the configuration and the command line accept and show the same times.

pub use flovyn_rest_types::{iso, iso_ms};
use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::DateTimeParser;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
const DAY_SECONDS: u32 = 86_400;
const PARSER: DateTimeParser = DateTimeParser::new();

/// Reads a time in RFC 3339, in milliseconds. Years from 0 to 9999 are accepted, in UTC or with an offset.
///
/// # Errors
/// Fails with what is wrong with the text, to be put behind it.
pub fn read(text: &str) -> Result<i64, &'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(read(text), Ok(ms), "{text}");
        }
        assert_eq!(iso_ms(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!((iso_ms(0), iso_ms(i64::MAX)), ("1970-01-01T00:00:00.000Z".to_owned(), String::new()));
        // Every accepted time can be shown, up to the end of year 9999.
        for text in ["9999-12-31T23:59:59.999Z", "9999-12-31T00:00:00Z", "2025-01-15T10:30:00Z"] {
            assert_eq!(read(text).map(iso).as_deref(), Ok(text));
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
            let told = read(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
