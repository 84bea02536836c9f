//! Replays a recorded history against code: does it still do what it did?

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::recorded::{self, Ending};
use crate::context::WorkflowContext;
use crate::definition::{AnyWorkflow, Dynamic, WorkflowDefinition};
use crate::error::{Error, Result};
use crate::replay::{ActivationError, Core, Instance, LogEvent, Outcome, Shared};

/// Replays a history against a workflow. The history is what `GET .../events` returns, or an array of its events: objects with
/// `sequence` (or `sequenceNumber`), `eventType` (or `kind`), `data`, and, where known, `timestampMs` and `origin`. Beside it
/// may stand `executionId` and `createdAtMs`, from which ids are derived. Inputs are compared as well as kinds.
///
/// # Errors
/// With [`Error::DeterminismViolation`] when the code does not fit the history.
pub async fn replay<W: WorkflowDefinition>(workflow: W, history: &Value) -> Result<()> {
    Replay::begin(W::KIND, Arc::new(workflow), history)?.to_the_end().await
}

/// The same for a workflow made of a closure.
///
/// # Errors
/// With [`Error::DeterminismViolation`] when the code does not fit the history.
pub async fn replay_fn<F, R>(kind: &str, workflow: F, history: &Value) -> Result<()>
where
    F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value>> + Send + 'static,
{
    Replay::new(kind, workflow, history)?.to_the_end().await
}

/// A replay that stops wherever the test wants, as activations do.
#[derive(Debug)]
pub struct Replay {
    events: Vec<LogEvent>,
    next: usize,
    instance: Instance,
    outcome: Outcome,
}

impl Replay {
    /// Of a workflow made of a closure.
    ///
    /// # Errors
    /// When the history cannot be read.
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
        let id = history.get("executionId").and_then(Value::as_str).map(Uuid::try_parse);
        let id = id.transpose().map_err(|error| Error::failed(format!("executionId: {error}")))?;
        let created_ms = history.get("createdAtMs").and_then(Value::as_i64).unwrap_or(first.time_ms);
        let core = Shared::new(Core::new(id.unwrap_or_default(), kind, created_ms).strict());
        let context = WorkflowContext::new(core.clone());
        let instance = Instance::new(core, workflow.start(context, first.value("input")));
        Ok(Self { events, next: 0, instance, outcome: Outcome::Suspended })
    }

    /// How many events are left.
    pub fn left(&self) -> usize {
        self.events.len() - self.next
    }

    /// One activation with the next `count` events. Returns what the workflow asks for and the history, as far as it was
    /// replayed, does not have; each with its input.
    ///
    /// # Errors
    /// With [`Error::DeterminismViolation`] when the code does not fit the history.
    pub async fn feed(&mut self, count: usize) -> Result<Vec<String>> {
        let until = self.events.len().min(self.next + count);
        let advanced = self.instance.advance(&self.events[self.next..until]).await;
        self.next = until;
        let (commands, outcome) = advanced.map_err(violation)?;
        self.outcome = outcome;
        Ok(commands.iter().map(crate::replay::Command::describe_fully).collect())
    }

    /// What it returned, if it has ended.
    pub fn ended(&self) -> Option<Result<Value>> {
        match &self.outcome {
            Outcome::Suspended => None,
            Outcome::Completed(output) => Some(Ok(output.clone())),
            Outcome::Failed(error) => Some(Err(error.clone())),
            Outcome::Cancelled(reason) => Some(Err(Error::Cancelled(reason.clone()))),
        }
    }

    /// Replays the rest. A history that has ended is one that the code ends too, in the same way.
    ///
    /// # Errors
    /// With [`Error::DeterminismViolation`] when the code does not fit the history.
    pub async fn to_the_end(mut self) -> Result<()> {
        let commands = self.feed(self.left()).await?;
        let Some(ending) = self.events.iter().rev().find_map(Ending::read) else { return Ok(()) };
        if let Some(command) = commands.first() {
            return Err(ending.violation(&format!("the workflow has ended, but it asked for {command}")));
        }
        ending.compare(&self.outcome)
    }
}

/// An activation that failed, as tests see it.
pub(super) fn violation(error: ActivationError) -> Error {
    Error::DeterminismViolation(format!("{} at event {}: {}", error.code, error.position, error.message))
}
