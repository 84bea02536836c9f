//! How large a value may be that a workflow or a task hands over.
//!
//! A workflow's own calls are held to a fixed limit, which every server takes, and not to the one that a server tells: a call that
//! has failed once must fail in every replay, and nothing of it is in the log.

use std::io;

use serde_json::Value;

use crate::error::{Error, Result};

/// Bytes of one payload as JSON. Part of what a history means: a call that exceeds it has left no event.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// Code of what is too large.
pub(crate) const TOO_LARGE: &str = "FLV0020";

/// Refuses a value that is too large, before anything is asked for.
pub(crate) fn check(what: impl FnOnce() -> String, value: &Value) -> Result<()> {
    match exceeded(what, value) {
        None => Ok(()),
        Some(message) => {
            Err(Error::Server { code: TOO_LARGE.to_owned(), message: format!("{TOO_LARGE}: {message}") })
        }
    }
}

/// Why a value is too large. `None`: it is not.
pub(crate) fn exceeded(what: impl FnOnce() -> String, value: &Value) -> Option<String> {
    // Nearly always: no need to write it down to count it.
    if at_most(value) <= MAX_PAYLOAD_BYTES {
        return None;
    }
    let size = bytes(value);
    (size > MAX_PAYLOAD_BYTES)
        .then(|| format!("{} has {size} bytes, the limit is {MAX_PAYLOAD_BYTES}", what()))
}

/// What it takes as JSON.
fn bytes(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("JSON can be counted");
    count.0
}

/// No less than what it takes as JSON.
fn at_most(value: &Value) -> usize {
    // An escaped byte takes six.
    let text = |text: &str| text.len().saturating_mul(6).saturating_add(2);
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 32,
        Value::String(content) => text(content),
        Value::Array(items) => items.iter().fold(2, |sum: usize, item| sum.saturating_add(at_most(item) + 1)),
        Value::Object(fields) => fields.iter().fold(2, |sum: usize, (name, item)| {
            sum.saturating_add(text(name)).saturating_add(at_most(item) + 2)
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_counted_is_what_is_written() {
        let values = [
            json!(null),
            json!(false),
            json!(-1.797e308),
            json!(u64::MAX),
            json!("a\"\u{1}\u{10ffff}é"),
            json!([]),
            json!([1, [2], {}]),
            json!({"\u{1}": {"b": [true]}, "c": "d"}),
        ];
        for value in values {
            assert_eq!(bytes(&value), value.to_string().len(), "{value}");
            assert!(at_most(&value) >= bytes(&value), "{value}");
        }
    }

    #[test]
    fn the_limit_is_inclusive() {
        let text = |bytes: usize| json!("x".repeat(bytes - 2));
        assert_eq!(check(|| "it".into(), &text(MAX_PAYLOAD_BYTES)), Ok(()));
        let refused = check(|| "it".into(), &text(MAX_PAYLOAD_BYTES + 1)).unwrap_err();
        assert_eq!(refused.to_string(), "FLV0020: it has 1048577 bytes, the limit is 1048576");
        assert!(matches!(refused, Error::Server { code, .. } if code == TOO_LARGE));
    }
}
