//! The caller of a request, as the audit log names the caller.

use crate::ids::Text;
use crate::state::CredentialKind;

/// Longer names are cut off.
const MAX_SUBJECT_CHARS: usize = 255;

/// A caller for the audit log. The subject comes from a credential and may contain anything, so `new` makes it
/// storable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    subject: Text,
    credential: CredentialKind,
}

impl Actor {
    pub fn new(subject: &str, credential: CredentialKind) -> Self {
        // No database can store U+0000, and it would fail the whole batch, which holds the requests of other callers
        // too.
        let storable = subject.chars().map(|char| if char == '\0' { '\u{fffd}' } else { char });
        let subject: String = storable.take(MAX_SUBJECT_CHARS).collect();
        Self { subject: subject.into(), credential }
    }

    pub fn subject(&self) -> &Text {
        &self.subject
    }

    pub fn credential(&self) -> CredentialKind {
        self.credential
    }
}
