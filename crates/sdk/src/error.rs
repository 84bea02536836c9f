//! Errors of workflows, tasks and the client.
//!
//! [`Error`] converts from every error type: `?` works on errors of the standard library, of other crates, and
//! on `anyhow::Error`. Because of this conversion, [`Error`] cannot implement [`std::error::Error`] itself.
//! [`Error::into_std`] returns a value that does.

mod application;
mod convert;

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::application::{ApplicationError, Failure};
pub(crate) use self::convert::Carried;
pub use self::convert::StdError;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error without a kind of its own.
pub(crate) const PLAIN: &str = "ERROR";

/// The error of a workflow, a task or a client call. A workflow that returns an error is FAILED. If the
/// workflow was asked to cancel and returns [`Error::Cancelled`], it is CANCELLED instead.
///
/// [`kind`](Self::kind) and [`details`](Self::details) of a failure are the same everywhere: in the task that
/// failed, in the workflow that scheduled it, in the parent of that workflow, and in the client that waits for
/// the result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A failure that the application reports, created with [`Error::application`].
    Application(Box<ApplicationError>),
    /// The task failed permanently: its error was not retryable, or no attempts or no time were left. If a time limit
    /// of the task ended it, its [`kind`](Self::kind) is `TIMEOUT`.
    TaskFailed { task_type: String, message: String, failure: Box<Failure> },
    /// A promise exceeded its timeout, an attempt of a task exceeded its time limit, or a client stopped
    /// waiting. A promise that timed out is closed and can no longer be resolved. `None`: the duration of the
    /// limit is not known.
    Timeout(Option<Duration>),
    /// The future passed to [`with_timeout`](crate::with_timeout) did not complete within the limit. The kind is
    /// `ELAPSED`, because what was waited for may still go on. If the
    /// future was passed as `&mut`, it continues and can be awaited again.
    Elapsed(Duration),
    /// The work was cancelled, or the workflow was asked to cancel.
    Cancelled(String),
    /// The child workflow failed or was cancelled.
    ChildFailed { name: String, message: String, failure: Box<Failure> },
    /// The workflow that a client waited for has failed.
    WorkflowFailed { message: String, failure: Box<Failure> },
    /// The promise was rejected.
    PromiseRejected { name: String, message: String },
    /// The workflow's code does not match its history.
    DeterminismViolation(String),
    /// A value could not be serialized to JSON or deserialized from JSON.
    Payload(String),
    /// The server refused the request or could not be reached. The code is stable; the server's documentation
    /// has a page for each code.
    Server { code: String, message: String },
    /// A task that returns this error fails permanently and is not retried.
    NonRetryable(String),
    /// Any other error. The message includes the causes.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application(error) => f.write_str(error.message()),
            Self::Timeout(None) => f.write_str("timed out after its deadline"),
            Self::Timeout(Some(limit)) => write!(f, "timed out after {limit:?}"),
            Self::Elapsed(limit) => write!(f, "not done within {limit:?}"),
            Self::Cancelled(reason) => write!(f, "cancelled: {reason}"),
            Self::ChildFailed { name, message, .. } => write!(f, "child workflow {name} failed: {message}"),
            Self::PromiseRejected { name, message } => write!(f, "promise {name} was rejected: {message}"),
            Self::TaskFailed { message, .. }
            | Self::WorkflowFailed { message, .. }
            | Self::Server { message, .. }
            | Self::DeterminismViolation(message)
            | Self::Payload(message)
            | Self::NonRetryable(message)
            | Self::Failed(message) => f.write_str(message),
        }
    }
}

impl Error {
    /// Creates an application failure without a kind.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// Creates an application failure with a kind. Callers can match on the kind. Details, retryability and a
    /// retry delay can be added before the error is returned:
    ///
    /// ```
    /// use flovyn_sdk::{Error, Result};
    /// use serde_json::json;
    /// use std::time::Duration;
    ///
    /// fn charge(cents: u32) -> Result<()> {
    ///     if cents > 100_000 {
    ///         let declined = Error::application("CARD_DECLINED", "the limit is 1,000");
    ///         return Err(declined.details(&json!({ "limit": 100_000 })).retryable(false).into());
    ///     }
    ///     // The bank says when to retry.
    ///     Err(Error::application("BANK_BUSY", "too many requests").retry_after(Duration::from_secs(30)))?
    /// }
    ///
    /// let error = charge(200_000).unwrap_err();
    /// assert_eq!(error.kind(), "CARD_DECLINED");
    /// assert_eq!(error.details::<serde_json::Value>().unwrap().unwrap()["limit"], 100_000);
    /// assert!(!error.is_retryable());
    /// assert_eq!(charge(1).unwrap_err().kind(), "BANK_BUSY");
    /// ```
    pub fn application(kind: impl Into<String>, message: impl fmt::Display) -> ApplicationError {
        ApplicationError::new(kind.into(), message.to_string())
    }

