//! A run of one workflow in a test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::TestEnvironment;
use super::log::{Log, add_failure};
use crate::client::HistoryEvent;
use crate::context::WorkflowContext;
use crate::definition::AnyWorkflow;
use crate::error::{Error, Result};
use crate::replay::{Command, Core, Instance, LogEvent, Origin, Outcome, Shared, Waiting, WentAhead};

/// The virtual time at which every test begins.
const BEGINNING_MS: i64 = 1_700_000_000_000;
/// Maximum number of steps before a run counts as endless.
const MAX_STEPS: usize = 100_000;

/// A run of a workflow that a test drives.
pub struct TestRun {
    environment: TestEnvironment,
    kind: String,
    workflow: Arc<dyn AnyWorkflow>,
    input: Value,
    id: Uuid,
    log: Log,
    instance: Option<Instance>,
    outcome: Outcome,
    commands: Vec<String>,
    unread: BTreeMap<String, usize>,
    /// Events that arrive during the next activation.
    meanwhile: Vec<(&'static str, Value)>,
    /// Events that arrive during the activation after the next one.
    later: Vec<(&'static str, Value)>,
    random: u64,
}

impl std::fmt::Debug for TestRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestRun")
            .field("kind", &self.kind)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

impl TestRun {
    pub(super) fn new(
        environment: TestEnvironment,
        kind: &str,
        workflow: Arc<dyn AnyWorkflow>,
        input: Value,
    ) -> Self {
        Self {
            random: environment.seed.unwrap_or_default(),
            environment,
            kind: kind.to_owned(),
            workflow,
            log: Log::new(kind, input.clone(), BEGINNING_MS),
            input,
            id: Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_00AA),
            instance: None,
            outcome: Outcome::Suspended,
            commands: Vec::new(),
            unread: BTreeMap::new(),
            meanwhile: Vec::new(),
            later: Vec::new(),
        }
    }

    /// Runs until the workflow waits for a timer, a signal, a promise, or work that is neither mocked nor run.
    ///
    /// # Errors
    /// Fails if the activation fails: a determinism violation, a panic or a foreign await.
    pub async fn settle(&mut self) -> Result<()> {
        self.go_on(|open| open.due_ms.is_none()).await
    }

    /// Runs until the workflow has finished or waits for the test. Virtual time skips to the next timer.
    ///
    /// # Errors
    /// Fails if an activation fails.
    pub async fn finish(&mut self) -> Result<()> {
        self.go_on(|_| true).await
    }

    /// Advances virtual time. Timers fire in order, and the workflow runs after each.
    ///
    /// # Errors
    /// Fails if an activation fails.
    pub async fn advance(&mut self, duration: Duration) -> Result<()> {
        let until_ms = self.log.now_ms + i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.go_on(|open| open.due_ms.is_none_or(|due_ms| due_ms <= until_ms)).await?;
        self.log.now_ms = self.log.now_ms.max(until_ms);
        Ok(())
    }

    /// Sends a signal and runs the workflow until it waits.
    ///
    /// # Errors
    /// Fails if the workflow has finished, an activation fails, or the value cannot be serialized to JSON.
    pub async fn signal<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        let data = json!({ "signalName": name, "signalValue": serde_json::to_value(value)? });
        self.happen("SIGNAL_RECEIVED", data).await
    }

