//! One workflow in memory: its future, driven by the events of its log.
//!
//! The future is polled at the start, after each event, and for wakes that occur on the driving thread while it is
//! driven. It is never polled for any other wake. A wake from outside is reported as a foreign await.
//!
//! The server refuses an end if the log has a signal that the workflow had not seen, and writes a deferral. From then
//! on, every replay delivers the signals before the deferral together with the event at which the workflow ended. The
//! workflow then decides again, so a replay still depends on the log alone.

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

/// Maximum number of polls in a row. A workflow that exceeds it wakes itself endlessly and never waits.
const MAX_POLLS: usize = 100_000;

/// Why an activation failed. The workflow itself has not failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub(crate) struct ActivationError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Sequence of the event at which the activation failed. 0: not known.
    pub(crate) position: i64,
}

impl ActivationError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), position: 0 }
    }
}

/// The state of the workflow after an activation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The workflow waits.
    Suspended,
    Completed(Value),
    Failed(Error),
    Cancelled(String),
}

/// The state of a workflow's clean-up after a cancel request, as reported to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CleanUp {
    pub(crate) waits: bool,
    /// Time for clean-up, as the definition sets it. `None`: no limit.
    pub(crate) grace: Option<Duration>,
}

pub(crate) struct Instance {
    core: Shared,
    future: Unconstrained<BoxFuture<'static, Result<Value>>>,
    waker: Arc<DriverWaker>,
    outcome: Outcome,
    started: bool,
    /// Sequence of the last event that the workflow has seen.
    pub(crate) seen: i64,
    /// Sequence of the event at which the workflow ended. 0: it has not ended.
    ended_at: i64,
    /// Signals before this sequence have been received.
    signals_before: i64,
    /// Sequence of the last deferral that the workflow has seen.
    last_deferral: i64,
    /// Signals after the workflow's end: the number for each name.
    behind: BTreeMap<String, usize>,
    /// Kinds of the commands of the last step, in order. Once the server accepts the step, their rows follow the last
    /// seen event.
    unread: Vec<Kind>,
}

/// An end that the server refused because of a signal.
struct Deferral {
    /// Sequence of the deferral event.
    sequence: i64,
    /// Sequence of the event at which the workflow had ended.
    ended_at: i64,
}

impl Deferral {
    /// `None`: the event is not a deferral. If an end was deferred again, the workflow had seen everything up to the
    /// previous deferral.
    fn read(event: &LogEvent, before: &[Self]) -> Option<Self> {
        let seen = event.deferred_end()?;
        let again = before.iter().find(|deferral| deferral.sequence == seen);
        Some(Self { sequence: event.sequence, ended_at: again.map_or(seen, |deferral| deferral.ended_at) })
    }
}

/// The result of running ahead of the log.
#[derive(Debug)]
pub(crate) enum WentAhead {
    Came(Vec<Command>, Outcome),
    /// The workflow needed a value that only the log can provide. The instance can no longer be used.
    NeedsLog,
    /// The workflow failed. It will fail in the same way with the log and is reported then. The instance can no
    /// longer be used.
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

/// Tells wakes caused by the driver from all others, including wakes of other threads at the same time.
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
    /// Takes a future that is already created. The future runs with the first event.
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

    /// Continues with the events that follow those seen. Returns the new commands and the state of the workflow.
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
            // Rows before this event belong to commands that must have been emitted before the event arrived.
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

    /// The signals to deliver together with this event, because an end at this event was deferred for them.
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

    /// The last event that the last step has taken into account. An end has not seen events after it. Only a
    /// cancellation ends the workflow regardless of newer events.
    pub(crate) fn base(&self) -> i64 {
        match self.outcome {
            Outcome::Suspended | Outcome::Cancelled(_) => self.seen,
            Outcome::Completed(_) | Outcome::Failed(_) => self.ended_at.max(self.last_deferral),
        }
    }

    /// The state of its clean-up. `None`: the workflow has not seen a cancel request.
    pub(crate) fn clean_up(&self) -> Option<CleanUp> {
        let core = self.core.lock();
        core.cancel_reason.as_ref()?;
        Some(CleanUp { waits: core.waits_for_work(), grace: core.cancel_grace })
    }

