//! Times: RFC 3339 in messages, milliseconds since 1970 in these types.

use jiff::civil::{DateTime, date};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Formats a time in RFC 3339, in UTC. Years beyond 9999 cannot be written, so the text is empty.
pub fn iso(ms: i64) -> String {
    civil(ms).map(|time| format!("{time}Z")).unwrap_or_default()
}

/// Like [`iso`], always with milliseconds, so that all texts have the same length.
pub fn iso_ms(ms: i64) -> String {
    civil(ms).map(|time| format!("{time:.3}Z")).unwrap_or_default()
}

/// The date and time in UTC. A timestamp of the library ends a day before year 9999 does, so that it can be shown in
/// every time zone; a date does not.
fn civil(ms: i64) -> Option<DateTime> {
    EPOCH.checked_add(SignedDuration::from_millis(ms)).ok()
}

pub(crate) fn serialize<S: Serializer>(ms: &i64, to: S) -> Result<S::Ok, S::Error> {
    iso(*ms).serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Timestamp::as_millisecond).map_err(D::Error::custom)
}

/// A field that may be missing or null.
pub(crate) mod optional {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(ms: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
        ms.map(iso).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
        text.parse().map(|time: Timestamp| Some(time.as_millisecond())).map_err(D::Error::custom)
    }
}
