//! One workflow in memory: its future, driven by the events of its log.
//!
//! It is polled when it starts, after each event, and for wakes that are raised while it is driven, on the thread that
//! drives it; never for any other wake. Something else that wakes it is a foreign await, and named so.
//!
//! An end does not stand while the log has a signal that the workflow had not seen. The server refuses such an end and writes a
//! deferral: from then on, in every replay, the signals before the deferral come together with the event at which the workflow
//! ended, and it decides anew. So what a replay does still depends on the log alone.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::task::coop::Unconstrained;
use uuid::Uuid;

use super::command::{Command, Kind};
use super::core::{Shared, Waiting};
use super::event::{LogEvent, Origin};
use super::operations::Started;
use crate::error::{Error, Result};
use crate::size;

/// Polls in a row without coming to rest: the workflow wakes itself over and over.
const MAX_POLLS: usize = 100_000;

/// Why an activation failed. The workflow itself has not.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct ActivationError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Sequence of the event it happened at; 0 where there is none.
    pub(crate) position: i64,
}

impl ActivationError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), position: 0 }
    }
}

/// How far the workflow has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// It waits.
    Suspended,
    Completed(Value),
    Failed(Error),
    Cancelled(String),
}

/// What the server is told of a workflow's clean-up after a cancel request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CleanUp {
    pub(crate) waits: bool,
    /// Time that the definition gives it.
    pub(crate) grace: Option<Duration>,
}

pub(crate) struct Instance {
    core: Shared,
    future: Unconstrained<BoxFuture<'static, Result<Value>>>,
    waker: Arc<DriverWaker>,
    outcome: Outcome,
    started: bool,
    /// Last event of the log that it has seen.
    pub(crate) seen: i64,
    /// The event at which it has ended. 0: it has not.
    ended_at: i64,
    /// Signals before this event have been received.
    signals_before: i64,
    /// The last deferral of an end that it has seen.
    last_deferral: i64,
    /// Signals behind its end: how many of each name.
    behind: BTreeMap<String, usize>,
    /// Kinds of the commands of its last step, in order: the rows that follow what it has seen, once the step is accepted.
    unread: Vec<Kind>,
}

/// An end that did not stand.
struct Deferral {
    /// Of the event that says so.
    sequence: i64,
    /// The event at which the workflow had ended.
    ended_at: i64,
}

impl Deferral {
    /// An end that was deferred again had seen everything up to the deferral before.
    fn read(event: &LogEvent, before: &[Self]) -> Option<Self> {
        let seen = event.deferred_end()?;
        let again = before.iter().find(|deferral| deferral.sequence == seen);
        Some(Self { sequence: event.sequence, ended_at: again.map_or(seen, |deferral| deferral.ended_at) })
    }
}

/// What came of going ahead of the log.
#[derive(Debug)]
pub(crate) enum WentAhead {
    Came(Vec<Command>, Outcome),
    /// It asked for what only the log can give. It is of no more use.
    NeedsLog,
    /// It failed, and will fail in the same way when the log is there: to be told then. It is of no more use.
    Failed,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance")
            .field("seen", &self.seen)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// The waker of the workflow that this thread drives right now.
    static DRIVING: Cell<*const DriverWaker> = const { Cell::new(std::ptr::null()) };
}

/// Tells wakes of the driver's own making from all others, also from those of other threads at the same time.
#[derive(Debug, Default)]
struct DriverWaker {
    woken: AtomicBool,
    foreign: AtomicBool,
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if DRIVING.get() == Arc::as_ptr(self) {
            self.woken.store(true, Ordering::SeqCst);
        } else {
            self.foreign.store(true, Ordering::SeqCst);
        }
    }
}

impl Instance {
    /// The future is made already and runs with the first event.
    pub(crate) fn new(core: Shared, future: BoxFuture<'static, Result<Value>>) -> Self {
        Self {
            core,
            future: tokio::task::coop::unconstrained(future),
            waker: Arc::default(),
            outcome: Outcome::Suspended,
            started: false,
            seen: 0,
            ended_at: 0,
            signals_before: 0,
            last_deferral: 0,
            behind: BTreeMap::new(),
            unread: Vec::new(),
        }
    }

