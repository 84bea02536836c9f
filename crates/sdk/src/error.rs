//! What a workflow or a task can fail with.
//!
//! [`Error`] converts from every error type: `?` works on errors of the standard library, of other crates, and on
//! `anyhow::Error`. For that it does not implement [`std::error::Error`] itself: [`Error::into_std`] makes a value that does.

mod application;
mod convert;

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::application::{ApplicationError, Failure};
pub(crate) use self::convert::Carried;
pub use self::convert::StdError;

/// The result of nearly everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error that has no other.
pub(crate) const PLAIN: &str = "ERROR";

/// Why something did not succeed. A workflow that returns one has failed; one that was asked to cancel and returns
/// [`Error::Cancelled`] is cancelled.
///
/// Whatever failed, [`kind`](Self::kind) and [`details`](Self::details) say the same: at the task that failed, in the
/// workflow that scheduled it, in the parent of that workflow, and at whoever waits for the result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A failure of the application's own: made with [`Error::application`].
    Application(Box<ApplicationError>),
    /// The task has failed and is not tried again.
    TaskFailed { task_type: String, message: String, failure: Box<Failure> },
    /// A promise or a task took longer than its own options allow, or a client gave up waiting. A promise that has timed out
    /// is closed: nobody can resolve it any more.
    Timeout(Option<Duration>),
    /// What [`with_timeout`](crate::with_timeout) was given took longer than its limit. This says nothing about the future
    /// itself: one that was passed as `&mut` goes on.
    Elapsed(Duration),
    /// The work was cancelled, or the workflow was asked to cancel.
    Cancelled(String),
    /// The child workflow failed or was cancelled.
    ChildFailed { name: String, message: String, failure: Box<Failure> },
    /// The workflow that a client waited for has failed.
    WorkflowFailed { message: String, failure: Box<Failure> },
    /// Somebody rejected the promise.
    PromiseRejected { name: String, message: String },
    /// The workflow's code does not match its history.
    DeterminismViolation(String),
    /// A value could not be turned into JSON or back.
    Payload(String),
    /// The server refused, or could not be reached. The code is stable: see the server's documentation.
    Server { code: String, message: String },
    /// The task has failed and is not tried again.
    NonRetryable(String),
    /// Any other error, with its causes.
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
    /// An application's own failure, without a kind.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// An application's own failure, with a kind by which others recognise it. More can be said of it before it is returned:
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
    ///     // The bank says when to come again.
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

    /// What kind of failure this is, to be compared with: the kind that was given to [`Error::application`], wherever the
    /// error has come from. A failure without one has the kind of its variant, such as `TIMEOUT`, `CANCELLED`, `TASK_FAILED`,
    /// `CHILD_FAILED`, `PROMISE_REJECTED` or `ERROR`; one of the server has its code.
    pub fn kind(&self) -> &str {
        let or = |failure: &'_ Failure, kind: &'static str| failure.kind.is_none().then_some(kind);
        let (failure, kind) = match self {
            Self::Application(error) => return error.kind(),
            Self::Server { code, .. } => return code,
            Self::TaskFailed { failure, .. } => (failure, or(failure, "TASK_FAILED")),
            Self::ChildFailed { failure, .. } => (failure, or(failure, "CHILD_FAILED")),
            Self::WorkflowFailed { failure, .. } => (failure, or(failure, "WORKFLOW_FAILED")),
            Self::Timeout(_) | Self::Elapsed(_) => return "TIMEOUT",
            Self::Cancelled(_) => return "CANCELLED",
            Self::PromiseRejected { .. } => return "PROMISE_REJECTED",
            Self::DeterminismViolation(_) => return "DETERMINISM_VIOLATION",
            Self::Payload(_) => return "PAYLOAD",
            Self::NonRetryable(_) | Self::Failed(_) => return PLAIN,
        };
        kind.or(failure.kind.as_deref()).unwrap_or(PLAIN)
    }

    /// The details that were given to the error where it was made. `None`: there are none.
    ///
    /// # Errors
    /// When they are not of this type.
    pub fn details<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let details = self.raw_details().cloned();
        let read = details.map(serde_json::from_value).transpose();
        read.map_err(|error| Self::Payload(format!("cannot deserialize the details of an error: {error}")))
    }

    /// `None`: there are none.
    pub(crate) fn raw_details(&self) -> Option<&Value> {
        match self {
            Self::Application(error) => error.raw_details(),
            _ => self.failure()?.details.as_ref(),
        }
    }

    /// What is known of the failure of a task, a child or a workflow. `None`: this is another error.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::TaskFailed { failure, .. }
            | Self::ChildFailed { failure, .. }
            | Self::WorkflowFailed { failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// How often a failed task ran. `None`: this is no failed task, or the server does not say.
    pub fn attempts(&self) -> Option<u32> {
        self.failure()?.attempts
    }

    /// `false`: the failing code said that a retry cannot help. A failed task of which this is `true` has failed for another
    /// reason, for example because no attempts were left.
    pub fn is_retryable(&self) -> bool {
        !self.gives_up() && self.failure().is_none_or(|failure| failure.retryable)
    }

    /// Whether a task that returns it says that it is not to be tried again.
    pub(crate) fn gives_up(&self) -> bool {
        match self {
            Self::Application(error) => !error.is_retryable(),
            Self::NonRetryable(_) => true,
            _ => false,
        }
    }

    /// When a task that returns it wants to be tried again. `None`: as its retry policy says.
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

    /// The same as an error of the standard library, for functions that return such: `.map_err(Error::into_std)?`. Turned back
    /// into an [`Error`], also through `anyhow`, it is of the same kind.
    pub fn into_std(self) -> StdError {
        StdError::new(self)
    }
}
