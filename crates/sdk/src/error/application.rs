//! What is said of a failure beside its message.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Error, PLAIN};

/// What a server keeps of a kind and of details.
const MAX_KIND_CHARS: usize = 255;
const MAX_DETAILS_BYTES: usize = 64 << 10;
/// Longest delay that a server takes: ten years.
const MAX_DELAY: Duration = Duration::from_secs(3_653 * 24 * 3_600);

/// What is known of a failed task, child or workflow beside the message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Failure {
    /// `None`: it was given none.
    pub kind: Option<String>,
    /// `None`: there are none.
    pub details: Option<Value>,
    /// `false`: trying again cannot help, said whoever failed.
    pub retryable: bool,
    /// How often a task ran. `None`: it is no task, or the server does not say.
    pub attempts: Option<u32>,
}

impl Default for Failure {
    fn default() -> Self {
        Self { kind: None, details: None, retryable: true, attempts: None }
    }
}

/// An application's own failure. Made with [`Error::application`]; becomes an [`Error`] with `?` or `into()`.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationError {
    kind: String,
    message: String,
    details: Option<Value>,
    retryable: bool,
    retry_after: Option<Duration>,
}

impl ApplicationError {
    pub(super) fn new(kind: String, message: String) -> Self {
        Self { kind: fit(kind), message, details: None, retryable: true, retry_after: None }
    }

    /// Details for programs: up to 64 KiB of JSON. Longer details, and those that are not JSON, are replaced by a note.
    #[must_use]
    pub fn details<T: Serialize + ?Sized>(mut self, details: &T) -> Self {
        self.details = Some(match serde_json::to_value(details) {
            Ok(details) => bounded(details),
            Err(error) => json!({ "omitted": format!("the details are no JSON: {error}") }),
        });
        self
    }

    /// Whether a task that fails with this is tried again, as far as its retry policy allows. The default is `true`.
    #[must_use]
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// When a task that fails with this is tried again at the earliest, instead of after the delay of its retry policy.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay.min(MAX_DELAY));
        self
    }

    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The same with another message.
    pub(super) fn with_message(self, message: String) -> Self {
        Self { message, ..self }
    }

    pub(super) fn raw_details(&self) -> Option<&Value> {
        self.details.as_ref()
    }

    pub(super) fn is_retryable(&self) -> bool {
        self.retryable
    }

    pub(super) fn retry_delay(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl From<ApplicationError> for Error {
    fn from(error: ApplicationError) -> Self {
        Self::Application(Box::new(error))
    }
}

/// As a server takes it.
fn fit(kind: String) -> String {
    let is_fit = !kind.is_empty() && kind.len() <= MAX_KIND_CHARS && !kind.contains('\0');
    if is_fit {
        return kind;
    }
    let kept: String = kind.chars().filter(|one| *one != '\0').take(MAX_KIND_CHARS).collect();
    if kept.is_empty() { PLAIN.to_owned() } else { kept }
}

fn bounded(details: Value) -> Value {
    let bytes = details.to_string().len();
    if bytes <= MAX_DETAILS_BYTES {
        return details;
    }
    json!({ "omitted": format!("the details have {bytes} bytes, the limit is {MAX_DETAILS_BYTES}") })
}
