//! What a workflow sees of the world.

mod combinators;
mod futures;

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

pub use self::combinators::with_timeout;
use self::futures::Pending;
pub use self::futures::{
    CancellationFuture, ChildFuture, OperationFuture, PromiseFuture, SignalFuture, TaskFuture, TimerFuture,
};
use crate::definition::{TaskDefinition, WorkflowDefinition};
use crate::error::{Error, Result};
use crate::replay::{Command, Core, Shared, SlotId, Started, TaskOptions};

/// The workflow's only door to the world. Cheap to clone.
///
/// Everything it offers is the same on every replay. Scheduling is synchronous: a call returns a future at once, and
/// what was asked for is sent when the workflow waits. Nothing else may be awaited in a workflow: put other async calls
/// into tasks, or into [`run_async`](Self::run_async).
#[derive(Debug, Clone)]
pub struct WorkflowContext {
    core: Shared,
    shielded: bool,
}

/// How a child workflow is to be started.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChildOptions {
    /// The parent's queue.
    pub queue: Option<String>,
}

/// How a promise is to be kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromiseOptions {
    /// After this it fails with [`Error::Timeout`]; never.
    pub timeout: Option<Duration>,
    /// A key by which it can be resolved from outside, without knowing its id.
    pub key: Option<String>,
}

impl WorkflowContext {
    pub(crate) fn new(core: Shared) -> Self {
        Self { core, shielded: false }
    }

    /// Id of this execution.
    pub fn execution_id(&self) -> Uuid {
        self.core.lock().execution_id
    }

    /// Kind of this workflow.
    pub fn kind(&self) -> String {
        self.core.lock().kind.clone()
    }

    // Tasks.

    /// Schedules a task.
    pub fn schedule<T: TaskDefinition>(&self, input: T::Input) -> TaskFuture<T::Output> {
        self.schedule_with_options::<T>(input, T::options())
    }

    pub fn schedule_with_options<T: TaskDefinition>(
        &self,
        input: T::Input,
        options: TaskOptions,
    ) -> TaskFuture<T::Output> {
        match serde_json::to_value(input) {
            Ok(input) => self.schedule_typed(T::KIND, input, options),
            Err(error) => TaskFuture::new(self.failed(error.into()), Uuid::nil()),
        }
    }

    /// Schedules a task by its type's name, with plain JSON.
    pub fn schedule_raw(&self, task_type: &str, input: Value) -> TaskFuture<Value> {
        self.schedule_with_options_raw(task_type, input, TaskOptions::default())
    }

    pub fn schedule_with_options_raw(
        &self,
        task_type: &str,
        input: Value,
        options: TaskOptions,
    ) -> TaskFuture<Value> {
        self.schedule_typed(task_type, input, options)
    }

    fn schedule_typed<T>(&self, task_type: &str, input: Value, options: TaskOptions) -> TaskFuture<T> {
        let mut core = self.core.lock();
        let id = core.next_task_id();
        let Some(slot) = self.open(&mut core) else { return TaskFuture::new(self.cancelled(core), id) };
        let options = Box::new(options);
        core.emit(Command::ScheduleTask { id, task_type: task_type.to_owned(), input, options });
        core.wait_for_task(id, task_type, slot);
        drop(core);
        TaskFuture::new(self.pending(slot), id)
    }

    // Timers.

    /// Completes when the time has passed; also when the workflow sleeps over restarts and for months.
    pub fn sleep(&self, duration: Duration) -> TimerFuture {
        let mut core = self.core.lock();
        let name = core.next_timer_name();
        let Some(slot) = self.open(&mut core) else { return TimerFuture::new(self.cancelled(core), name) };
        core.emit(Command::StartTimer { name: name.clone(), duration });
        core.wait_for_timer(&name, slot);
        drop(core);
        TimerFuture::new(self.pending(slot), name)
    }

    // Child workflows.

    /// Starts a child workflow. The name is how this workflow knows it.
    pub fn schedule_workflow<W: WorkflowDefinition>(
        &self,
        name: &str,
        input: W::Input,
    ) -> ChildFuture<W::Output> {
        match serde_json::to_value(input) {
            Ok(input) => self.child(name, W::KIND, input, ChildOptions::default()),
            Err(error) => ChildFuture::new(self.failed(error.into()), Uuid::nil(), name),
        }
    }

