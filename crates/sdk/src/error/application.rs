//! Data of a failure besides its message: kind, details, retryability and retry delay.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Error, PLAIN};

/// Limits of the server for the kind and the details.
const MAX_KIND_CHARS: usize = 255;
const MAX_DETAILS_BYTES: usize = 64 << 10;
/// The longest delay that the server accepts: ten years.
const MAX_DELAY: Duration = Duration::from_secs(3_653 * 24 * 3_600);

/// Data of a failed task, child workflow or workflow besides the message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Failure {
    /// The kind given to [`Error::application`]. `None`: the failure has no kind.
    pub kind: Option<String>,
    /// The details of the failure. `None`: there are none.
    pub details: Option<Value>,
    /// `false`: the failing code marked the error as not retryable.
    pub retryable: bool,
    /// Number of attempts of a task. `None`: this is not a task, or the server did not report the number.
    pub attempts: Option<u32>,
}

impl Default for Failure {
    fn default() -> Self {
        Self { kind: None, details: None, retryable: true, attempts: None }
    }
}

/// A failure that the application reports. Created with [`Error::application`]; converts to [`Error`] with `?`
/// or `into()`.
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

    /// Adds machine-readable details: up to 64 KiB of JSON. Details that are longer, or that cannot be
    /// serialized, are replaced by a note.
    #[must_use]
    pub fn details<T: Serialize + ?Sized>(mut self, details: &T) -> Self {
        self.details = Some(match serde_json::to_value(details) {
            Ok(details) => bounded(details),
            Err(error) => json!({ "omitted": format!("the details cannot be serialized as JSON: {error}") }),
        });
        self
    }

    /// Sets whether a task that fails with this error is retried, as far as its retry policy allows. The
    /// default is `true`.
    #[must_use]
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// Sets the delay before the next attempt of a task that fails with this error. It replaces the delay of
    /// the retry policy. The longest delay is ten years.
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

    /// The same error with another message.
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

/// Shortens the kind to the server's limit and removes NUL characters. An empty kind becomes `ERROR`.
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
