//! What a failure says beside its message: its type, details, and whether trying again may help. Data: no rule decides by it.
//!
//! It is stored as one JSON object in one column, and only where something failed. The names in it are those under which events
//! show it.

use std::hash::{Hash, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::ObjectWriter;
use crate::ids::{Payload, Text};

/// The type of failures that a time limit caused.
pub(crate) const TIMEOUT: &str = "TIMEOUT";

/// What the application says of its failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// Such as `CARD_DECLINED`. `None`: the application did not say.
    pub kind: Option<Text>,
    /// JSON. `None`: there are none.
    pub details: Option<Payload>,
}

/// Without details as before there were any: fingerprints of what clients sent are stored.
impl Hash for Failure {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
        self.details.iter().for_each(|details| details.hash(state));
    }
}

impl Failure {
    pub fn of_kind(kind: &str) -> Self {
        Self { kind: Some(kind.into()), details: None }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.details.as_ref().map_or(0, Payload::len)
    }
}

/// A failure as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredFailure {
    pub failure: Failure,
    /// `Some(false)`: trying again cannot help, says who failed. `None`: not said.
    pub retryable: Option<bool>,
    /// Of a task that has failed: how often it ran. `None`: it has another attempt, or an earlier version wrote it.
    pub attempts: Option<i64>,
    /// Of a workflow. `None`: it sent none.
    pub stack_trace: Option<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Members<'a> {
    failure_type: Option<String>,
    #[serde(borrow)]
    failure_details: Option<&'a RawValue>,
    retryable: Option<bool>,
    attempts: Option<i64>,
    stack_trace: Option<String>,
}

impl StoredFailure {
    /// As a JSON object. `None`: there is nothing to say.
    pub fn write(&self) -> Option<Payload> {
        let Self { failure: Failure { kind, details }, retryable, attempts, stack_trace } = self;
        let mut object = ObjectWriter::new();
        if let Some(kind) = kind {
            object.string("failureType", kind);
        }
        if let Some(details) = details {
            object.raw("failureDetails", details);
        }
        if let Some(retryable) = retryable {
            object.raw("retryable", retryable.to_string().as_bytes());
        }
        if let Some(attempts) = attempts {
            object.raw("attempts", attempts.to_string().as_bytes());
        }
        if let Some(trace) = stack_trace {
            object.string("stackTrace", trace);
        }
        (!object.is_empty()).then(|| object.finish().into())
    }

    /// What was written. Nothing of what is not such an object: rows of earlier versions have none.
    pub fn read(object: Option<&Payload>) -> Self {
        let members = object.and_then(|object| serde_json::from_slice::<Members<'_>>(object).ok());
        let Some(members) = members else { return Self::default() };
        let details = members.failure_details.map(|raw| Payload::copy_from_slice(raw.get().as_bytes()));
        Self {
            failure: Failure { kind: members.failure_type.map(Text::from), details },
            retryable: members.retryable,
            attempts: members.attempts,
            stack_trace: members.stack_trace.map(Text::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let failure = Failure {
            kind: Some("CARD \"DECLINED\"\n".into()),
            details: Some(Payload::from_static(br#" {"a":[1,null,"\u0041"]}"#)),
        };
        let all = StoredFailure {
            failure: failure.clone(),
            retryable: Some(false),
            attempts: Some(3),
            stack_trace: Some("at line 1\n\"two\"".into()),
        };
        let cases = [
            StoredFailure {
                failure: Failure { details: None, ..failure.clone() },
                ..StoredFailure::default()
            },
            StoredFailure { attempts: Some(0), retryable: Some(true), ..StoredFailure::default() },
            StoredFailure { stack_trace: Some("t".into()), ..StoredFailure::default() },
        ];
        for stored in cases {
            assert_eq!(StoredFailure::read(stored.write().as_ref()), stored);
        }
        let read = StoredFailure::read(all.write().as_ref());
        let details = read.failure.details.clone().unwrap();
        assert_eq!(details, br#"{"a":[1,null,"\u0041"]}"#[..], "as it was sent, without the space around it");
        let again = Failure { details: failure.details, ..read.failure.clone() };
        assert_eq!(StoredFailure { failure: again, ..read }, all);
    }

    #[test]
    fn nothing_is_stored_of_a_failure_that_says_nothing_and_old_rows_read_as_such() {
        assert_eq!(StoredFailure::default().write(), None);
        for old in [None, Some(Payload::from_static(b"\"a stack trace\"")), Some(Payload::from_static(b"7"))]
        {
            assert_eq!(StoredFailure::read(old.as_ref()), StoredFailure::default());
        }
    }

    #[test]
    fn details_may_be_nested_as_deeply_as_any_payload() {
        let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
        let failure = Failure { kind: None, details: Some(deep.clone().into()) };
        let stored = StoredFailure { failure, ..StoredFailure::default() };
        assert_eq!(StoredFailure::read(stored.write().as_ref()).failure.details.unwrap(), deep.as_bytes());
    }
}
