//! Checks of input. Bytes and text from callers enter the engine only through these functions.
//!
//! Input that one of the databases would refuse is refused here, for all of them: U+0000 in text, over-long names.

use crate::code::{Code, Refusal};
use crate::failure::Failure;
use crate::ids::{Payload, Text};
use crate::limits::Limits;

/// A payload is JSON. Empty means null and is stored as such.
pub(crate) fn payload(what: &str, bytes: &Payload, limits: &Limits) -> Result<Payload, Refusal> {
    if bytes.is_empty() {
        return Ok(Payload::from_static(b"null"));
    }
    if bytes.len() > limits.payload_bytes {
        return Err(too_large(what, bytes, limits.payload_bytes));
    }
    is_json(what, bytes)
}

fn too_large(what: &str, bytes: &Payload, limit: usize) -> Refusal {
    Refusal::new(Code::PayloadTooLarge, format!("{what} has {} bytes, the limit is {limit}", bytes.len()))
}

/// The parts of a failure that an application sends beside the message: type and details.
pub(crate) fn failure(failure: &Failure, limits: &Limits) -> Result<(), Refusal> {
    optional_name("failure type", &failure.kind, limits)?;
    let Some(details) = &failure.details else { return Ok(()) };
    if details.len() > limits.failure_details_bytes {
        return Err(too_large("failure details", details, limits.failure_details_bytes));
    }
    is_json("failure details", details)?;
    Ok(())
}

fn is_json(what: &str, bytes: &Payload) -> Result<Payload, Refusal> {
    // The two payloads that are most common; everything else is scanned once, without building a tree.
    if matches!(&bytes[..], b"null" | b"{}") {
        return Ok(bytes.clone());
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
        Ok(_) => Ok(bytes.clone()),
        Err(error) => Err(Refusal::new(Code::InvalidPayload, format!("{what} is not JSON: {error}"))),
    }
}

/// A kind, queue, key or other name: present, short, without U+0000.
pub(crate) fn name(what: &str, text: &Text, limits: &Limits) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(Refusal::new(Code::InvalidName, format!("{what} is empty")));
    }
    no_nul(what, text)?;
    // Every character has at least one byte, so most names need no counting.
    if text.len() > limits.name_chars && text.chars().count() > limits.name_chars {
        let message = format!("{what} is longer than {} characters", limits.name_chars);
        return Err(Refusal::new(Code::InvalidName, message));
    }
    Ok(())
}

/// The version of a workflow kind. `None` is valid: no version.
pub(crate) fn optional_version(text: &Option<Text>, limits: &Limits) -> Result<(), Refusal> {
    let Some(text) = text else { return Ok(()) };
    name("version", text, limits)?;
    if text.len() > limits.version_bytes {
        let message = format!("version has {} bytes, the limit is {}", text.len(), limits.version_bytes);
        return Err(Refusal::new(Code::InvalidName, message));
    }
    Ok(())
}

pub(crate) fn optional_name(what: &str, text: &Option<Text>, limits: &Limits) -> Result<(), Refusal> {
    text.as_ref().map_or(Ok(()), |text| name(what, text, limits))
}

/// An error, reason or log line: any length up to the limit, without U+0000.
pub(crate) fn text(what: &str, text: &str, limits: &Limits) -> Result<(), Refusal> {
    no_nul(what, text)?;
    if text.len() > limits.text_bytes {
        let message = format!("{what} has {} bytes, the limit is {}", text.len(), limits.text_bytes);
        return Err(Refusal::new(Code::InvalidText, message));
    }
    Ok(())
}

/// The message of a failure. A message that is too long is cut: to refuse it would hide the failure.
pub(crate) fn cut(what: &str, text: &Text, limits: &Limits) -> Result<Text, Refusal> {
    no_nul(what, text)?;
    Ok(beginning(text, limits.text_bytes).map_or_else(|| text.clone(), Text::from))
}

/// The beginning of a text that has more than `max` bytes, with an ellipsis. `None`: the text is not too long.
pub(crate) fn beginning(text: &str, max: usize) -> Option<String> {
    const ELLIPSIS: char = '\u{2026}';
    if text.len() <= max {
        return None;
    }
    let end = text.floor_char_boundary(max.saturating_sub(ELLIPSIS.len_utf8()));
    Some(format!("{}{ELLIPSIS}", &text[..end]))
}