    /// The kind of the failure, for comparisons. If the failing code used [`Error::application`], this is the
    /// kind given there, also in the workflow, its parent and the client. Otherwise it is the kind of the
    /// variant, such as `TIMEOUT`, `ELAPSED`, `CANCELLED`, `TASK_FAILED`, `CHILD_FAILED`, `PROMISE_REJECTED` or `ERROR`.
    /// For an error of the server it is the server's code.
    pub fn kind(&self) -> &str {
        let or = |failure: &'_ Failure, kind: &'static str| failure.kind.is_none().then_some(kind);
        let (failure, kind) = match self {
            Self::Application(error) => return error.kind(),
            Self::Server { code, .. } => return code,
            Self::TaskFailed { failure, .. } => (failure, or(failure, "TASK_FAILED")),
            Self::ChildFailed { failure, .. } => (failure, or(failure, "CHILD_FAILED")),
            Self::WorkflowFailed { failure, .. } => (failure, or(failure, "WORKFLOW_FAILED")),
            Self::Timeout(_) => return "TIMEOUT",
            Self::Elapsed(_) => return "ELAPSED",
            Self::Cancelled(_) => return "CANCELLED",
            Self::PromiseRejected { .. } => return "PROMISE_REJECTED",
            Self::DeterminismViolation(_) => return "DETERMINISM_VIOLATION",
            Self::Payload(_) => return "PAYLOAD",
            Self::NonRetryable(_) | Self::Failed(_) => return PLAIN,
        };
        kind.or(failure.kind.as_deref()).unwrap_or(PLAIN)
    }

    /// The details that were added when the error was created. `None`: the error has no details.
    ///
    /// # Errors
    /// Fails if the details cannot be deserialized as `T`.
    pub fn details<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let details = self.raw_details().cloned();
        let read = details.map(serde_json::from_value).transpose();
        read.map_err(|error| Self::Payload(format!("cannot deserialize the details of an error: {error}")))
    }

    /// The details as JSON. `None`: the error has no details.
    pub(crate) fn raw_details(&self) -> Option<&Value> {
        match self {
            Self::Application(error) => error.raw_details(),
            _ => self.failure()?.details.as_ref(),
        }
    }

    /// Kind, details and attempts of a failed task, child workflow or workflow. `None`: this is another kind of
    /// error.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::TaskFailed { failure, .. }
            | Self::ChildFailed { failure, .. }
            | Self::WorkflowFailed { failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// Number of attempts of a failed task. `None`: the error is not a failed task, or the server did not
    /// report the number.
    pub fn attempts(&self) -> Option<u32> {
        self.failure()?.attempts
    }

    /// Whether a retry could help. `false`: the failing code marked the error as not retryable. If this is
    /// `true` for a failed task, the task failed for another reason, for example because no attempts were left.
    pub fn is_retryable(&self) -> bool {
        !self.gives_up() && self.failure().is_none_or(|failure| failure.retryable)
    }

    /// Whether a task that returns this error must not be retried.
    pub(crate) fn gives_up(&self) -> bool {
        match self {
            Self::Application(error) => !error.is_retryable(),
            Self::NonRetryable(_) => true,
            _ => false,
        }
    }

    /// The delay before the next attempt of a task that returns this error. `None`: the retry policy decides.
    pub(crate) fn retry_delay(&self) -> Option<Duration> {
        match self {
            Self::Application(error) => error.retry_delay(),
            _ => None,
        }
    }

    /// Whether this is a cancellation.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_))
    }

    /// Converts to an error that implements [`std::error::Error`], for functions that return such errors:
    /// `.map_err(Error::into_std)?`. Converting the result back to [`Error`], also through `anyhow`, preserves
    /// the kind.
    pub fn into_std(self) -> StdError {
        StdError::new(self)
    }
}
