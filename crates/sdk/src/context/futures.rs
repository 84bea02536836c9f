//! The futures that a context returns. Each was asked for when it was made; awaiting it only waits.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::replay::{Command, Shared, SlotId};

/// A slot and the way to it.
#[derive(Debug)]
pub(super) struct Pending {
    core: Shared,
    slot: SlotId,
}

impl Pending {
    pub(super) fn new(core: Shared, slot: SlotId) -> Self {
        Self { core, slot }
    }

    fn poll<T: DeserializeOwned>(&self, context: &Context<'_>) -> Poll<Result<T>> {
        let polled = self.core.lock().slots.poll(self.slot, context);
        polled.map(|resolution| Ok(serde_json::from_value(resolution?)?))
    }

    fn is_open(&self) -> bool {
        self.core.lock().slots.is_open(self.slot)
    }

    /// Cancels what is waited for: at once here, and by command on the server.
    fn cancel(&self, command: Option<Command>) {
        if !self.is_open() {
            return;
        }
        let mut core = self.core.lock();
        if let Some(command) = command {
            core.emit(command);
        }
        core.slots.resolve(self.slot, Err(Error::Cancelled("cancelled by the workflow".into())));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.core.lock().slots.drop_future(self.slot);
    }
}

macro_rules! future {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty),* }) => {
        $(#[$meta])*
        #[must_use = "what was asked for happens anyway, but nobody waits for it"]
        #[derive(Debug)]
        pub struct $name<T> {
            pending: Pending,
            $($field: $type,)*
            output: PhantomData<fn() -> T>,
        }

        impl<T> $name<T> {
            pub(super) fn new(pending: Pending, $($field: impl Into<$type>),*) -> Self {
                Self { pending, $($field: $field.into(),)* output: PhantomData }
            }
        }

        impl<T: DeserializeOwned> Future for $name<T> {
            type Output = Result<T>;

            fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                self.pending.poll(context)
            }
        }
    };
}

future!(
    /// The result of a task.
    TaskFuture { id: Uuid }
);
future!(
    /// The result of a child workflow.
    ChildFuture { id: Uuid, name: String }
);
future!(
    /// The answer of the outside world.
    PromiseFuture {}
);
future!(
    /// The result of a step.
    OperationFuture {}
);

impl<T> TaskFuture<T> {
    /// Id of the task.
    pub fn task_id(&self) -> Uuid {
        self.id
    }

    /// Cancels the task: this future fails at once, a worker that runs it is asked to stop.
    pub fn cancel(&self) {
        self.pending.cancel(Some(Command::CancelTask { id: self.id }));
    }
}

impl<T> ChildFuture<T> {
    /// Id of the child's execution.
    pub fn execution_id(&self) -> Uuid {
        self.id
    }

    /// Asks the child to cancel: this future fails at once.
    pub fn cancel(&self) {
        self.pending.cancel(Some(Command::CancelChild { id: self.id, name: self.name.clone() }));
    }
}

impl<T> PromiseFuture<T> {
    /// Stops waiting: this future fails at once; whoever resolves the promise later finds nobody.
    pub fn cancel(&self) {
        self.pending.cancel(None);
    }
}

impl<T> OperationFuture<T> {
    /// Stops waiting: the step runs on and is recorded.
    pub fn cancel(&self) {
        self.pending.cancel(None);
    }
}

/// Completes when its time has come.
#[must_use = "the timer runs anyway, but nobody waits for it"]
#[derive(Debug)]
pub struct TimerFuture {
    pending: Pending,
    name: String,
}

impl TimerFuture {
    pub(super) fn new(pending: Pending, name: String) -> Self {
        Self { pending, name }
    }

    /// Stops the timer: this future fails at once.
    pub fn cancel(&self) {
        self.pending.cancel(Some(Command::CancelTimer { name: self.name.clone() }));
    }
}

impl Future for TimerFuture {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.pending.poll::<Value>(context).map_ok(|_| ())
    }
}

/// The next signal of a name.
#[must_use = "a signal is only taken by who waits for it"]
#[derive(Debug)]
pub struct SignalFuture<T> {
    pending: Pending,
    name: String,
    output: PhantomData<fn() -> T>,
}

impl<T> SignalFuture<T> {
    pub(super) fn new(pending: Pending, name: &str) -> Self {
        Self { pending, name: name.to_owned(), output: PhantomData }
    }

    /// Stops waiting: this future fails at once, and who comes after it is next.
    pub fn cancel(&self) {
        self.pending.cancel(None);
        self.pending.core.lock().wake_waiter(&self.name);
    }
}

impl<T: DeserializeOwned> Future for SignalFuture<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut core = self.pending.core.lock();
        if core.slots.is_open(self.pending.slot)
            && let Some(value) = core.take_signal(&self.name, self.pending.slot)
        {
            core.slots.drop_future(self.pending.slot);
            drop(core);
            return Poll::Ready(serde_json::from_value(value).map_err(Error::from));
        }
        drop(core);
        self.pending.poll(context)
    }
}

impl<T> Drop for SignalFuture<T> {
    fn drop(&mut self) {
        self.pending.core.lock().drop_waiter(&self.name, self.pending.slot);
    }
}

/// Completes, with the reason, when the workflow is asked to cancel.
#[derive(Debug)]
pub struct CancellationFuture {
    pending: Pending,
}

impl CancellationFuture {
    pub(super) fn new(pending: Pending) -> Self {
        Self { pending }
    }
}

impl Future for CancellationFuture {
    type Output = String;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.pending.poll::<String>(context).map(Result::unwrap_or_default)
    }
}
