//! Waiting for something to end, however often the server goes away meanwhile.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tonic::Status;

use crate::backoff::{Backoff, random};
use crate::error::{Error, Failure, Result};
use crate::reason::lasts;
use crate::wire::{ERROR_CODE, json, refused};

/// One wait that the server holds; longer ones are made of several.
const WAIT: Duration = Duration::from_secs(60);

/// How something stands that may have ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) status: String,
    pub(super) output: Option<Bytes>,
    pub(super) error: Option<String>,
    /// Of one that has failed.
    pub(super) failure: Failure,
    /// `None`: it is a workflow.
    pub(super) task_type: Option<String>,
}

impl Ending {
    /// Its output or its error; nothing if it has not ended.
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

/// The output, once it has ended. `wait` asks the server to hold the question for so many milliseconds.
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
            // The server is away, or restarts: what we wait for is not, and asking again changes nothing.
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

/// Whether the server could not be reached, or is about to stop. What the connection itself reports comes under several
/// codes, and never with one of the server's own.
fn is_away(status: &Status) -> bool {
    use tonic::Code::{Cancelled, Internal, Unavailable, Unknown};
    if lasts(status) {
        return false;
    }
    let from_server = status.metadata().contains_key(ERROR_CODE);
    status.code() == Unavailable || (!from_server && matches!(status.code(), Cancelled | Internal | Unknown))
}
