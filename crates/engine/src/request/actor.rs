//! Somebody who asks, as the audit log names them.

use crate::ids::Text;
use crate::state::CredentialKind;

/// Longer names are cut off.
const MAX_SUBJECT_CHARS: usize = 255;

/// Its name comes from a credential, which may hold anything: it is made fit to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    subject: Text,
    credential: CredentialKind,
}

impl Actor {
    pub fn new(subject: &str, credential: CredentialKind) -> Self {
        // No database can store U+0000, and one batch carries the requests of many.
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