    pub fn schedule_workflow_raw(&self, name: &str, kind: &str, input: Value) -> ChildFuture<Value> {
        self.child(name, kind, input, ChildOptions::default())
    }

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
        let mut core = self.core.lock();
        let id = core.next_child_id();
        let Some(slot) = self.open(&mut core) else {
            return ChildFuture::new(self.cancelled(core), id, name);
        };
        let (kind, queue) = (kind.to_owned(), options.queue);
        core.emit(Command::ScheduleChild { id, name: name.to_owned(), kind, input, queue });
        core.wait_for_child(id, name, slot);
        drop(core);
        ChildFuture::new(self.pending(slot), id, name)
    }

    // Promises.

    /// Something that the outside world answers: a person, or another system.
    pub fn promise<T: DeserializeOwned>(&self, name: &str) -> PromiseFuture<T> {
        self.promise_with_options(name, PromiseOptions::default())
    }

    pub fn promise_raw(&self, name: &str) -> PromiseFuture<Value> {
        self.promise_with_options(name, PromiseOptions::default())
    }

    pub fn promise_with_options<T: DeserializeOwned>(
        &self,
        name: &str,
        options: PromiseOptions,
    ) -> PromiseFuture<T> {
        let mut core = self.core.lock();
        let Some(slot) = self.open(&mut core) else { return PromiseFuture::new(self.cancelled(core)) };
        let PromiseOptions { timeout, key } = options;
        core.emit(Command::CreatePromise { name: name.to_owned(), timeout, key });
        core.wait_for_promise(name, slot);
        drop(core);
        PromiseFuture::new(self.pending(slot))
    }

    // Steps.

    /// Runs a short, blocking step beside the workflow and records its result. It runs at least once until it is
    /// recorded, and never again after that.
    pub fn run<T, F>(&self, name: &str, step: F) -> OperationFuture<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.operation(name, move || {
            tokio::task::spawn_blocking(move || serde_json::to_value(step()).map_err(Error::from))
        })
    }

    /// The same for an async step.
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
        let Some(slot) = self.open(&mut core) else { return OperationFuture::new(self.cancelled(core)) };
        let started = match core.next_operation() {
            Some(recorded) => Started::Recorded(recorded),
            None => Started::Running(start()),
        };
        core.add_operation(name, slot, started);
        drop(core);
        OperationFuture::new(self.pending(slot))
    }

    // Signals.

    /// The next signal of this name. Each signal goes to one waiter: the oldest.
    pub fn wait_for_signal<T: DeserializeOwned>(&self, name: &str) -> SignalFuture<T> {
        let mut core = self.core.lock();
        let slot = match self.open(&mut core) {
            None => return SignalFuture::new(self.cancelled(core), name),
            Some(slot) => slot,
        };
        core.wait_for_signal(name, slot);
        drop(core);
        SignalFuture::new(self.pending(slot), name)
    }

    /// Whether a signal of this name has come and nobody has taken it.
    pub fn has_signal(&self, name: &str) -> bool {
        self.core.lock().has_signal(name)
    }

    /// All signals of this name that nobody has taken.
    ///
    /// # Errors
    /// When one of them is not of this type.
    pub fn drain_signals<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>> {
        let values = self.core.lock().drain_signals(name);
        values.into_iter().map(|value| serde_json::from_value(value).map_err(Error::from)).collect()
    }

    // Cancellation.

    /// Whether somebody has asked this workflow to cancel.
    pub fn is_cancellation_requested(&self) -> bool {
        self.core.lock().cancel_reason.is_some()
    }

    /// Completes, with the reason, when somebody asks this workflow to cancel.
    pub fn cancellation(&self) -> CancellationFuture {
        let mut core = self.core.lock();
        let slot = core.slot(true);
        core.wait_for_cancel(slot);
        drop(core);
        CancellationFuture::new(self.pending(slot))
    }

    /// The same context for cleaning up: what is done through it goes on although the workflow was asked to cancel.
    #[must_use]
    pub fn shielded(&self) -> Self {
        Self { core: self.core.clone(), shielded: true }
    }

    // Time, ids, numbers.

    /// Time of the event that the workflow is at.
    pub fn current_time_millis(&self) -> i64 {
        self.core.lock().now_ms
    }

    /// An id that is the same on every replay.
    pub fn random_uuid(&self) -> Uuid {
        self.core.lock().random_uuid()
    }

    /// A number in `0.0..1.0` that is the same on every replay.
    pub fn random(&self) -> f64 {
        self.core.lock().random()
    }

    // State.

    /// A value that was set before.
    ///
    /// # Errors
    /// When it is not of this type.
    pub fn get_state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let value = self.core.lock().state.get(key).cloned();
        Ok(value.map(serde_json::from_value).transpose()?)
    }

    /// Keeps a value; it can also be seen from outside.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn set_state<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<()> {
        let value = serde_json::to_value(value)?;
        let mut core = self.core.lock();
        core.state.insert(key.to_owned(), value.clone());
        core.emit(Command::SetState { key: key.to_owned(), value });
        Ok(())
    }

    pub fn clear_state(&self, key: &str) {
        let mut core = self.core.lock();
        core.state.remove(key);
        core.emit(Command::ClearState { key: key.to_owned() });
    }

    pub fn clear_all_state(&self) {
        for key in self.state_keys() {
            self.clear_state(&key);
        }
    }

    /// In order.
    pub fn state_keys(&self) -> Vec<String> {
        self.core.lock().state.keys().cloned().collect()
    }

    // Slots.

    /// A slot, unless the workflow was asked to cancel and this context is not shielded.
    fn open(&self, core: &mut Core) -> Option<SlotId> {
        (self.shielded || core.cancel_reason.is_none()).then(|| core.slot(self.shielded))
    }

    fn pending(&self, slot: SlotId) -> Pending {
        Pending::new(self.core.clone(), slot)
    }

    fn cancelled(&self, core: std::sync::MutexGuard<'_, Core>) -> Pending {
        let reason = core.cancel_reason.clone().unwrap_or_default();
        drop(core);
        self.failed(Error::Cancelled(reason))
    }

    /// A future that has failed already.
    fn failed(&self, error: Error) -> Pending {
        let mut core = self.core.lock();
        let slot = core.slot(true);
        core.slots.resolve(slot, Err(error));
        drop(core);
        self.pending(slot)
    }
}
