//! Tests for workflows without a server, and replay tests with recorded histories.
//!
//! A workflow runs in-process: tasks run or are mocked, child workflows are mocked, time is virtual, and the test
//! sends signals and resolves promises.
//!
//! ```
//! use flovyn_sdk::testing::TestEnvironment;
//! use flovyn_sdk::WorkflowContext;
//! use serde_json::{Value, json};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let reminder = |context: WorkflowContext, _: Value| async move {
//!     context.sleep(Duration::from_secs(30 * 24 * 3_600)).await?;
//!     context.schedule_raw("send-mail", json!("A month has passed")).await
//! };
//! let environment = TestEnvironment::new().mock_task("send-mail", |_| Ok(json!("sent")));
//! let mut run = environment.start_fn("reminder", reminder, Value::Null);
//! run.finish().await.unwrap();
//! assert_eq!(run.output(), Some(&json!("sent")));
//! # }
//! ```

mod example;
mod log;
mod recorded;
mod replay;
mod run;
mod task;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

#[doc(hidden)]
pub use self::example::example;
pub use self::recorded::recorded_commands;
pub use self::replay::{Replay, replay, replay_fn};
pub use self::run::TestRun;
pub use self::task::TestTask;
use crate::context::WorkflowContext;
use crate::definition::{AnyTask, AnyWorkflow, Dynamic, TaskDefinition, TaskSet, WorkflowDefinition};
use crate::error::{Error, Result};
use crate::task::Extensions;

type Mock = Arc<dyn Fn(Value) -> Result<Value> + Send + Sync>;

/// A task that runs for real.
#[derive(Clone)]
struct RealTask(Arc<dyn AnyTask>);

impl std::fmt::Debug for RealTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RealTask")
    }
}

/// The environment of a workflow in a test: its tasks, mocks and extensions.
#[derive(Clone, Default)]
pub struct TestEnvironment {
    tasks: HashMap<String, Mock>,
    real_tasks: HashMap<String, RealTask>,
    extensions: Arc<Extensions>,
    children: HashMap<String, Mock>,
    evict: bool,
    ahead: bool,
    seed: Option<u64>,
}

impl std::fmt::Debug for TestEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestEnvironment")
            .field("evict", &self.evict)
            .field("ahead", &self.ahead)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl TestEnvironment {
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs this task for real, with a [`TaskContext`](crate::TaskContext) of the test. Its retry policy uses virtual
    /// time. Its time limits are not applied, because its code runs in real time. A mock of the same task has
    /// precedence.
    #[must_use]
    pub fn task<T: TaskDefinition>(mut self, task: T) -> Self {
        self.real_tasks.insert(T::KIND.to_owned(), RealTask(Arc::new(task)));
        self
    }

    /// Like [`task`](Self::task), for all tasks of a set: see [`#[tasks]`](macro@crate::tasks).
    #[must_use]
    pub fn tasks<S: TaskSet>(mut self, tasks: S) -> Self {
        let entries = Arc::new(tasks).tasks().into_iter();
        self.real_tasks.extend(entries.map(|entry| (entry.kind.to_owned(), RealTask(entry.definition))));
        self
    }

    /// Adds a value that all tasks can read, like [`extension`](crate::worker::WorkerBuilder::extension) of a worker.
    ///
    /// # Panics
    /// Panics if a value of this type was added before, or a run was started.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        let extensions =
            Arc::get_mut(&mut self.extensions).expect("extensions must be added before the first run");
        assert!(extensions.add(value), "two extensions have the same type");
        self
    }

    /// Mocks tasks of this type. The mock returns the outcome of all attempts together. A task that is neither mocked
    /// nor run stays open.
    #[must_use]
    pub fn mock_task(
        mut self,
        task_type: &str,
        mock: impl Fn(Value) -> Result<Value> + Send + Sync + 'static,
    ) -> Self {
        self.tasks.insert(task_type.to_owned(), Arc::new(mock));
        self
    }

    /// Like [`mock_task`](Self::mock_task), for a typed task.
    #[must_use]
    pub fn mock<T: TaskDefinition>(
        self,
        mock: impl Fn(T::Input) -> Result<T::Output> + Send + Sync + 'static,
    ) -> Self {
        self.mock_task(T::KIND, move |input| {
            let input = serde_json::from_value(input).map_err(Error::from)?;
            Ok(serde_json::to_value(mock(input)?)?)
        })
    }

    /// Mocks child workflows of this type.
    #[must_use]
    pub fn mock_workflow<W: WorkflowDefinition>(
        self,
        mock: impl Fn(W::Input) -> Result<W::Output> + Send + Sync + 'static,
    ) -> Self {
        self.mock_child(W::KIND, move |input| {
            let input = serde_json::from_value(input).map_err(Error::from)?;
            Ok(serde_json::to_value(mock(input)?)?)
        })
    }

    /// Mocks child workflows of this kind, with JSON values as input and output.
    #[must_use]
    pub fn mock_child(
        mut self,
        kind: &str,
        mock: impl Fn(Value) -> Result<Value> + Send + Sync + 'static,
    ) -> Self {
        self.children.insert(kind.to_owned(), Arc::new(mock));
        self
    }

    /// Drops the workflow after every step and replays it from the start, like a worker without a cache.
    #[must_use]
    pub fn evict_always(mut self) -> Self {
        self.evict = true;
        self
    }

    /// Runs the workflow ahead of its log when a task succeeds, like a worker that ran the task itself. The result
    /// must be the same.
    #[must_use]
    pub fn go_ahead(mut self) -> Self {
        self.ahead = true;
        self
    }

    /// Completes open work in a random order, one or several items at a time. The same seed gives the same order.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Creates a run of a workflow. The workflow starts when the run is driven, for example with [`TestRun::finish`].
    ///
    /// # Panics
    /// Panics if the input cannot be serialized to JSON.
    pub fn start<W: WorkflowDefinition>(&self, workflow: W, input: W::Input) -> TestRun {
        let input = serde_json::to_value(input).expect("the input of a test must be serializable to JSON");
        self.begin(W::KIND, Arc::new(workflow), input)
    }

    /// Creates a run of a workflow made from a closure.
    pub fn start_fn<F, R>(&self, kind: &str, workflow: F, input: Value) -> TestRun
    where
        F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value>> + Send + 'static,
    {
        self.begin(kind, Arc::new(Dynamic(workflow)), input)
    }

    fn begin(&self, kind: &str, workflow: Arc<dyn AnyWorkflow>, input: Value) -> TestRun {
        TestRun::new(self.clone(), kind, workflow, input)
    }
}
