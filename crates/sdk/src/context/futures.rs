//! The futures that a context returns. A future's command is issued when the future is created; awaiting it only
//! waits.
//!
//! One rule applies to all of them: a future returns its result once. Polling it again is a bug of the workflow and
//! panics with a message that names the future. The activation fails visibly, and continues when a worker with fixed
//! code connects.

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::replay::command::Kind;
use crate::replay::{Command, Shared, SlotId};

thread_local! {
    /// Whether futures that are dropped on this thread have lost a race and must be cancelled.
    static ABANDONS: Cell<bool> = const { Cell::new(false) };
}

/// Drops the loser of a race. All open context futures in it are cancelled, in the order in which they are dropped. A
/// future behind `&mut` is not dropped, so it continues.
pub(crate) fn abandon<T>(loser: T) {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            ABANDONS.set(self.0);
        }
    }
    let _restore = Restore(ABANDONS.replace(true));
    drop(loser);
}

/// What a future waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Awaited {
    Task(Uuid, String),
    Timer(String),
    Child(Uuid, String),
    Promise(String),
    Step(String),
    Signal(String),
    Cancellation,
}

impl Awaited {
    /// The command that tells the server that the result is no longer needed. `None`: the server need not know.
    fn cancel(&self) -> Option<Command> {
        match self {
            Self::Task(id, _) => Some(Command::CancelTask { id: *id }),
            Self::Timer(name) => Some(Command::CancelTimer { name: name.clone() }),
            Self::Child(id, name) => Some(Command::CancelChild { id: *id, name: name.clone() }),
            Self::Promise(_) | Self::Step(_) | Self::Signal(_) | Self::Cancellation => None,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Task(_, kind) => format!("the task {kind:?}"),
            Self::Timer(name) => format!("the timer {name:?}"),
            Self::Child(_, name) => format!("the child workflow {name:?}"),
            Self::Promise(name) => format!("the promise {name:?}"),
            Self::Step(name) => format!("the step {name:?}"),
            Self::Signal(name) => format!("the signal {name:?}"),
            Self::Cancellation => "the request to cancel".to_owned(),
        }
    }
}

/// A slot, with the core that it belongs to.
#[derive(Debug)]
pub(super) struct Pending {
    core: Shared,
    slot: SlotId,
    awaited: Awaited,
}

impl Pending {
    pub(super) fn new(core: Shared, slot: SlotId, awaited: Awaited) -> Self {
        Self { core, slot, awaited }
    }

    fn poll<T: DeserializeOwned>(&self, context: &Context<'_>) -> Poll<Result<T>> {
        let polled = self.core.lock().slots.poll(self.slot, context);
        match polled {
            Some(polled) => polled.map(|resolution| Ok(serde_json::from_value(resolution?)?)),
            None => panic!(
                "the future of {} was polled after it had ended: a future returns its result once; keep the result, or leave the future out of the next `select!` with a condition",
                self.awaited.describe()
            ),
        }
    }

    fn is_open(&self) -> bool {
        self.core.lock().slots.is_open(self.slot)
    }

    /// Cancels the wait: locally at once, and on the server by a command.
    fn cancel(&self) {
        if !self.is_open() {
            return;
        }
        let mut core = self.core.lock();
        if let Some(command) = self.awaited.cancel() {
            core.emit(command);
        }
        core.slots.resolve(self.slot, Err(Error::Cancelled("cancelled by the workflow".into())));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut core = self.core.lock();
        if ABANDONS.get()
            && core.slots.is_open(self.slot)
            && let Some(command) = self.awaited.cancel()
        {
            core.emit(command);
        }
        core.slots.drop_future(self.slot);
    }
}

macro_rules! future {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[must_use = "the command is issued anyway, but the workflow does not wait for the result"]
        #[derive(Debug)]
        pub struct $name<T> {
            pending: Pending,
            output: PhantomData<fn() -> T>,
        }

        impl<T> $name<T> {
            pub(super) fn new(pending: Pending) -> Self {
                Self { pending, output: PhantomData }
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
    /// Resolves to the result of a task.
    TaskFuture
);
future!(
    /// Resolves to the result of a child workflow.
    ChildFuture
);
future!(
    /// Resolves to the value with which the promise is resolved from outside.
    PromiseFuture
);
future!(
    /// Resolves to the result of a step.
    OperationFuture
);

impl<T> TaskFuture<T> {
    /// Id of the task.
    pub fn task_id(&self) -> Uuid {
        match &self.pending.awaited {
            Awaited::Task(id, _) => self.pending.core.lock().logged_id(Kind::Task, *id),
            _ => Uuid::nil(),
        }
    }

    /// Cancels the task. This future fails at once, and the worker that runs the task is asked to stop.
    pub fn cancel(&self) {
        self.pending.cancel();
    }
}

impl<T> ChildFuture<T> {
    /// Id of the child's execution.
    pub fn execution_id(&self) -> Uuid {
        match &self.pending.awaited {
            Awaited::Child(id, _) => self.pending.core.lock().logged_id(Kind::Child, *id),
            _ => Uuid::nil(),
        }
    }

    /// Requests cancellation of the child. This future fails at once.
    pub fn cancel(&self) {
        self.pending.cancel();
    }
}

impl<T> PromiseFuture<T> {
    /// Stops waiting. This future fails at once; resolving the promise later has no effect on the workflow.
    pub fn cancel(&self) {
        self.pending.cancel();
    }
}

impl<T> OperationFuture<T> {
    /// Stops waiting. This future fails at once; the step continues and its result is recorded.
    pub fn cancel(&self) {
        self.pending.cancel();
    }
}

/// Completes when the timer fires.
#[must_use = "the timer runs anyway, but the workflow does not wait for it"]
#[derive(Debug)]
pub struct TimerFuture {
    pending: Pending,
}

impl TimerFuture {
    pub(super) fn new(pending: Pending) -> Self {
        Self { pending }
    }

    /// Cancels the timer. This future fails at once.
    pub fn cancel(&self) {
        self.pending.cancel();
    }
}

impl Future for TimerFuture {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.pending.poll::<Value>(context).map_ok(|_| ())
    }
}

/// Resolves to the next signal of a name.
#[must_use = "a signal is received only when the future is awaited"]
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

    /// Stops waiting. This future fails at once, and the next waiter for the name can receive the signal.
    pub fn cancel(&self) {
        self.pending.cancel();
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

/// Completes, with the reason, when cancellation of the workflow is requested.
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
