//! Replays a recorded history against code: does it still do what it did?

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::context::WorkflowContext;
use crate::definition::{AnyWorkflow, Dynamic, WorkflowDefinition};
use crate::error::{Error, Result};
use crate::replay::event::usual_origin;
use crate::replay::{Core, Instance, LogEvent, Origin, Shared};

/// Replays a history against a workflow. The history is what `GET .../events` returns, or an array of its events: objects with
/// `sequence` (or `sequenceNumber`), `eventType` (or `kind`), `data`, and, where known, `timestampMs` and `origin`. Beside it
/// may stand `executionId` and `createdAtMs`, from which ids are derived.
///
/// # Errors
/// With [`Error::DeterminismViolation`] when the code does not fit the history.
pub async fn replay<W: WorkflowDefinition>(workflow: W, history: &Value) -> Result<()> {
    run(W::KIND, Arc::new(workflow), history).await
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
    run(kind, Arc::new(Dynamic(workflow)), history).await
}

async fn run(kind: &str, workflow: Arc<dyn AnyWorkflow>, history: &Value) -> Result<()> {
    let events = history.get("events").unwrap_or(history).as_array();
    let events = events.ok_or_else(|| Error::failed("a history is an array of events"))?;
    let events = events.iter().map(event).collect::<Result<Vec<_>>>()?;
    let first = events.first().ok_or_else(|| Error::failed("the history is empty"))?;
    let id = history.get("executionId").and_then(Value::as_str).map(Uuid::try_parse);
    let id =
        id.transpose().map_err(|error| Error::failed(format!("executionId: {error}")))?.unwrap_or_default();
    let created_ms = history.get("createdAtMs").and_then(Value::as_i64).unwrap_or(first.time_ms);
    let core = Shared::new(Core::new(id, kind, created_ms));
    let context = WorkflowContext::new(core.clone());
    let mut instance = Instance::new(core, workflow.start(context, first.value("input")));
    let advanced = instance.advance(&events).await;
    let (commands, _) = advanced.map_err(|error| {
        Error::DeterminismViolation(format!("{} at event {}: {}", error.code, error.position, error.message))
    })?;
    let finished = events.last().is_some_and(|event| {
        matches!(
            event.kind.as_str(),
            "WORKFLOW_COMPLETED" | "WORKFLOW_EXECUTION_FAILED" | "WORKFLOW_CANCELLED"
        )
    });
    match commands.first().filter(|_| finished) {
        None => Ok(()),
        Some(command) => Err(Error::DeterminismViolation(format!(
            "the history has ended, but the workflow asked for {}",
            command.describe()
        ))),
    }
}

fn event(value: &Value) -> Result<LogEvent> {
    let one_of = |keys: &[&str]| keys.iter().find_map(|key| value.get(key));
    let missing = |what: &str| Error::failed(format!("an event of the history has no {what}: {value}"));
    let sequence = one_of(&["sequence", "sequenceNumber"]).and_then(Value::as_i64);
    let kind = one_of(&["eventType", "kind", "type"]).and_then(Value::as_str);
    let kind = kind.ok_or_else(|| missing("eventType"))?.to_owned();
    let origin = match one_of(&["origin"]).and_then(Value::as_str) {
        Some("COMMAND") => Origin::Command,
        Some("EXTERNAL") => Origin::External,
        _ => usual_origin(&kind),
    };
    Ok(LogEvent {
        sequence: sequence.ok_or_else(|| missing("sequence"))?,
        origin,
        time_ms: one_of(&["timestampMs", "timeMs"]).and_then(Value::as_i64).unwrap_or_default(),
        data: one_of(&["data", "eventData"]).cloned().unwrap_or(Value::Null),
        kind,
    })
}
