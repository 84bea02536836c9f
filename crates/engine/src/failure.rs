//! The parts of a failure beside its message: its type, its details, and whether a retry may help. No rule depends on
//! them.
//!
//! They are stored as one JSON object in one column, only for failures. The member names are those that events show.

use std::hash::{Hash, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::ObjectWriter;
use crate::ids::{Payload, Text};

/// The type of a failure that a time limit caused.
pub(crate) const TIMEOUT: &str = "TIMEOUT";

/// The type and the details that the application gave for its failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// For example `CARD_DECLINED`. `None`: the application named no type.
    pub kind: Option<Text>,
    /// A JSON document. `None`: the failure has no details.
    pub details: Option<Payload>,
}

/// A failure without details hashes as it did before details existed, because digests of what clients sent are
/// stored.
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
    /// `Some(false)`: the sender of the failure says that a retry cannot help. `None`: the sender did not say.
    pub retryable: Option<bool>,
    /// The number of attempts of a task that has failed. `None`: the task has another attempt, or an earlier version
    /// wrote this.
    pub attempts: Option<i64>,
    /// The stack trace of a workflow. `None`: the worker sent none.
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
    /// The failure as a JSON object. `None`: there is nothing to store.
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

    /// Reads what [`Self::write`] wrote. Anything else reads as empty, because rows of earlier versions have no such
    /// object.
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
    fn a_stored_failure_reads_back_as_written() {
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
    fn an_empty_failure_is_not_stored_and_old_rows_read_as_empty() {
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
