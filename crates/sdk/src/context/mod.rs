//! The workflow context: the functions that a workflow may use.

mod combinators;
mod futures;
mod signals;
mod state;

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

#[doc(hidden)]
pub use self::combinators::{Branch, Race};
pub use self::combinators::{Either, select, with_timeout};
use self::futures::{Awaited, Pending};
pub use self::futures::{
    CancellationFuture, ChildFuture, OperationFuture, PromiseFuture, SignalFuture, TaskFuture, TimerFuture,
};
use crate::definition::{TaskDefinition, WorkflowDefinition};
use crate::error::{Error, Result};
use crate::replay::{ChildOptions, Command, Core, Shared, SlotId, Started, TaskOptions};
use crate::size;

/// The context of a workflow: all commands and all inputs from outside go through it. Cheap to clone.
///
/// Its functions return the same values on every replay. Scheduling is synchronous: a call returns a future at once,
/// and the command is sent when the workflow waits. A workflow must not await any other future: put other async calls
/// into tasks, or into [`run_async`](Self::run_async).
#[derive(Debug, Clone)]
pub struct WorkflowContext {
    core: Shared,
    shielded: bool,
}

/// Options of a promise. Every field has a default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromiseOptions {
    /// After this time the promise is closed and fails with [`Error::Timeout`]. `None`: no limit.
    pub timeout: Option<Duration>,
    /// A key with which the promise can be resolved instead of its id. `None`: only by its id.
    pub key: Option<String>,
}

impl WorkflowContext {
    pub(crate) fn new(core: Shared) -> Self {
        Self { core, shielded: false }
    }

    /// Id of this execution.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let id = context.execution_id();
    /// assert_eq!(id, context.execution_id());
    /// # Ok(()) });
    /// ```
    pub fn execution_id(&self) -> Uuid {
        self.core.lock().execution_id
    }

    /// Kind of this workflow.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// assert_eq!(context.kind(), "example");
    /// # Ok(()) });
    /// ```
    pub fn kind(&self) -> String {
        self.core.lock().kind.clone()
    }

    // Tasks.

    /// Schedules a task with its default options. If the input is larger than 1 MiB, the task is not scheduled and
    /// the future fails with the code `FLV0020`.
    ///
    /// The task is a type, not an argument: `schedule::<Charge>(42)`. For `#[task] async fn charge`, the type is
    /// `Charge`. The compiler's message about `schedule(charge, 42)` counts the arguments, and no attribute can change
    /// that message:
    ///
    /// ```compile_fail,E0061
    /// # use flovyn_sdk::{Result, TaskContext, WorkflowContext, task, workflow};
    /// #[task]
    /// async fn charge(_: TaskContext, cents: u32) -> Result<u32> {
    ///     Ok(cents)
    /// }
    ///
    /// #[workflow]
    /// async fn order(context: WorkflowContext, cents: u32) -> Result<u32> {
    ///     context.schedule(Charge, cents).await // write: context.schedule::<Charge>(cents).await
    /// }
    /// ```
    ///
    /// ```
    /// # use flovyn_sdk::{Result, TaskContext, TaskDefinition};
    /// # struct Charge;
    /// # impl TaskDefinition for Charge {
    /// #     type Input = u32;
    /// #     type Output = u32;
    /// #     const KIND: &'static str = "charge";
    /// #     async fn run(&self, _: TaskContext, input: u32) -> Result<u32> { Ok(input) }
    /// # }
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let charged = context.schedule::<Charge>(42).await?;
    /// # assert_eq!(charged, 42);
    /// # Ok(()) });
    /// ```
    pub fn schedule<T: TaskDefinition>(&self, input: T::Input) -> TaskFuture<T::Output> {
        self.schedule_with_options::<T>(input, T::options())
    }

