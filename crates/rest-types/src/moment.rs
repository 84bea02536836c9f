//! Times: ISO 8601 in messages, milliseconds since 1970 in these types.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error};

pub(crate) fn ms<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Timestamp::as_millisecond).map_err(D::Error::custom)
}

/// Reads a field that may be missing or null.
pub(crate) fn optional_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    text.parse().map(|time: Timestamp| Some(time.as_millisecond())).map_err(D::Error::custom)
}
