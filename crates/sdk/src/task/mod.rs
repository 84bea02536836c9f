//! What a task sees of the world, beside everything else it may do.

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

/// A task's own view of its attempt. Cheap to clone.
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

    /// The value of this type that was given to the worker with
    /// [`extension`](crate::worker::WorkerBuilder::extension).
    ///
    /// # Errors
    /// When the worker has none of this type.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Result<&T> {
        self.extensions.get()
    }

    pub fn task_id(&self) -> Uuid {
        self.attempt.task_id
    }

    pub fn task_type(&self) -> &str {
        &self.attempt.task_type
    }

    /// The workflow it belongs to; `None` for a standalone task.
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

    /// Grows with every claim of this task: hand it to systems that refuse older ones.
    pub fn fencing_token(&self) -> i64 {
        self.attempt.token
    }

    /// The same for all attempts: hand it to systems that know idempotency keys.
    pub fn idempotency_key(&self) -> &str {
        &self.attempt.key
    }

    /// W3C trace context of whoever started this; empty if there was none.
    pub fn traceparent(&self) -> &str {
        &self.attempt.traceparent
    }

    /// Says that it is alive. The details are handed to the next attempt if this one does not finish.
    ///
    /// # Errors
    /// When the details are no JSON, or larger than 1 MiB: then the heartbeat is not sent, and the code is `FLV0020`.
    pub fn heartbeat<T: Serialize + ?Sized>(&self, details: &T) -> Result<()> {
        let details = serde_json::to_value(details)?;
        size::check(|| "a heartbeat's detail".to_owned(), &details)?;
        self.link.heartbeat(&self.attempt, Some(details));
        Ok(())
    }

    /// What the last heartbeat of the attempt before said.
    ///
    /// # Errors
    /// When it is not of this type.
    pub fn last_heartbeat<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        Ok(self.attempt.last_details.clone().map(serde_json::from_value).transpose()?)
    }

    /// How far it is, from 0 to 1. For people; may get lost.
    pub async fn report_progress(&self, progress: f64, details: &str) {
        self.link.progress(&self.attempt, progress, details).await;
    }

    /// A line in the task's log. For people; may get lost.
    pub async fn log(&self, level: LogLevel, message: &str) {
        self.link.log(&self.attempt, level, message).await;
    }

    /// Live data for whoever watches; not kept.
    ///
    /// # Errors
    /// When it is no JSON.
    pub async fn stream<T: Serialize + ?Sized>(&self, data: &T) -> Result<()> {
        self.link.stream(&self.attempt, serde_json::to_value(data)?).await;
        Ok(())
    }

    /// Whether somebody has asked this task to stop, or its claim has ended.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Completes when somebody asks this task to stop.
    pub async fn cancelled(&self) {
        if self.cancelled.clone().wait_for(|cancelled| *cancelled).await.is_err() {
            // The worker has gone, and with it whoever could ask.
            std::future::pending::<()>().await;
        }
    }

    /// A value that an earlier attempt, or this one, has kept.
    ///
    /// # Errors
    /// When the server cannot be asked, or the value is not of this type.
    pub async fn get_state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let value = self.link.get_state(&self.attempt, key).await?;
        Ok(value.map(serde_json::from_value).transpose()?)
    }

    /// Keeps a value for later attempts.
    ///
    /// # Errors
    /// When the server refuses it or cannot be reached.
    pub async fn set_state<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<()> {
        self.link.set_state(&self.attempt, key, Some(serde_json::to_value(value)?)).await
    }

    /// Forgets a value.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn clear_state(&self, key: &str) -> Result<()> {
        self.link.set_state(&self.attempt, key, None).await
    }
}
