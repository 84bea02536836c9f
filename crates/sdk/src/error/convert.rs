//! Conversions from every other error type to [`Error`], and back.
//!
//! One conversion covers errors of the standard library and of other crates, `anyhow::Error`, and strings:
//! everything that converts to a boxed error. [`Error`] must not implement [`std::error::Error`] itself,
//! because the conversion would then also cover [`Error`] and conflict with `From<T> for T`.

use std::error::Error as Std;
use std::fmt;

use super::Error;
use crate::reason::chain;

type Boxed = Box<dyn Std + Send + Sync>;

/// The causes are kept in the message: `cannot read the file: permission denied`.
impl<E: Into<Boxed>> From<E> for Error {
    fn from(error: E) -> Self {
        let error: Boxed = error.into();
        let error = match error.downcast::<StdError>() {
            Ok(own) => return own.0.0,
            Err(error) => error,
        };
        let message = chain(error.as_ref());
        match carried(error.as_ref()) {
            Some(own) => own.clone().with_message(message),
            None if error.is::<serde_json::Error>() => Self::Payload(message),
            None => Self::Failed(message),
        }
    }
}

/// The [`Error`] that this error or one of its causes carries. `None`: there is none.
fn carried<'a>(error: &'a (dyn Std + 'static)) -> Option<&'a Error> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(carried) = cause.downcast_ref::<Carried>() {
            return Some(&carried.0);
        }
        next = cause.source();
    }
    None
}

impl Error {
    /// Replaces the message, if the variant has one. The new message includes the context that other error
    /// types added.
    fn with_message(self, message: String) -> Self {
        match self {
            Self::Application(error) => Self::Application(Box::new(error.with_message(message))),
            Self::TaskFailed { task_type, failure, .. } => Self::TaskFailed { task_type, message, failure },
            Self::WorkflowFailed { failure, .. } => Self::WorkflowFailed { message, failure },
            Self::Server { code, .. } => Self::Server { code, message },
            Self::DeterminismViolation(_) => Self::DeterminismViolation(message),
            Self::Payload(_) => Self::Payload(message),
            Self::NonRetryable(_) => Self::NonRetryable(message),
            Self::Failed(_) => Self::Failed(message),
            // These variants build their text from their fields.
            other => other,
        }
    }
}

/// An [`Error`] as an error of the standard library. Made with [`Error::into_std`].
#[derive(Debug, Clone)]
pub struct StdError(Carried);

impl StdError {
    pub(super) fn new(error: Error) -> Self {
        Self(Carried(error))
    }

    /// The error itself.
    pub fn get(&self) -> &Error {
        &self.0.0
    }
}

impl fmt::Display for StdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.fmt(f)
    }
}

impl Std for StdError {
    /// The source carries the [`Error`]. So the conversion finds it even if another error type wraps this one.
    fn source(&self) -> Option<&(dyn Std + 'static)> {
        Some(&self.0)
    }
}

/// The source of a [`StdError`]. The conversion back recognises a [`StdError`] by it. It displays the kind,
/// which [`StdError`] does not.
#[derive(Debug, Clone)]
pub(crate) struct Carried(Error);

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind())
    }
}

impl Std for Carried {}

/// For a `main` that returns a boxed error.
impl From<Error> for Box<dyn Std> {
    fn from(error: Error) -> Self {
        Box::new(error.into_std())
    }
}

/// For functions that return `anyhow::Result`.
#[cfg(feature = "anyhow")]
impl From<Error> for anyhow::Error {
    fn from(error: Error) -> Self {
        Self::new(error.into_std())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use crate::error::Result;

    fn read() -> Result<()> {
        Err(io::Error::other(io::Error::new(io::ErrorKind::NotFound, "no such file")))?
    }

    fn parse() -> Result<u8> {
        Ok("x".parse()?)
    }

    fn json() -> Result<u8> {
        Ok(serde_json::from_str("x")?)
    }

    fn text() -> Result<()> {
        Err("out of stock")?
    }

    fn anyhow() -> Result<()> {
        let cause: anyhow::Result<()> = Err(anyhow::anyhow!("connection refused"));
        Ok(anyhow::Context::context(cause, "cannot charge")?)
    }

    #[test]
    fn every_error_converts_and_keeps_its_causes() {
        assert_eq!(read(), Err(Error::Failed("no such file".into())));
        assert_eq!(parse(), Err(Error::Failed("invalid digit found in string".into())));
        assert_eq!(json().unwrap_err().kind(), "PAYLOAD");
        assert_eq!(text(), Err(Error::Failed("out of stock".into())));
        assert_eq!(anyhow(), Err(Error::Failed("cannot charge: connection refused".into())));
        let owned: Error = String::from("owned").into();
        assert_eq!(owned, Error::Failed("owned".into()));
    }

    #[test]
    fn an_error_survives_conversion_to_other_error_types_and_back() {
        let declined = Error::application("DECLINED", "no funds").details(&7).retryable(false);
        let declined: Error = declined.retry_after(Duration::from_secs(3)).into();
        let boxed: Box<dyn Std + Send + Sync> = declined.clone().into_std().into();
        assert_eq!(Error::from(boxed), declined);
        let same: Error = anyhow::Error::new(declined.clone().into_std()).into();
        assert_eq!(same.kind(), "DECLINED");
        let wrapped = anyhow::Error::new(declined.clone().into_std()).context("cannot charge");
        let wrapped: Error = wrapped.into();
        assert_eq!(
            (wrapped.kind(), wrapped.details(), wrapped.is_retryable()),
            ("DECLINED", Ok(Some(7)), false)
        );
        assert_eq!(wrapped.retry_delay(), Some(Duration::from_secs(3)));
        assert_eq!(wrapped.to_string(), "cannot charge: no funds");
        let cancelled = anyhow::Error::new(Error::Cancelled("stop".into()).into_std()).context("waiting");
        assert_eq!(
            Error::from(cancelled),
            Error::Cancelled("stop".into()),
            "the run must end CANCELLED, not FAILED"
        );
    }

    #[test]
    fn a_wait_that_is_over_and_a_deadline_have_different_kinds() {
        let second = Duration::from_secs(1);
        let kinds =
            [Error::Elapsed(second), Error::Timeout(Some(second))].map(|error| error.kind().to_owned());
        assert_eq!(kinds, ["ELAPSED", "TIMEOUT"]);
    }

    #[test]
    fn a_main_may_return_a_boxed_error() {
        let main = || -> Result<(), Box<dyn Std>> { Ok(text()?) };
        assert_eq!(main().unwrap_err().to_string(), "out of stock");
    }

    #[test]
    fn kinds_and_details_beyond_the_limits_of_the_server_are_shortened() {
        let kinds = [("", "ERROR"), ("\0", "ERROR"), ("A\0B", "AB")];
        for (given, kept) in kinds {
            assert_eq!(Error::from(Error::application(given, "no")).kind(), kept);
        }
        assert_eq!(Error::from(Error::application("é".repeat(300), "no")).kind().chars().count(), 255);
        let long: Error = Error::application("LONG", "no").details(&"x".repeat(70_000)).into();
        let details: serde_json::Value = long.details().unwrap().unwrap();
        assert_eq!(details["omitted"], "the details have 70002 bytes, the limit is 65536");
    }
}