    /// Goes on with the events that follow those seen. Returns the new commands and how far it has come.
    pub(crate) async fn advance(
        &mut self,
        events: &[LogEvent],
    ) -> Result<(Vec<Command>, Outcome), ActivationError> {
        let mut deferrals = Vec::new();
        for event in events {
            match event.origin {
                Origin::Command => self.core.lock().learn(event),
                Origin::External => deferrals.extend(Deferral::read(event, &deferrals)),
            }
        }
        if let Some(last) = deferrals.last() {
            self.last_deferral = last.sequence;
        }
        for (place, event) in events.iter().enumerate() {
            self.seen = event.sequence;
            let received = event.is_signal() && event.sequence < self.signals_before;
            if event.origin == Origin::Command || received {
                continue;
            }
            if self.outcome != Outcome::Suspended {
                if event.is_signal() {
                    *self.behind.entry(event.text("signalName").to_owned()).or_default() += 1;
                }
                continue;
            }
            // Rows before this event were asked for before it came.
            self.core.lock().check_matched(event.sequence);
            self.check()?;
            let with = self.signals_with(event, &events[place + 1..], &deferrals);
            self.apply(event, &with).await.map_err(|error| at(error, event.sequence))?;
            if self.outcome != Outcome::Suspended {
                self.ended_at = event.sequence;
            }
        }
        self.core.lock().check_matched(i64::MAX);
        self.check()?;
        if self.outcome == Outcome::Suspended {
            self.check_foreign().map_err(|error| at(error, self.seen))?;
        }
        Ok((self.take_commands(), self.outcome.clone()))
    }