    /// Schedules a task with the given options.
    ///
    /// ```
    /// # use flovyn_sdk::{Result, TaskContext, TaskDefinition};
    /// # struct Charge;
    /// # impl TaskDefinition for Charge {
    /// #     type Input = u32;
    /// #     type Output = u32;
    /// #     const KIND: &'static str = "charge";
    /// #     async fn run(&self, _: TaskContext, input: u32) -> Result<u32> { Ok(input) }
    /// # }
    /// # use flovyn_sdk::TaskOptions;
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let options = TaskOptions { max_retries: Some(5), ..TaskOptions::default() };
    /// let charged = context.schedule_with_options::<Charge>(42, options).await?;
    /// # assert_eq!(charged, 42);
    /// # Ok(()) });
    /// ```
    pub fn schedule_with_options<T: TaskDefinition>(
        &self,
        input: T::Input,
        options: TaskOptions,
    ) -> TaskFuture<T::Output> {
        match serde_json::to_value(input) {
            Ok(input) => self.schedule_typed(T::KIND, input, options),
            Err(error) => {
                TaskFuture::new(self.failed(error.into(), Awaited::Task(Uuid::nil(), T::KIND.to_owned())))
            }
        }
    }

    /// Schedules a task by the name of its type, with JSON values as input and output.
    ///
    /// ```
    /// # use serde_json::{Value, json};
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let one = context.schedule_raw("charge", json!({ "amount": 1 }));
    /// let two = context.schedule_raw("charge", json!({ "amount": 2 }));
    /// // Both tasks are in flight; their results may arrive in any order.
    /// let (one, two) = (one.await?, two.await?);
    /// # assert_eq!(two["amount"], 2);
    /// # Ok(()) });
    /// ```
    pub fn schedule_raw(&self, task_type: &str, input: Value) -> TaskFuture<Value> {
        self.schedule_with_options_raw(task_type, input, TaskOptions::default())
    }

    /// [`schedule_raw`](Self::schedule_raw) with options.
    ///
    /// ```
    /// # use serde_json::{Value, json};
    /// # use std::time::Duration;
    /// # use flovyn_sdk::TaskOptions;
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let options = TaskOptions { timeout: Some(Duration::from_secs(30)), ..TaskOptions::default() };
    /// let charged = context.schedule_with_options_raw("charge", json!(42), options).await?;
    /// # assert_eq!(charged, 42);
    /// # Ok(()) });
    /// ```
    pub fn schedule_with_options_raw(
        &self,
        task_type: &str,
        input: Value,
        options: TaskOptions,
    ) -> TaskFuture<Value> {
        self.schedule_typed(task_type, input, options)
    }

    fn schedule_typed<T>(&self, task_type: &str, input: Value, options: TaskOptions) -> TaskFuture<T> {
        if let Err(error) = size::check(|| format!("the input of the task {task_type:?}"), &input) {
            let awaited = Awaited::Task(Uuid::nil(), task_type.to_owned());
            return TaskFuture::new(self.failed(error, awaited));
        }
        let mut core = self.core.lock();
        let id = core.next_task_id();
        let awaited = Awaited::Task(id, task_type.to_owned());
        let Some(slot) = self.open(&mut core) else { return TaskFuture::new(self.cancelled(core, awaited)) };
        let options = Box::new(options);
        core.emit(Command::ScheduleTask { id, task_type: task_type.to_owned(), input, options });
        core.wait_for_task(id, task_type, slot);
        drop(core);
        TaskFuture::new(self.pending(slot, awaited))
    }

    // Timers.

    /// Completes when the duration has passed. The timer is durable: it survives restarts and may run for months.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # flovyn_sdk::testing::example(|context| async move {
    /// context.sleep(Duration::from_secs(30 * 24 * 3_600)).await?;
    /// # Ok(()) });
    /// ```
    pub fn sleep(&self, duration: Duration) -> TimerFuture {
        let mut core = self.core.lock();
        let name = core.next_timer_name();
        let awaited = Awaited::Timer(name.clone());
        let Some(slot) = self.open(&mut core) else { return TimerFuture::new(self.cancelled(core, awaited)) };
        core.emit(Command::StartTimer { name: name.clone(), duration });
        core.wait_for_timer(&name, slot);
        drop(core);
        TimerFuture::new(self.pending(slot, awaited))
    }

    // Child workflows.

    /// Starts a child workflow. `name` identifies the child in this workflow's history and errors.
    ///
    /// ```
    /// # use flovyn_sdk::{Result, WorkflowContext, WorkflowDefinition};
    /// # struct Shipping;
    /// # impl WorkflowDefinition for Shipping {
    /// #     type Input = String;
    /// #     type Output = String;
    /// #     const KIND: &'static str = "shipping";
    /// #     async fn run(&self, _: WorkflowContext, input: String) -> Result<String> { Ok(input) }
    /// # }
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let parcel = context.schedule_workflow::<Shipping>("parcel", "books".to_owned()).await?;
    /// # assert_eq!(parcel, "books");
    /// # Ok(()) });
    /// ```
    pub fn schedule_workflow<W: WorkflowDefinition>(
        &self,
        name: &str,
        input: W::Input,
    ) -> ChildFuture<W::Output> {
        self.schedule_workflow_with_options::<W>(name, input, ChildOptions::default())
    }

