//! Moments: ISO 8601 on the wire, milliseconds since 1970 here.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error};

pub(crate) fn ms<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Timestamp::as_millisecond).map_err(D::Error::custom)
}

/// For fields that are left out or null.
pub(crate) fn optional_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    text.parse().map(|time: Timestamp| Some(time.as_millisecond())).map_err(D::Error::custom)
}