fn no_nul(what: &str, text: &str) -> Result<(), Refusal> {
    if text.as_bytes().contains(&0) {
        return Err(Refusal::new(Code::InvalidText, format!("{what} contains U+0000")));
    }
    Ok(())
}

pub(crate) fn labels(labels: &[(Text, Text)], limits: &Limits) -> Result<(), Refusal> {
    if labels.len() > limits.labels {
        let message = format!("{} labels given, the limit is {}", labels.len(), limits.labels);
        return Err(Refusal::new(Code::TooManyLabels, message));
    }
    for (index, (name, value)) in labels.iter().enumerate() {
        if name.is_empty() {
            return Err(Refusal::new(Code::InvalidName, "a label's name is empty"));
        }
        if labels[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(Refusal::new(Code::InvalidName, format!("label '{name}' is given twice")));
        }
        for part in [name, value] {
            no_nul("a label", part)?;
            if part.chars().count() > limits.label_chars {
                let message = format!("label '{name}' is longer than {} characters", limits.label_chars);
                return Err(Refusal::new(Code::TooManyLabels, message));
            }
        }
    }
    Ok(())
}

/// A timer, timeout or delay.
pub(crate) fn duration(what: &str, ms: i64, limits: &Limits) -> Result<(), Refusal> {
    if (0..=limits.duration_max_ms).contains(&ms) {
        return Ok(());
    }
    let message = format!("{what} of {ms} ms is outside 0..={}", limits.duration_max_ms);
    Err(Refusal::new(Code::InvalidDuration, message))
}

/// A timeout must leave some time: zero would expire before anything can happen.
pub(crate) fn timeout(what: &str, ms: Option<i64>, limits: &Limits) -> Result<(), Refusal> {
    match ms {
        Some(0) => {
            Err(Refusal::new(Code::InvalidDuration, format!("{what} is zero; omit it for no timeout")))
        }
        Some(ms) => duration(what, ms, limits),
        None => Ok(()),
    }
}

/// Priority in seconds. It shifts the place in the queue by that time, so it is bounded like a duration, in both
/// directions.
pub(crate) fn priority(seconds: i64, limits: &Limits) -> Result<(), Refusal> {
    duration("priority", seconds.saturating_abs().saturating_mul(1_000), limits)
}

/// A point in time that a caller names (`scheduled_at`): after the epoch and not further ahead than a timer may reach.
pub(crate) fn moment(what: &str, at_ms: i64, now_ms: i64, limits: &Limits) -> Result<(), Refusal> {
    if at_ms >= 0 && at_ms.saturating_sub(now_ms) <= limits.duration_max_ms {
        return Ok(());
    }
    let days = limits.duration_max_ms / 86_400_000;
    let message =
        format!("{what} at {at_ms} ms is out of range: name a time since 1970 and at most {days} days ahead");
    Err(Refusal::new(Code::InvalidDuration, message))
}

pub(crate) fn ttl(ms: Option<i64>, limits: &Limits) -> Result<i64, Refusal> {
    let ms = ms.unwrap_or(limits.ttl_default_ms);
    if (limits.ttl_min_ms..=limits.ttl_max_ms).contains(&ms) {
        return Ok(ms);
    }
    let message =
        format!("a time to live of {ms} ms is outside {} ms to {} ms", limits.ttl_min_ms, limits.ttl_max_ms);
    Err(Refusal::new(Code::InvalidTtl, message))
}

/// A bulk request: not empty, not over its limit.
pub(crate) fn bulk(what: &str, count: usize, limit: usize) -> Result<(), Refusal> {
    if (1..=limit).contains(&count) {
        return Ok(());
    }
    Err(Refusal::new(Code::InvalidBatch, format!("{count} {what} given, 1 to {limit} are allowed")))
}

pub(crate) fn id(what: &str, id: uuid::Uuid) -> Result<(), Refusal> {
    if id.is_nil() {
        return Err(Refusal::new(Code::InvalidId, format!("{what} is the nil UUID")));
    }
    Ok(())
}
