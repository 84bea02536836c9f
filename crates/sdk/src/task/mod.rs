//! The task context: what a task can read and report.

mod extensions;
mod link;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

pub(crate) use self::extensions::Extensions;
pub(crate) use self::link::{Link, ServerLink};
use crate::error::Result;
use crate::size;

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

impl LogLevel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

/// One attempt of a task.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) task_id: Uuid,
    pub(crate) task_type: String,
    pub(crate) execution_id: Option<Uuid>,
    pub(crate) number: u32,
    pub(crate) queue: String,
    pub(crate) token: i64,
    pub(crate) key: String,
    pub(crate) traceparent: String,
    pub(crate) last_details: Option<Value>,
}

/// The context of one attempt of a task. Cheap to clone.
#[derive(Clone)]
pub struct TaskContext {
    attempt: Arc<Attempt>,
    cancelled: watch::Receiver<bool>,
    link: Arc<dyn Link>,
    extensions: Arc<Extensions>,
}

impl std::fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskContext").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

impl TaskContext {
    pub(crate) fn new(
        attempt: Attempt,
        cancelled: watch::Receiver<bool>,
        link: Arc<dyn Link>,
        extensions: Arc<Extensions>,
    ) -> Self {
        Self { attempt: Arc::new(attempt), cancelled, link, extensions }
    }

    /// The value of this type that was added to the worker with
    /// [`extension`](crate::worker::WorkerBuilder::extension).
    ///
    /// # Errors
    /// Fails if the worker has no value of this type.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Result<&T> {
        self.extensions.get()
    }

    pub fn task_id(&self) -> Uuid {
        self.attempt.task_id
    }

    pub fn task_type(&self) -> &str {
        &self.attempt.task_type
    }

    /// The execution that the task belongs to. `None`: a standalone task.
    pub fn execution_id(&self) -> Option<Uuid> {
        self.attempt.execution_id
    }

    /// Number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt.number
    }

    pub fn queue(&self) -> &str {
        &self.attempt.queue
    }

    /// The number of the claim. It grows with every claim of this task: pass it to systems that refuse older numbers
    /// (fencing).
    pub fn fencing_token(&self) -> i64 {
        self.attempt.token
    }

    /// The same key for all attempts of the task: pass it to systems that support idempotency keys.
    pub fn idempotency_key(&self) -> &str {
        &self.attempt.key
    }

    /// W3C trace context of the caller that started this work. Empty: there was none.
    pub fn traceparent(&self) -> &str {
        &self.attempt.traceparent
    }

    /// Sends a heartbeat. If this attempt does not finish, the next attempt receives the details.
    ///
    /// # Errors
    /// Fails if the details cannot be serialized to JSON, or with the code `FLV0020` if they are larger than 1 MiB.
    /// The heartbeat is not sent then.
    pub fn heartbeat<T: Serialize + ?Sized>(&self, details: &T) -> Result<()> {
        let details = serde_json::to_value(details)?;
        size::check(|| "a heartbeat's detail".to_owned(), &details)?;
        self.link.heartbeat(&self.attempt, Some(details));
        Ok(())
    }

    /// The details of the last heartbeat of the previous attempt. `None`: there was none.
    ///
    /// # Errors
    /// Fails if the details cannot be deserialized as `T`.
    pub fn last_heartbeat<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        Ok(self.attempt.last_details.clone().map(serde_json::from_value).transpose()?)
    }

    /// Reports progress, from 0 to 1, for display. It may be lost.
    pub async fn report_progress(&self, progress: f64, details: &str) {
        self.link.progress(&self.attempt, progress, details).await;
    }

    /// Adds a line to the task's log, for display. It may be lost.
    pub async fn log(&self, level: LogLevel, message: &str) {
        self.link.log(&self.attempt, level, message).await;
    }

    /// Streams live data to clients that follow the task. The data is not stored.
    ///
    /// # Errors
    /// Fails if the data cannot be serialized to JSON.
    pub async fn stream<T: Serialize + ?Sized>(&self, data: &T) -> Result<()> {
        self.link.stream(&self.attempt, serde_json::to_value(data)?).await;
        Ok(())
    }

    /// Whether cancellation of this task was requested, or its claim has ended.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Completes when cancellation of this task is requested, or its claim has ended.
    pub async fn cancelled(&self) {
        if self.cancelled.clone().wait_for(|cancelled| *cancelled).await.is_err() {
            // The worker is gone, so no request can arrive any more.
            std::future::pending::<()>().await;
        }
    }

    /// Reads a value that this attempt or an earlier one has set. `None`: the key is not set.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, or the value cannot be deserialized as `T`.
    pub async fn get_state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let value = self.link.get_state(&self.attempt, key).await?;
        Ok(value.map(serde_json::from_value).transpose()?)
    }

    /// Sets a value that later attempts can read.
    ///
    /// # Errors
    /// Fails if the server refuses it or cannot be reached.
    pub async fn set_state<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<()> {
        self.link.set_state(&self.attempt, key, Some(serde_json::to_value(value)?)).await
    }

    /// Removes a value.
    ///
    /// # Errors
    /// Fails if the server cannot be reached.
    pub async fn clear_state(&self, key: &str) -> Result<()> {
        self.link.set_state(&self.attempt, key, None).await
    }
}