    /// The signals that come together with this event, because an end at it was deferred for them.
    fn signals_with<'a>(
        &mut self,
        event: &LogEvent,
        later: &'a [LogEvent],
        deferrals: &[Deferral],
    ) -> Vec<&'a LogEvent> {
        let mut here = deferrals.iter().filter(|deferral| deferral.ended_at == event.sequence);
        let Some(last) = here.next_back() else { return Vec::new() };
        self.signals_before = last.sequence;
        let earlier = later.iter().take_while(|later| later.sequence < last.sequence);
        earlier.filter(|later| later.is_signal()).collect()
    }

    /// How much of the log its last step has taken into account. An end has not seen what came behind it. Only a request to
    /// cancel ends a workflow whatever else there is.
    pub(crate) fn base(&self) -> i64 {
        match self.outcome {
            Outcome::Suspended | Outcome::Cancelled(_) => self.seen,
            Outcome::Completed(_) | Outcome::Failed(_) => self.ended_at.max(self.last_deferral),
        }
    }

    /// How far it has come with its clean-up. `None`: it has not seen a cancel request.
    pub(crate) fn clean_up(&self) -> Option<CleanUp> {
        let core = self.core.lock();
        core.cancel_reason.as_ref()?;
        Some(CleanUp { waits: core.waits_for_work(), grace: core.cancel_grace })
    }

    /// Signals that it has not read, how many of each name, once it has ended.
    pub(crate) fn unread_signals(&self) -> BTreeMap<String, usize> {
        let mut unread = self.core.lock().untaken_signals();
        for (name, count) in &self.behind {
            *unread.entry(name.clone()).or_default() += count;
        }
        unread
    }

    /// Whether these events say that an end did not stand which lies in what it has seen: it has to be replayed.
    pub(crate) fn is_deferred_by(&self, events: &[LogEvent]) -> bool {
        events.iter().filter_map(LogEvent::deferred_end).any(|seen| seen <= self.seen)
    }

    /// The same with events that are not durable yet. Nothing: it wants to do what cannot be undone.
    pub(crate) async fn advance_provisionally(
        &mut self,
        events: &[LogEvent],
    ) -> Result<Option<(Vec<Command>, Outcome)>, ActivationError> {
        self.core.lock().go_provisionally();
        let advanced = self.advance(events).await;
        if !self.core.lock().came_through() {
            return Ok(None);
        }
        advanced.map(Some)
    }

    fn take_commands(&mut self) -> Vec<Command> {
        let commands = std::mem::take(&mut self.core.lock().new_commands);
        self.unread = commands.iter().map(Command::kind).collect();
        commands
    }

    pub(crate) fn execution_id(&self) -> Uuid {
        self.core.lock().execution_id
    }

    pub(crate) fn kind(&self) -> String {
        self.core.lock().kind.clone()
    }

    /// What it waits for, in order of creation.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        self.core.lock().waiting()
    }

    /// Compares inputs as well, from the beginning.
    pub(crate) fn be_strict(&self) {
        self.core.lock().be_strict();
    }

    /// Whether it can go ahead of its log when this task succeeds: it waits for no other, and knows all of the log by itself.
    pub(crate) fn waits_only_for(&self, task_id: &str) -> bool {
        // A promise's row has an id that only the server knows.
        self.outcome == Outcome::Suspended
            && !self.unread.contains(&Kind::Promise)
            && self.core.lock().waits_only_for(task_id)
    }

    /// Goes on with the success of a task before the log has it, as the event that follows everything it knows of.
    pub(crate) fn go_ahead(&mut self, task_id: &str, output: Value) -> WentAhead {
        self.core.lock().learn_own(&self.unread, self.seen + 1);
        self.seen += self.unread.len() as i64 + 1;
        let event = LogEvent {
            sequence: self.seen,
            kind: "TASK_COMPLETED".to_owned(),
            origin: Origin::External,
            // Nobody may act upon it.
            time_ms: self.core.lock().last_time_ms(),
            data: json!({"taskExecutionId": task_id, "output": output}),
        };
        self.core.lock().go_ahead();
        let driven = self.drive(|core| core.lock().apply(&event));
        if !self.core.lock().came_through() {
            return WentAhead::NeedsLog;
        }
        if driven.and_then(|()| self.check_rest()).and_then(|()| self.check_foreign()).is_err() {
            return WentAhead::Failed;
        }
        if self.outcome != Outcome::Suspended {
            self.ended_at = self.seen;
        }
        WentAhead::Came(self.take_commands(), self.outcome.clone())
    }

    async fn apply(&mut self, event: &LogEvent, signals: &[&LogEvent]) -> Result<(), ActivationError> {
        self.drive(|core| {
            let mut core = core.lock();
            core.apply(event);
            signals.iter().for_each(|signal| core.receive(signal));
        })?;
        // Also when the workflow has ended: whatever ran is recorded.
        while !self.core.lock().operations.is_empty() {
            self.deliver_operations().await?;
        }
        self.check_rest()
    }

    fn check_rest(&self) -> Result<(), ActivationError> {
        let waits = self.core.lock().slots.any_waiting();
        if self.outcome == Outcome::Suspended && !waits {
            return Err(foreign("it waits for something that is not of its context"));
        }
        Ok(())
    }

    /// Awaits the steps that were started, then delivers their results in order of creation, to rest after each.
    async fn deliver_operations(&mut self) -> Result<(), ActivationError> {
        let started = std::mem::take(&mut self.core.lock().operations);
        let mut results = Vec::with_capacity(started.len());
        for operation in started {
            let result = match operation.started {
                Started::Recorded(value) => Ok(value),
                Started::Running(handle) => {
                    handle.await.map_err(|error| operation_lost(&operation.name, error))?
                }
            };
            let result = result.map_err(|error| {
                ActivationError::new("OPERATION_FAILED", format!("operation {:?}: {error}", operation.name))
            })?;
            let what = || format!("the result of the operation {:?}", operation.name);
            if let Some(message) = size::exceeded(what, &result) {
                return Err(ActivationError::new(size::TOO_LARGE, message));
            }
            results.push((operation.name, operation.slot, result));
        }
        // All of them are recorded, also those that nobody waits for any more: replay counts them.
        for (name, _, result) in &results {
            self.core.lock().emit(Command::RecordOperation { name: name.clone(), result: result.clone() });
        }
        // Before the workflow sees a result that was another step's.
        self.check()?;
        for (_, slot, result) in results {
            if self.outcome != Outcome::Suspended {
                break;
            }
            self.drive(|core| core.lock().slots.resolve(slot, Ok(result)))?;
        }
        Ok(())
    }

    /// Does something that may wake the workflow, then polls it to rest.
    fn drive(&mut self, act: impl FnOnce(&Shared)) -> Result<(), ActivationError> {
        self.check_foreign()?;
        let outer = DRIVING.replace(Arc::as_ptr(&self.waker));
        let first = !std::mem::replace(&mut self.started, true);
        act(&self.core);
        let woken = self.waker.woken.swap(false, Ordering::SeqCst);
        let rested = if woken || first { self.poll_to_rest() } else { Ok(()) };
        DRIVING.set(outer);
        // A workflow that went astray may panic as well: the cause is named, not what followed from it.
        self.check()?;
        rested
    }

    fn check_foreign(&self) -> Result<(), ActivationError> {
        if self.waker.foreign.load(Ordering::SeqCst) {
            return Err(foreign("something outside its context woke it"));
        }
        Ok(())
    }

    fn poll_to_rest(&mut self) -> Result<(), ActivationError> {
        let waker = Waker::from(self.waker.clone());
        let mut context = Context::from_waker(&waker);
        for _ in 0..MAX_POLLS {
            let future = Pin::new(&mut self.future);
            let polled = catch_unwind(AssertUnwindSafe(|| future.poll(&mut context)));
            let polled =
                polled.map_err(|panic| ActivationError::new("PANIC", panic_message(panic.as_ref())))?;
            if let Poll::Ready(result) = polled {
                self.outcome = self.ended(result);
                return Ok(());
            }
            if !self.waker.woken.swap(false, Ordering::SeqCst) {
                return Ok(());
            }
        }
        Err(ActivationError::new("NO_REST", "the workflow wakes itself over and over and never waits"))
    }

    fn ended(&self, result: Result<Value>) -> Outcome {
        match result {
            Ok(output) => Outcome::Completed(output),
            Err(Error::Cancelled(_)) if self.core.lock().cancel_reason.is_some() => {
                Outcome::Cancelled(self.core.lock().cancel_reason.clone().unwrap_or_default())
            }
            Err(error) => Outcome::Failed(error),
        }
    }

    fn check(&self) -> Result<(), ActivationError> {
        match &self.core.lock().violation {
            None => Ok(()),
            Some((position, message)) => Err(ActivationError {
                code: "DETERMINISM_VIOLATION",
                message: message.clone(),
                position: *position,
            }),
        }
    }
}