    /// Sends a signal that arrives during the next activation: after the events that the activation sees, before its
    /// commands.
    ///
    /// # Errors
    /// Fails if the value cannot be serialized to JSON.
    pub fn signal_meanwhile<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        let data = json!({ "signalName": name, "signalValue": serde_json::to_value(value)? });
        self.meanwhile.push(("SIGNAL_RECEIVED", data));
        Ok(())
    }

    /// Sends a signal that arrives during the activation after the next one.
    ///
    /// # Errors
    /// Fails if the value cannot be serialized to JSON.
    pub fn signal_later<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        let data = json!({ "signalName": name, "signalValue": serde_json::to_value(value)? });
        self.later.push(("SIGNAL_RECEIVED", data));
        Ok(())
    }

    /// Requests cancellation during the next activation.
    pub fn cancel_meanwhile(&mut self, reason: &str) {
        self.meanwhile.push(("CANCELLATION_REQUESTED", json!({ "reason": reason })));
    }

    /// Appends an event from outside. Fails if the workflow has ended, because a log has no events after the end.
    async fn happen(&mut self, kind: &str, data: Value) -> Result<()> {
        if self.outcome != Outcome::Suspended {
            return Err(Error::failed("the workflow has finished"));
        }
        self.log.append(Origin::External, kind, data);
        self.settle().await
    }

    /// Resolves the oldest open promise of this name and runs the workflow until it waits.
    ///
    /// # Errors
    /// Fails if the promise does not exist, or an activation fails.
    pub async fn resolve_promise<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        self.settle().await?;
        self.log.answer_promise(name, Ok(serde_json::to_value(value)?))?;
        self.settle().await
    }

    /// Rejects the oldest open promise of this name and runs the workflow until it waits.
    ///
    /// # Errors
    /// Fails if the promise does not exist, or an activation fails.
    pub async fn reject_promise(&mut self, name: &str, error: &str) -> Result<()> {
        self.settle().await?;
        self.log.answer_promise(name, Err(error.to_owned()))?;
        self.settle().await
    }

    /// Requests cancellation of the workflow.
    ///
    /// # Errors
    /// Fails if the workflow has finished, or an activation fails.
    pub async fn cancel(&mut self, reason: &str) -> Result<()> {
        self.happen("CANCELLATION_REQUESTED", json!({ "reason": reason })).await
    }

    /// The output. `None`: the workflow has not completed.
    pub fn output(&self) -> Option<&Value> {
        match &self.outcome {
            Outcome::Completed(output) => Some(output),
            _ => None,
        }
    }

    /// The error. `None`: the workflow has not failed and was not cancelled.
    pub fn error(&self) -> Option<Error> {
        match &self.outcome {
            Outcome::Failed(error) => Some(error.clone()),
            Outcome::Cancelled(reason) => Some(Error::Cancelled(reason.clone())),
            _ => None,
        }
    }

    /// Whether the workflow has not ended.
    pub fn is_waiting(&self) -> bool {
        self.outcome == Outcome::Suspended
    }

    /// A value of the workflow's state. `None`: the key is not set.
    ///
    /// # Errors
    /// Fails if the value cannot be deserialized as `T`.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        Ok(self.log.state(key).cloned().map(serde_json::from_value).transpose()?)
    }

    /// What the workflow waits for, in words, in the order of creation: such as `promise "approval"`, or a task with
    /// the error of its last attempt. Empty: the workflow has ended, or was not driven yet.
    pub fn waiting_on(&self) -> Vec<String> {
        let Some(instance) = self.instance.as_ref().filter(|_| self.is_waiting()) else { return Vec::new() };
        let describe = |waiting: Waiting| match waiting {
            Waiting::Task { id, kind } => {
                let note = self.log.task_note(&id);
                format!(
                    "task {kind:?}{}",
                    note.unwrap_or_else(|| ", which the test neither runs nor mocks".into())
                )
            }
            Waiting::Other(what) => what,
        };
        instance.waiting().into_iter().map(describe).collect()
    }

    /// Signals that the workflow had received but not read when it ended: the number for each name.
    pub fn unread_signals(&self) -> &BTreeMap<String, usize> {
        &self.unread
    }

    /// The commands of the workflow, in order, such as `timer "timer-1"`.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// The history so far.
    pub fn history(&self) -> Vec<HistoryEvent> {
        let read = |event: &LogEvent| HistoryEvent {
            sequence: event.sequence,
            kind: event.kind.clone(),
            time_ms: event.time_ms,
            data: event.data.clone(),
        };
        self.log.events.iter().map(read).collect()
    }

    /// The history so far, in the format that [`replay`](super::replay) reads. It can be stored in a file.
    pub fn recording(&self) -> Value {
        let write = |event: &LogEvent| {
            let origin = match event.origin {
                Origin::Command => "COMMAND",
                Origin::External => "EXTERNAL",
            };
            json!({ "sequence": event.sequence, "eventType": event.kind, "origin": origin,
                "timestampMs": event.time_ms, "data": event.data })
        };
        let events: Vec<Value> = self.log.events.iter().map(write).collect();
        json!({ "executionId": self.id.to_string(), "createdAtMs": BEGINNING_MS, "events": events })
    }

    /// The virtual time that has passed.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis((self.log.now_ms - BEGINNING_MS).unsigned_abs())
    }

    async fn go_on(&mut self, may: impl Fn(&super::log::Open) -> bool) -> Result<()> {
        for _ in 0..MAX_STEPS {
            self.step().await?;
            if self.outcome != Outcome::Suspended || !(self.has_news() || self.complete_some(&may).await) {
                return Ok(());
            }
        }
        Err(Error::failed("the workflow does not end"))
    }

    /// Runs one activation.
    async fn step(&mut self) -> Result<()> {
        if self.outcome != Outcome::Suspended {
            return Ok(());
        }
        let mut instance = match self.instance.take().filter(|_| !self.environment.evict) {
            Some(instance) => instance,
            None => self.instance(),
        };
        let (commands, outcome) = match self.go_ahead(&mut instance) {
            Some(WentAhead::Came(commands, outcome)) => (commands, outcome),
            left => {
                if left.is_some() {
                    instance = self.instance();
                }
                let seen = usize::try_from(instance.seen).unwrap_or_default();
                let advanced = instance.advance(&self.log.events[seen..]).await;
                advanced.map_err(super::replay::violation)?
            }
        };
        self.let_things_happen().await;
        let ends = matches!(outcome, Outcome::Completed(_) | Outcome::Failed(_));
        if ends && self.log.last_signal() > instance.base() {
            // Like a server: the step is discarded, and the workflow decides again.
            let data = json!({ "reason": "a signal came first", "seenThrough": instance.base() });
            self.log.append(Origin::External, "WORKFLOW_SUSPENDED", data);
            return Ok(());
        }
        self.unread = match outcome {
            Outcome::Suspended => BTreeMap::new(),
            _ => instance.unread_signals(),
        };
        for command in commands {
            self.commands.push(Command::describe(&command));
            self.log.carry_out(&self.environment, self.id, command);
        }
        self.finish_log(&outcome);
        self.outcome = outcome;
        self.instance = Some(instance);
        Ok(())
    }

    /// Runs ahead of the log where a worker would, although the log already has the event.
    fn go_ahead(&self, instance: &mut Instance) -> Option<WentAhead> {
        let seen = usize::try_from(instance.seen).unwrap_or_default();
        let (last, before) = self.log.events[seen..].split_last()?;
        let task_id = last.text("taskExecutionId");
        let goes = self.environment.ahead
            && last.kind == "TASK_COMPLETED"
            && before.iter().all(|event| event.origin == Origin::Command)
            && instance.waits_only_for(task_id);
        goes.then(|| instance.go_ahead(task_id, last.value("output")))
    }

    fn instance(&self) -> Instance {
        let core = Shared::new(Core::new(self.id, &self.kind, BEGINNING_MS).strict());
        let context = WorkflowContext::new(core.clone());
        Instance::new(core, self.workflow.clone().start(context, self.input.clone()))
    }

    /// Adds the events that arrive between the end of an activation and the moment when its commands are in the log.
    async fn let_things_happen(&mut self) {
        let next = std::mem::take(&mut self.later);
        for (kind, data) in std::mem::replace(&mut self.meanwhile, next) {
            self.log.append(Origin::External, kind, data);
        }
        if self.environment.seed.is_some() && self.draw(4) == 0 {
            let ready = self.ready(&|open: &super::log::Open| open.due_ms.is_none());
            if !ready.is_empty() {
                let chosen = ready[self.draw(ready.len())];
                self.log.complete(chosen).await;
            }
        }
    }

    /// Whether the log has external events that the workflow has not seen.
    fn has_news(&self) -> bool {
        let seen = self.instance.as_ref().map_or(0, |instance| instance.seen);
        self.log
            .events
            .iter()
            .rev()
            .take_while(|event| event.sequence > seen)
            .any(|event| event.origin == Origin::External)
    }

    fn finish_log(&mut self, outcome: &Outcome) {
        let (kind, mut data) = match outcome {
            Outcome::Suspended => return,
            Outcome::Completed(output) => ("WORKFLOW_COMPLETED", json!({ "output": output })),
            Outcome::Failed(error) => {
                let mut data = Map::new();
                data.insert("error".into(), error.to_string().into());
                add_failure(&mut data, error);
                ("WORKFLOW_EXECUTION_FAILED", Value::Object(data))
            }
            Outcome::Cancelled(reason) => ("WORKFLOW_CANCELLED", json!({ "reason": reason })),
        };
        let unread: usize = self.unread.values().sum();
        if unread > 0 {
            data["unreadSignals"] = unread.into();
        }
        self.log.append(Origin::Command, kind, data);
    }

    /// Completes the next open item. With a seed, completes up to three random items.
    async fn complete_some(&mut self, may: &impl Fn(&super::log::Open) -> bool) -> bool {
        let mut count = match self.environment.seed {
            None => 1,
            Some(_) => 1 + self.draw(3),
        };
        let mut any = false;
        while count > 0 {
            let ready: Vec<usize> = self.ready(may);
            if ready.is_empty() {
                break;
            }
            let chosen = match self.environment.seed {
                None => ready[0],
                Some(_) => ready[self.draw(ready.len())],
            };
            self.log.complete(chosen).await;
            any = true;
            count -= 1;
        }
        any
    }

    /// Open items that may complete now: items without a time before items with a time, unless shuffled; of timed
    /// items only the earliest.
    fn ready(&self, may: &impl Fn(&super::log::Open) -> bool) -> Vec<usize> {
        let all = || self.log.open.iter().enumerate().filter(|(_, open)| may(open));
        let at_once: Vec<usize> =
            all().filter(|(_, open)| open.due_ms.is_none()).map(|(index, _)| index).collect();
        if !at_once.is_empty() && self.environment.seed.is_none() {
            return at_once;
        }
        let timed = all().filter(|(_, open)| open.due_ms.is_some());
        let earliest = timed.min_by_key(|(index, open)| (open.due_ms, *index));
        at_once.into_iter().chain(earliest.map(|(index, _)| index)).collect()
    }

    /// A random number below `bound`.
    fn draw(&mut self, bound: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.random >> 33).unwrap_or_default() % bound
    }
}