    /// Starts a child workflow with options: see [`ChildOptions`].
    ///
    /// ```
    /// # use flovyn_sdk::{Result, WorkflowContext, WorkflowDefinition};
    /// # struct Shipping;
    /// # impl WorkflowDefinition for Shipping {
    /// #     type Input = String;
    /// #     type Output = String;
    /// #     const KIND: &'static str = "shipping";
    /// #     async fn run(&self, _: WorkflowContext, input: String) -> Result<String> { Ok(input) }
    /// # }
    /// # use flovyn_sdk::ChildOptions;
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let options = ChildOptions { queue: Some("warehouse".into()), ..ChildOptions::default() };
    /// let parcel = context.schedule_workflow_with_options::<Shipping>("parcel", "books".into(), options).await?;
    /// # assert_eq!(parcel, "books");
    /// # Ok(()) });
    /// ```
    pub fn schedule_workflow_with_options<W: WorkflowDefinition>(
        &self,
        name: &str,
        input: W::Input,
        options: ChildOptions,
    ) -> ChildFuture<W::Output> {
        let version = options.version.or_else(|| W::VERSION.map(str::to_owned));
        let options = ChildOptions { version, ..options };
        match serde_json::to_value(input) {
            Ok(input) => self.child(name, W::KIND, input, options),
            Err(error) => {
                ChildFuture::new(self.failed(error.into(), Awaited::Child(Uuid::nil(), name.to_owned())))
            }
        }
    }

    /// Starts a child workflow by the name of its kind, with JSON values as input and output.
    ///
    /// ```
    /// # use serde_json::{Value, json};
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let parcel = context.schedule_workflow_raw("parcel", "shipping", json!("books")).await?;
    /// # assert_eq!(parcel, "books");
    /// # Ok(()) });
    /// ```
    pub fn schedule_workflow_raw(&self, name: &str, kind: &str, input: Value) -> ChildFuture<Value> {
        self.child(name, kind, input, ChildOptions::default())
    }

    /// [`schedule_workflow_raw`](Self::schedule_workflow_raw) with options.
    ///
    /// ```
    /// # use serde_json::{Value, json};
    /// # use flovyn_sdk::ChildOptions;
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let options = ChildOptions { queue: Some("warehouse".into()), ..ChildOptions::default() };
    /// let parcel = context.schedule_workflow_with_options_raw("parcel", "shipping", json!(1), options).await?;
    /// # assert_eq!(parcel, 1);
    /// # Ok(()) });
    /// ```
    pub fn schedule_workflow_with_options_raw(
        &self,
        name: &str,
        kind: &str,
        input: Value,
        options: ChildOptions,
    ) -> ChildFuture<Value> {
        self.child(name, kind, input, options)
    }

    fn child<T>(&self, name: &str, kind: &str, input: Value, options: ChildOptions) -> ChildFuture<T> {
        if let Err(error) = size::check(|| format!("the input of the child workflow {name:?}"), &input) {
            let awaited = Awaited::Child(Uuid::nil(), name.to_owned());
            return ChildFuture::new(self.failed(error, awaited));
        }
        let mut core = self.core.lock();
        let id = core.next_child_id();
        let awaited = Awaited::Child(id, name.to_owned());
        let Some(slot) = self.open(&mut core) else {
            return ChildFuture::new(self.cancelled(core, awaited));
        };
        let (kind, options) = (kind.to_owned(), Box::new(options));
        core.emit(Command::ScheduleChild { id, name: name.to_owned(), kind, input, options });
        core.wait_for_child(id, name, slot);
        drop(core);
        ChildFuture::new(self.pending(slot, awaited))
    }

    // Promises.

    /// Creates a promise: a value that a person or another system provides from outside.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let approved: bool = context.promise("approval").await?;
    /// # assert!(approved);
    /// # Ok(()) });
    /// ```
    pub fn promise<T: DeserializeOwned>(&self, name: &str) -> PromiseFuture<T> {
        self.promise_with_options(name, PromiseOptions::default())
    }

