//! Waits for a result, across restarts of the server.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tonic::Status;

use crate::backoff::{Backoff, random};
use crate::error::{Error, Failure, Result};
use crate::reason::lasts;
use crate::wire::{ERROR_CODE, json, refused};

/// Longest wait of one request. Longer waits use several requests.
const WAIT: Duration = Duration::from_secs(60);

/// The state of an execution or task that may have ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) status: String,
    pub(super) output: Option<Bytes>,
    pub(super) error: Option<String>,
    /// Details of a failure.
    pub(super) failure: Failure,
    /// `None`: this is a workflow.
    pub(super) task_type: Option<String>,
}

impl Ending {
    /// The output or the error. `None`: it has not ended.
    pub(super) fn into_result<T: DeserializeOwned>(self) -> Result<Option<T>> {
        match self.status.as_str() {
            "COMPLETED" => Ok(Some(serde_json::from_value(json(&self.output.unwrap_or_default())?)?)),
            "FAILED" => {
                let (message, failure) = (self.error.unwrap_or_default(), Box::new(self.failure));
                Err(match self.task_type {
                    Some(task_type) => Error::TaskFailed { task_type, message, failure },
                    None => Error::WorkflowFailed { message, failure },
                })
            }
            "CANCELLED" => Err(Error::Cancelled(self.error.unwrap_or_default())),
            _ => Ok(None),
        }
    }
}

/// Waits for the end and returns the output. `wait` sends a request that the server holds for the given number of
/// milliseconds.
pub(super) async fn until_ended<T: DeserializeOwned, F>(
    timeout: Duration,
    wait: impl Fn(i64) -> F,
) -> Result<T>
where
    F: Future<Output = std::result::Result<Ending, Status>>,
{
    let until = Instant::now() + timeout;
    let mut backoff = Backoff::default();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout_ms = i64::try_from(left.min(WAIT).as_millis()).unwrap_or(i64::MAX).max(1);
        let ending = match wait(timeout_ms).await {
            Ok(ending) => ending,
            // The server is unavailable or restarting. The work continues, and repeating the request has no side
            // effect.
            Err(status) if is_away(&status) && Instant::now() < until => {
                tokio::time::sleep(backoff.pause(random()).min(left)).await;
                continue;
            }
            Err(status) => return Err(refused(status)),
        };
        backoff.reset();
        match ending.into_result()? {
            Some(output) => return Ok(output),
            None if Instant::now() >= until => return Err(Error::Timeout(Some(timeout))),
            None => {}
        }
    }
}

/// Whether the server is unreachable or stopping. Errors of the connection have various status codes, but never an
/// error code of the server.
fn is_away(status: &Status) -> bool {
    use tonic::Code::{Cancelled, Internal, Unavailable, Unknown};
    if lasts(status) {
        return false;
    }
    let from_server = status.metadata().contains_key(ERROR_CODE);
    status.code() == Unavailable || (!from_server && matches!(status.code(), Cancelled | Internal | Unknown))
}
