//! What a workflow or a task can fail with.

use std::time::Duration;

/// The result of nearly everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something did not succeed. A workflow that returns one has failed; one that was asked to cancel and returns
/// [`Error::Cancelled`] is cancelled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// All attempts of the task have failed.
    #[error("{message}")]
    TaskFailed { task_type: String, message: String },
    /// It took longer than it was given.
    #[error("timed out after {}", describe(*.0))]
    Timeout(Option<Duration>),
    /// It was cancelled, or the workflow was asked to.
    #[error("cancelled: {0}")]
    Cancelled(String),
    /// The child workflow failed or was cancelled.
    #[error("child workflow {name} failed: {message}")]
    ChildFailed { name: String, message: String },
    /// Somebody rejected the promise.
    #[error("promise {name} was rejected: {message}")]
    PromiseRejected { name: String, message: String },
    /// The workflow's code does not fit its history.
    #[error("{0}")]
    DeterminismViolation(String),
    /// A value could not be turned into JSON or back.
    #[error("{0}")]
    Payload(String),
    /// The server refused, or could not be reached. The code is stable: see the server's documentation.
    #[error("{message}")]
    Server { code: String, message: String },
    /// The task has failed and is not tried again.
    #[error("{0}")]
    NonRetryable(String),
    /// Whatever the application says.
    #[error("{0}")]
    Failed(String),
}

fn describe(limit: Option<Duration>) -> String {
    limit.map_or_else(|| "its deadline".into(), |limit| format!("{limit:?}"))
}

impl Error {
    /// An application's own failure.
    pub fn failed(message: impl std::fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// Whether this is a cancellation.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_))
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Payload(error.to_string())
    }
}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<&str> for Error {
    fn from(message: &str) -> Self {
        Self::Failed(message.to_owned())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