    /// [`promise`](Self::promise) with a JSON value.
    ///
    /// ```
    /// # use serde_json::{Value, json};
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let answer = context.promise_raw("approval").await?;
    /// # assert_eq!(answer, json!(true));
    /// # Ok(()) });
    /// ```
    pub fn promise_raw(&self, name: &str) -> PromiseFuture<Value> {
        self.promise_with_options(name, PromiseOptions::default())
    }

    /// Creates a promise with a timeout, or with a key with which it can be resolved.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use flovyn_sdk::PromiseOptions;
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let options = PromiseOptions {
    ///     key: Some("order-7".into()),
    ///     timeout: Some(Duration::from_secs(7 * 24 * 3_600)),
    /// };
    /// let approved = context.promise_with_options::<bool>("approval", options).await;
    /// # let _ = approved;
    /// # Ok(()) });
    /// ```
    pub fn promise_with_options<T: DeserializeOwned>(
        &self,
        name: &str,
        options: PromiseOptions,
    ) -> PromiseFuture<T> {
        let mut core = self.core.lock();
        let awaited = Awaited::Promise(name.to_owned());
        let Some(slot) = self.open(&mut core) else {
            return PromiseFuture::new(self.cancelled(core, awaited));
        };
        let PromiseOptions { timeout, key } = options;
        core.emit(Command::CreatePromise { name: name.to_owned(), timeout, key });
        core.wait_for_promise(name, slot);
        drop(core);
        PromiseFuture::new(self.pending(slot, awaited))
    }

    // Steps.

    /// Runs a short, blocking step outside the workflow future and records its result. The step runs at least once.
    /// After its result is recorded, it never runs again.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let host: String = context.run("read the host's name", || "here".to_owned()).await?;
    /// # assert_eq!(host, "here");
    /// # Ok(()) });
    /// ```
    pub fn run<T, F>(&self, name: &str, step: F) -> OperationFuture<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.operation(name, move || {
            tokio::task::spawn_blocking(move || serde_json::to_value(step()).map_err(Error::from))
        })
    }

    /// [`run`](Self::run) for an async step.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let price: u32 = context.run_async("ask for the price", || async { 42 }).await?;
    /// # assert_eq!(price, 42);
    /// # Ok(()) });
    /// ```
    pub fn run_async<T, F, R>(&self, name: &str, step: F) -> OperationFuture<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce() -> R + Send + 'static,
        R: Future<Output = T> + Send + 'static,
    {
        self.operation(name, move || {
            tokio::spawn(async move { serde_json::to_value(step().await).map_err(Error::from) })
        })
    }

    fn operation<T>(
        &self,
        name: &str,
        start: impl FnOnce() -> tokio::task::JoinHandle<Result<Value>>,
    ) -> OperationFuture<T> {
        let mut core = self.core.lock();
        let awaited = Awaited::Step(name.to_owned());
        let Some(slot) = self.open(&mut core) else {
            return OperationFuture::new(self.cancelled(core, awaited));
        };
        let started = match core.next_operation() {
            Some(recorded) => Some(Started::Recorded(recorded)),
            None => core.may_act().then(|| Started::Running(start())),
        };
        if let Some(started) = started {
            core.add_operation(name, slot, started);
        }
        drop(core);
        OperationFuture::new(self.pending(slot, awaited))
    }

    // Slots.

    /// Opens a slot. `None`: cancellation was requested and this context is not shielded.
    fn open(&self, core: &mut Core) -> Option<SlotId> {
        (self.shielded || core.cancel_reason.is_none()).then(|| core.slot(self.shielded))
    }

    fn pending(&self, slot: SlotId, awaited: Awaited) -> Pending {
        Pending::new(self.core.clone(), slot, awaited)
    }

    fn cancelled(&self, core: std::sync::MutexGuard<'_, Core>, awaited: Awaited) -> Pending {
        let reason = core.cancel_reason.clone().unwrap_or_default();
        drop(core);
        self.failed(Error::Cancelled(reason), awaited)
    }

    /// Returns a future that has already failed.
    fn failed(&self, error: Error, awaited: Awaited) -> Pending {
        let mut core = self.core.lock();
        let slot = core.slot(true);
        core.slots.resolve(slot, Err(error));
        drop(core);
        self.pending(slot, awaited)
    }
}