fn at(error: ActivationError, sequence: i64) -> ActivationError {
    let position = if error.position == 0 { sequence } else { error.position };
    ActivationError { position, ..error }
}

fn foreign(what: &str) -> ActivationError {
    let message =
        format!("{what}: use the context's own timers, tasks and `run` instead of other async calls");
    ActivationError::new("FOREIGN_AWAIT", message)
}

fn operation_lost(name: &str, error: tokio::task::JoinError) -> ActivationError {
    let what = match error.try_into_panic() {
        Ok(panic) => panic_message(panic.as_ref()),
        Err(error) => error.to_string(),
    };
    ActivationError::new("PANIC", format!("operation {name:?}: {what}"))
}

/// A task that panicked has failed, and is tried again as any other.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    Error::application("PANIC", format!("panicked: {}", panic_message(panic))).into()
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::WorkflowContext;
    use crate::replay::Core;

    fn begun<F: Future<Output = Result<Value>> + Send + 'static>(
        workflow: impl FnOnce(WorkflowContext) -> F,
    ) -> Instance {
        let core = Shared::new(Core::new(Uuid::nil(), "kind", 0));
        let future = workflow(WorkflowContext::new(core.clone()));
        Instance::new(core, Box::pin(future))
    }

    fn start() -> LogEvent {
        let (kind, data) = ("WORKFLOW_STARTED".to_owned(), json!({"input": null}));
        LogEvent { sequence: 1, kind, origin: Origin::External, time_ms: 7, data }
    }

    #[tokio::test]
    async fn what_cannot_be_undone_waits_until_the_start_is_durable() {
        let ran = Arc::new(AtomicBool::new(false));
        let runs = ran.clone();
        let acts = move |context: WorkflowContext| async move {
            context.run("act", move || runs.store(true, Ordering::SeqCst)).await?;
            Ok(Value::Null)
        };
        let advanced = begun(acts.clone()).advance_provisionally(&[start()]).await;
        assert_eq!(advanced, Ok(None));
        assert!(!ran.load(Ordering::SeqCst));
        let (_, outcome) = begun(acts).advance(&[start()]).await.unwrap();
        assert_eq!(outcome, Outcome::Completed(Value::Null));
        assert!(ran.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn the_time_of_a_start_is_known_before_it_is_durable() {
        let reads = |context: WorkflowContext| async move { Ok(json!(context.current_time_millis())) };
        let advanced = begun(reads).advance_provisionally(&[start()]).await.unwrap();
        assert_eq!(advanced.unwrap().1, Outcome::Completed(json!(7)));
    }
}
