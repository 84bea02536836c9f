//! One activation: take the workflow from the cache or replay it, apply the new events, submit its commands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::Value;
use uuid::Uuid;

use super::cache::{Cache, Kept};
use super::desk::{Desk, Finished};
use super::{Setup, WorkerEvent, unharmed};
use crate::client::pages;
use crate::context::WorkflowContext;
use crate::definition::AnyWorkflow;
use crate::error::{Error, Result};
use crate::replay::{ActivationError, Command, Core, Instance, LogEvent, Outcome, Shared};
use crate::wire;

/// Code of the server's refusal of an end because a signal arrived first.
const END_DEFERRED: &str = "FLV0063";

/// An instance after an activation, with its new commands and outcome.
type Advanced = (Instance, Vec<Command>, Outcome);

pub(super) async fn run(setup: Arc<Setup>, cache: Arc<Cache>, desk: Arc<Desk>, work: v1::WorkflowExecution) {
    setup.metrics.activations.fetch_add(1, Ordering::Relaxed);
    let token = work.claim_token;
    let (id, kind) = (work.id.clone(), work.kind.clone());
    let mut unread = None;
    let (finished, instance) = match advance(&setup, &cache, &work).await {
        Ok(Some((instance, commands, outcome))) => {
            let mut submit = submission(&id, token, &instance, commands, &outcome);
            if let Some(CommandData::FailWorkflow(failure)) =
                submit.commands.last_mut().and_then(|command| command.command_data.as_mut())
            {
                setup.limits.get().cut(&mut failure.error);
            }
            match setup.limits.get().refuse(&submit) {
                Some(error) => (Finished::Activation(failed(&setup, &work, error)), None),
                None => {
                    unread = Unread::of(&instance, &outcome);
                    (Finished::Activation(submit), (outcome == Outcome::Suspended).then_some(instance))
                }
            }
        }
        Ok(None) => (Finished::GivenBack(v1::HeldClaim { id: id.clone(), claim_token: token }), None),
        Err(error) => (Finished::Activation(failed(&setup, &work, error)), None),
    };
    let execution_id = Uuid::try_parse(&id).unwrap_or_default();
    let mut ticket = None;
    if let Some(instance) = instance {
        // Storing may drop another workflow, which runs user code. A panic there must not block the result.
        unharmed("while a workflow was kept", || {
            ticket = Some(cache.put(execution_id, Kept { instance, token }))
        });
    }
    desk.settle(id.clone(), token, finished, move |ack| {
        if let Some(ticket) = ticket {
            cache.settle(execution_id, ticket, ack.code.is_empty() && !ack.repeated_result);
        }
        if ack.code == END_DEFERRED {
            tracing::debug!(
                execution = id,
                message = ack.message,
                "the end was deferred because of a signal; the workflow runs again"
            );
        } else if ack.code.is_empty() {
            unread.inspect(|unread: &Unread| unread.tell(&setup));
        } else {
            setup.metrics.activations_refused.fetch_add(1, Ordering::Relaxed);
            let (code, message) = (ack.code, ack.message);
            tracing::warn!(execution = id, kind, code, message, "the server refused an activation");
            setup.tell(&WorkerEvent::ActivationRefused { execution_id, kind, code, message });
        }
    });
}

/// Signals that a workflow had received but not read when it ended.
pub(super) struct Unread {
    execution_id: Uuid,
    kind: String,
    signals: BTreeMap<String, usize>,
}

impl Unread {
    /// `None`: the workflow has read all of them, or has not ended.
    pub(super) fn of(instance: &Instance, outcome: &Outcome) -> Option<Self> {
        let signals = (*outcome != Outcome::Suspended).then(|| instance.unread_signals())?;
        let (execution_id, kind) = (instance.execution_id(), instance.kind());
        (!signals.is_empty()).then_some(Self { execution_id, kind, signals })
    }

    /// Logs a warning and calls the hook. Call this once the server has accepted the end.
    pub(super) fn tell(&self, setup: &Setup) {
        let Self { execution_id, kind, signals } = self;
        let named: Vec<String> = signals.iter().map(|(name, count)| format!("{name:?}: {count}")).collect();
        let named = named.join(", ");
        tracing::warn!(execution = %execution_id, kind, signals = named, "a workflow ended without reading all its signals");
        let (execution_id, signals) = (*execution_id, signals.clone());
        setup.tell(&WorkerEvent::SignalsUnread { execution_id, kind: kind.clone(), signals });
    }
}

/// The request that submits the result of an activation.
pub(super) fn submission(
    id: &str,
    token: i64,
    instance: &Instance,
    commands: Vec<Command>,
    outcome: &Outcome,
) -> v1::SubmitWorkflowCommandsRequest {
    let (last, status) = wire::ending(outcome);
    v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.to_owned(),
        commands: commands.into_iter().map(wire::command).chain(last).collect(),
        status: status.into(),
        claim_token: Some(token),
        base_sequence: Some(instance.base()),
        activation_failure: None,
        clean_up: instance
            .clean_up()
            .map(|told| v1::CleanUp { waits: told.waits, grace_ms: told.grace.map(wire::milliseconds) }),
        unread_signals: match outcome {
            Outcome::Suspended => 0,
            _ => i64::try_from(instance.unread_signals().values().sum::<usize>()).unwrap_or(i64::MAX),
        },
    }
}

