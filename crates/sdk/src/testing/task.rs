//! Tests for a single task: a task context without a server, which records what the task reports.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use crate::definition::{AnyTask, TaskDefinition};
use crate::error::Result;
use crate::replay::panicked;
use crate::task::{Attempt, Extensions, Link, LogLevel, TaskContext};

/// The reports of a task.
#[derive(Debug, Default)]
struct Said {
    heartbeats: Vec<Value>,
    progress: Vec<(f64, String)>,
    log: Vec<(LogLevel, String)>,
    streamed: Vec<Value>,
    state: BTreeMap<String, Value>,
}

#[derive(Debug, Default)]
struct TestLink(Mutex<Said>);

impl TestLink {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tonic::async_trait]
impl Link for TestLink {
    fn heartbeat(&self, _: &Attempt, details: Option<Value>) {
        self.said().heartbeats.push(details.unwrap_or_default());
    }

    async fn progress(&self, _: &Attempt, progress: f64, details: &str) {
        self.said().progress.push((progress, details.to_owned()));
    }

    async fn log(&self, _: &Attempt, level: LogLevel, message: &str) {
        self.said().log.push((level, message.to_owned()));
    }

    async fn stream(&self, _: &Attempt, data: Value) {
        self.said().streamed.push(data);
    }

    async fn get_state(&self, _: &Attempt, key: &str) -> Result<Option<Value>> {
        Ok(self.said().state.get(key).cloned())
    }

    async fn set_state(&self, _: &Attempt, key: &str, value: Option<Value>) -> Result<()> {
        let mut said = self.said();
        match value {
            Some(value) => drop(said.state.insert(key.to_owned(), value)),
            None => drop(said.state.remove(key)),
        }
        Ok(())
    }
}

/// A task in a test. Its attempts share heartbeats and state, as on a server.
///
/// ```
/// use flovyn_sdk::testing::TestTask;
/// use flovyn_sdk::{Result, TaskContext, task};
///
/// #[task]
/// async fn import(ctx: TaskContext, rows: u32) -> Result<u32> {
///     let done = ctx.last_heartbeat::<u32>()?.unwrap_or_default();
///     ctx.heartbeat(&rows)?;
///     Ok(rows - done)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut task = TestTask::new();
/// assert_eq!(task.run(Import, 10).await, Ok(10));
/// // The second attempt continues where the first one stopped.
/// assert_eq!(task.run(Import, 12).await, Ok(2));
/// assert_eq!(task.heartbeats(), [10, 12]);
/// # }
/// ```
pub struct TestTask {
    id: Uuid,
    execution_id: Option<Uuid>,
    attempts: u32,
    link: Arc<TestLink>,
    extensions: Arc<Extensions>,
    cancelled: watch::Sender<bool>,
}

impl Default for TestTask {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for TestTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestTask")
            .field("attempts", &self.attempts)
            .field("said", &self.link)
            .finish_non_exhaustive()
    }
}

impl TestTask {
    /// A standalone task that has not run yet.
    pub fn new() -> Self {
        Self::of(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_00BB), None, Arc::default())
    }

    pub(super) fn of(id: Uuid, execution_id: Option<Uuid>, extensions: Arc<Extensions>) -> Self {
        let (cancelled, _) = watch::channel(false);
        Self { id, execution_id, attempts: 0, link: Arc::default(), extensions, cancelled }
    }

    /// Adds a value that the task can read, like [`extension`](crate::worker::WorkerBuilder::extension) of a worker.
    ///
    /// # Panics
    /// Panics if the task has run already, or a value of this type was added before.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        let extensions =
            Arc::get_mut(&mut self.extensions).expect("extensions must be added before the task runs");
        assert!(extensions.add(value), "two extensions have the same type");
        self
    }

    /// Runs the next attempt.
    ///
    /// # Errors
    /// Fails with the task's own error, also if the task panics.
    pub async fn run<T: TaskDefinition>(&mut self, task: T, input: T::Input) -> Result<T::Output> {
        let output = self.attempt(T::KIND, Arc::new(task), serde_json::to_value(input)?).await?;
        Ok(serde_json::from_value(output)?)
    }

    pub(super) async fn attempt(
        &mut self,
        kind: &str,
        task: Arc<dyn AnyTask>,
        input: Value,
    ) -> Result<Value> {
        let context = self.next_context(kind);
        let ended = AssertUnwindSafe(task.start(context, input)).catch_unwind().await;
        ended.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
    }

    /// Creates the context of the next attempt, for a test that calls the task function itself.
    pub fn next_context(&mut self, kind: &str) -> TaskContext {
        self.attempts += 1;
        let attempt = Attempt {
            task_id: self.id,
            task_type: kind.to_owned(),
            execution_id: self.execution_id,
            number: self.attempts,
            queue: "default".to_owned(),
            token: self.attempts.into(),
            key: self.id.to_string(),
            traceparent: String::new(),
            last_details: self.link.said().heartbeats.last().cloned(),
        };
        TaskContext::new(attempt, self.cancelled.subscribe(), self.link.clone(), self.extensions.clone())
    }

    /// Requests cancellation of the task, for this attempt and later ones.
    pub fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Number of attempts so far.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The details of all heartbeats.
    pub fn heartbeats(&self) -> Vec<Value> {
        self.link.said().heartbeats.clone()
    }

    /// All progress reported with [`report_progress`](TaskContext::report_progress).
    pub fn progress(&self) -> Vec<(f64, String)> {
        self.link.said().progress.clone()
    }

    /// All lines of the task's log.
    pub fn log(&self) -> Vec<(LogLevel, String)> {
        self.link.said().log.clone()
    }

    /// All live data that the task has streamed.
    pub fn streamed(&self) -> Vec<Value> {
        self.link.said().streamed.clone()
    }

    /// A value of the task's state. `None`: the key is not set.
    ///
    /// # Errors
    /// Fails if the value cannot be deserialized as `T`.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let value = self.link.said().state.get(key).cloned();
        Ok(value.map(serde_json::from_value).transpose()?)
    }

    /// Sets a value of the task's state, as if an earlier attempt had set it.
    ///
    /// # Errors
    /// Fails if the value cannot be serialized to JSON.
    pub fn set_state<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<()> {
        self.link.said().state.insert(key.to_owned(), serde_json::to_value(value)?);
        Ok(())
    }
}