    /// For a workflow that has ended: signals that it has not received, the number for each name.
    pub(crate) fn unread_signals(&self) -> BTreeMap<String, usize> {
        let mut unread = self.core.lock().untaken_signals();
        for (name, count) in &self.behind {
            *unread.entry(name.clone()).or_default() += count;
        }
        unread
    }

    /// Whether these events defer an end within the events already seen. If so, the workflow must be replayed.
    pub(crate) fn is_deferred_by(&self, events: &[LogEvent]) -> bool {
        events.iter().filter_map(LogEvent::deferred_end).any(|seen| seen <= self.seen)
    }

    /// Like [`advance`](Self::advance), with events that are not durable yet. `None`: the workflow wants to run a
    /// step, which cannot be undone.
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

    /// What the workflow waits for, in order of creation.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        self.core.lock().waiting()
    }

    /// Turns on the comparison of inputs. Call this before the first event.
    pub(crate) fn be_strict(&self) {
        self.core.lock().be_strict();
    }

    /// Whether the workflow can run ahead of its log when this task succeeds: it waits for no other task, and it can
    /// predict the log's rows.
    pub(crate) fn waits_only_for(&self, task_id: &str) -> bool {
        // The id in a promise's row is known only to the server.
        self.outcome == Outcome::Suspended
            && !self.unread.contains(&Kind::Promise)
            && self.core.lock().waits_only_for(task_id)
    }

    /// Continues with the success of a task before the log has it. The success counts as the event after all known
    /// events.
    pub(crate) fn go_ahead(&mut self, task_id: &str, output: Value) -> WentAhead {
        self.core.lock().learn_own(&self.unread, self.seen + 1);
        self.seen += self.unread.len() as i64 + 1;
        let event = LogEvent {
            sequence: self.seen,
            kind: "TASK_COMPLETED".to_owned(),
            origin: Origin::External,
            // The workflow must not use this time.
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
        // Also when the workflow has ended, because every step that ran is recorded.
        while !self.core.lock().operations.is_empty() {
            self.deliver_operations().await?;
        }
        self.check_rest()
    }

    fn check_rest(&self) -> Result<(), ActivationError> {
        let waits = self.core.lock().slots.any_waiting();
        if self.outcome == Outcome::Suspended && !waits {
            return Err(foreign("the workflow awaits a future that is not from its context"));
        }
        Ok(())
    }

    /// Awaits the started steps, then delivers their results in order of creation. After each result the workflow
    /// runs until it waits.
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
        // All steps are recorded, including those that no future waits for any more, because replay counts them.
        for (name, _, result) in &results {
            self.core.lock().emit(Command::RecordOperation { name: name.clone(), result: result.clone() });
        }
        // Check before the workflow sees a result that may belong to another step.
        self.check()?;
        for (_, slot, result) in results {
            if self.outcome != Outcome::Suspended {
                break;
            }
            self.drive(|core| core.lock().slots.resolve(slot, Ok(result)))?;
        }
        Ok(())
    }

    /// Runs `act`, which may wake the workflow, then polls the workflow until it waits.
    fn drive(&mut self, act: impl FnOnce(&Shared)) -> Result<(), ActivationError> {
        self.check_foreign()?;
        let outer = DRIVING.replace(Arc::as_ptr(&self.waker));
        let first = !std::mem::replace(&mut self.started, true);
        act(&self.core);
        let woken = self.waker.woken.swap(false, Ordering::SeqCst);
        let rested = if woken || first { self.poll_to_rest() } else { Ok(()) };
        DRIVING.set(outer);
        // A workflow that diverged from its history may also panic. Report the cause, not the panic.
        self.check()?;
        rested
    }

    fn check_foreign(&self) -> Result<(), ActivationError> {
        if self.waker.foreign.load(Ordering::SeqCst) {
            return Err(foreign("something outside the workflow's context woke the workflow"));
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
        Err(ActivationError::new("NO_REST", "the workflow wakes itself again and again and never waits"))
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
    let message = format!("{what}: use the context's timers, tasks and `run` instead of other async calls");
    ActivationError::new("FOREIGN_AWAIT", message)
}

fn operation_lost(name: &str, error: tokio::task::JoinError) -> ActivationError {
    let what = match error.try_into_panic() {
        Ok(panic) => panic_message(panic.as_ref()),
        Err(error) => error.to_string(),
    };
    ActivationError::new("PANIC", format!("operation {name:?}: {what}"))
}

/// The error of a task that panicked. The task is retried like after any other failure.
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