fn failed(
    setup: &Setup,
    work: &v1::WorkflowExecution,
    mut error: ActivationError,
) -> v1::SubmitWorkflowCommandsRequest {
    setup.metrics.activations_failed.fetch_add(1, Ordering::Relaxed);
    setup.limits.get().cut(&mut error.message);
    tracing::warn!(execution = work.id, kind = work.kind, %error, position = error.position, "an activation failed");
    setup.tell(&WorkerEvent::ActivationFailed {
        execution_id: Uuid::try_parse(&work.id).unwrap_or_default(),
        code: error.code.to_owned(),
        message: error.message.clone(),
    });
    v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: work.id.clone(),
        status: v1::WorkflowStatus::ActivationFailed.into(),
        claim_token: Some(work.claim_token),
        base_sequence: Some(work.events_after),
        activation_failure: Some(v1::ActivationFailure {
            code: error.code.to_owned(),
            message: error.message,
            position: error.position,
            build_id: setup.build_id.clone(),
        }),
        clean_up: definition_of(setup, work).map(|definition| v1::CleanUp {
            waits: false,
            grace_ms: definition.cancel_grace().map(wire::milliseconds),
        }),
        ..v1::SubmitWorkflowCommandsRequest::default()
    }
}

/// `None`: the workflow wants to run a step, so its start must be durable first.
async fn advance(
    setup: &Setup,
    cache: &Cache,
    work: &v1::WorkflowExecution,
) -> Result<Option<Advanced>, ActivationError> {
    let lost = |error: Error| ActivationError::new("HISTORY_UNAVAILABLE", error.to_string());
    let id = Uuid::try_parse(&work.id)
        .map_err(|_| lost(Error::failed("the server sent an invalid execution id")))?;
    let mut kept = None;
    // Taking may drop a workflow, which runs user code. A panic there must not abort this activation.
    unharmed("while a workflow was taken from the cache", || kept = cache.take(id, work.events_after));
    let mut kept = match kept {
        Some(instance) => Some((instance, new_events(setup, id, work).await.map_err(lost)?)),
        None => None,
    };
    if kept.as_ref().is_some_and(|(instance, events)| instance.is_deferred_by(events)) {
        unharmed("while a workflow was dropped", || kept = None);
    }
    let (mut instance, events) = match kept {
        Some(kept) => kept,
        None => {
            setup.metrics.cold_starts.fetch_add(1, Ordering::Relaxed);
            let events = match work.events_after {
                0 => new_events(setup, id, work).await.map_err(lost)?,
                _ => read(&pages(&setup.channel, id, 0).await.map_err(lost)?).map_err(lost)?,
            };
            (start(setup, id, work, &events)?, events)
        }
    };
    let advanced = match work.provisional {
        true => instance.advance_provisionally(&events).await?,
        false => Some(instance.advance(&events).await?),
    };
    Ok(advanced.map(|(commands, outcome)| (instance, commands, outcome)))
}

/// The events after those that this session has seen. Events that did not fit into the activation are read in pages.
async fn new_events(setup: &Setup, id: Uuid, work: &v1::WorkflowExecution) -> Result<Vec<LogEvent>> {
    let mut events = read(&work.events)?;
    if work.more_events {
        let last = events.last().map_or(work.events_after, |event| event.sequence);
        events.extend(read(&pages(&setup.channel, id, last).await?)?);
    }
    Ok(events)
}

fn read(events: &[v1::WorkflowEvent]) -> Result<Vec<LogEvent>> {
    events.iter().map(wire::event).collect()
}

fn version(work: &v1::WorkflowExecution) -> Option<&str> {
    work.workflow_version.as_deref().filter(|version| !version.is_empty())
}

/// `None`: this worker does not have the workflow.
fn definition_of(setup: &Setup, work: &v1::WorkflowExecution) -> Option<Arc<dyn AnyWorkflow>> {
    setup.registry.workflow(&work.kind, version(work))
}

/// Creates a workflow instance for a replay from the beginning. The input is in the first event.
fn start(
    setup: &Setup,
    id: Uuid,
    work: &v1::WorkflowExecution,
    events: &[LogEvent],
) -> Result<Instance, ActivationError> {
    let version = version(work);
    let definition = definition_of(setup, work).ok_or_else(|| {
        let of_version = version.map(|version| format!(" of version {version:?}")).unwrap_or_default();
        ActivationError::new(
            "UNKNOWN_KIND",
            format!("this worker has no workflow {:?}{of_version}", work.kind),
        )
    })?;
    let input = events.first().map_or(Value::Null, |event| event.value("input"));
    let core = Shared::new(Core::new(id, &work.kind, work.created_at_ms));
    core.lock().cancel_grace = definition.cancel_grace();
    let context = WorkflowContext::new(core.clone());
    Ok(Instance::new(core, definition.start(context, input)))
}
