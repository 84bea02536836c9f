//! Replays a recorded history against code, to check that the code is still compatible with it.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::recorded::{self, Ending};
use crate::context::WorkflowContext;
use crate::definition::{AnyWorkflow, Dynamic, WorkflowDefinition};
use crate::error::{Error, Result};
use crate::replay::{ActivationError, Core, Instance, LogEvent, Outcome, Shared};

/// Replays a history against a workflow. The history is the output of `flovyn workflow export` or `GET .../events`,
/// or an array of events. An event is an object with `sequence` (or `sequenceNumber`), `eventType` (or `kind`),
/// `data`, and, if known, `timestampMs` and `origin`.
///
/// The replay compares what a worker compares: the commands, their order, kinds and names, and how the workflow
/// ended. Ids are taken from the history. A new field in an input is not a violation. [`Replay::strict`] also
/// compares inputs, durations and results.
///
/// ```no_run
/// # use flovyn_sdk::{Result, WorkflowContext, workflow};
/// # #[workflow]
/// # async fn order(_: WorkflowContext, id: u32) -> Result<u32> { Ok(id) }
/// # async fn example() -> Result<()> {
/// // flovyn workflow export 01a1e259-e972-72ed-ab63-ea102818ba7e > tests/histories/order.json
/// let history = serde_json::from_str(&std::fs::read_to_string("tests/histories/order.json")?)?;
/// flovyn_sdk::testing::replay(Order, &history).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails with [`Error::DeterminismViolation`] if the code does not match the history.
pub async fn replay<W: WorkflowDefinition>(workflow: W, history: &Value) -> Result<()> {
    Replay::of(workflow, history)?.to_the_end().await
}

/// Like [`replay`], for a workflow made from a closure.
///
/// # Errors
/// Fails with [`Error::DeterminismViolation`] if the code does not match the history.
pub async fn replay_fn<F, R>(kind: &str, workflow: F, history: &Value) -> Result<()>
where
    F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value>> + Send + 'static,
{
    Replay::new(kind, workflow, history)?.to_the_end().await
}

/// A replay in steps that the test chooses, like the activations of a worker.
pub struct Replay {
    events: Vec<LogEvent>,
    next: usize,
    workflow: Arc<dyn AnyWorkflow>,
    kind: String,
    id: Uuid,
    created_ms: i64,
    instance: Instance,
    outcome: Outcome,
    strict: bool,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay")
            .field("kind", &self.kind)
            .field("next", &self.next)
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

impl Replay {
    /// Creates a replay of a typed workflow.
    ///
    /// # Errors
    /// Fails if the history cannot be read.
    pub fn of<W: WorkflowDefinition>(workflow: W, history: &Value) -> Result<Self> {
        Self::begin(W::KIND, Arc::new(workflow), history)
    }

    /// Also compares inputs, durations and results, which a worker does not compare.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.instance.be_strict();
        self.strict = true;
        self
    }

    /// Creates a replay of a workflow made from a closure.
    ///
    /// # Errors
    /// Fails if the history cannot be read.
    pub fn new<F, R>(kind: &str, workflow: F, history: &Value) -> Result<Self>
    where
        F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value>> + Send + 'static,
    {
        Self::begin(kind, Arc::new(Dynamic(workflow)), history)
    }

    fn begin(kind: &str, workflow: Arc<dyn AnyWorkflow>, history: &Value) -> Result<Self> {
        let events = recorded::events(history)?;
        let first = events.first().ok_or_else(|| Error::failed("the history is empty"))?;
        let id = history.get("executionId").or_else(|| history.get("execution")?.get("id"));
        let id = id.and_then(Value::as_str).map(Uuid::try_parse);
        let id = id.transpose().map_err(|error| Error::failed(format!("executionId: {error}")))?;
        let created_ms = history.get("createdAtMs").and_then(Value::as_i64).unwrap_or(first.time_ms);
        let (id, kind, input) = (id.unwrap_or_default(), kind.to_owned(), first.value("input"));
        let instance = start(&workflow, &kind, id, created_ms, input);
        let outcome = Outcome::Suspended;
        Ok(Self { events, next: 0, workflow, kind, id, created_ms, instance, outcome, strict: false })
    }

    /// Restarts from the beginning, as a worker does when an end was deferred.
    fn restart(&mut self) {
        let input = self.events[0].value("input");
        self.instance = start(&self.workflow, &self.kind, self.id, self.created_ms, input);
        if self.strict {
            self.instance.be_strict();
        }
        self.next = 0;
    }

    /// The number of events that have not been replayed.
    pub fn left(&self) -> usize {
        self.events.len() - self.next
    }

    /// Runs one activation with the next `count` events. Returns the commands that are not in the replayed part of
    /// the history, each with its input.
    ///
    /// # Errors
    /// Fails with [`Error::DeterminismViolation`] if the code does not match the history.
    pub async fn feed(&mut self, count: usize) -> Result<Vec<String>> {
        let until = self.events.len().min(self.next + count);
        if self.instance.is_deferred_by(&self.events[self.next..until]) {
            self.restart();
        }
        let advanced = self.instance.advance(&self.events[self.next..until]).await;
        self.next = until;
        let (commands, outcome) = advanced.map_err(violation)?;
        self.outcome = outcome;
        Ok(commands.iter().map(crate::replay::Command::describe_fully).collect())
    }

    /// The result of the workflow. `None`: it has not ended.
    pub fn ended(&self) -> Option<Result<Value>> {
        match &self.outcome {
            Outcome::Suspended => None,
            Outcome::Completed(output) => Some(Ok(output.clone())),
            Outcome::Failed(error) => Some(Err(error.clone())),
            Outcome::Cancelled(reason) => Some(Err(Error::Cancelled(reason.clone()))),
        }
    }

    /// Replays the rest. If the history has ended, the code must end in the same way.
    ///
    /// # Errors
    /// Fails with [`Error::DeterminismViolation`] if the code does not match the history.
    pub async fn to_the_end(mut self) -> Result<()> {
        let commands = self.feed(self.left()).await?;
        let Some(ending) = self.events.iter().rev().find_map(Ending::read) else { return Ok(()) };
        if let Some(command) = commands.first() {
            return Err(ending.violation(&format!(
                "in the history the workflow has ended, but its code requested {command}"
            )));
        }
        ending.compare(&self.outcome, self.strict)
    }
}

fn start(workflow: &Arc<dyn AnyWorkflow>, kind: &str, id: Uuid, created_ms: i64, input: Value) -> Instance {
    let core = Shared::new(Core::new(id, kind, created_ms));
    let context = WorkflowContext::new(core.clone());
    Instance::new(core, workflow.clone().start(context, input))
}

/// Converts the error of an activation to the error that tests receive.
pub(super) fn violation(error: ActivationError) -> Error {
    Error::DeterminismViolation(format!("{} at event {}: {}", error.code, error.position, error.message))
}
