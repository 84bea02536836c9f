//! The commands of an activation. The engine accepts all commands of a batch or none.

use flovyn_engine::Code;
use flovyn_engine::ids::{ExecutionId, Payload};
use flovyn_engine::request::{CleanUp, Command, Outcome, ScheduleChild, SubmitActivation, TaskSpec};
use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use flovyn_proto::v1::{CommandType, WorkflowStatus};
use tonic::Status;

use super::convert::{failure, id, key, labels, non_empty, payload, retry};
use super::status::{Unread, refuse, refused_at};

/// The end of an activation, as its commands describe it.
#[derive(Debug, Default)]
struct Ending {
    completed: Option<Payload>,
    failed: Option<v1::FailWorkflowCommand>,
    cancelled: Option<String>,
}

pub(super) fn submission(message: v1::SubmitWorkflowCommandsRequest) -> Result<SubmitActivation, Unread> {
    let execution_id = id("workflow_execution_id", &message.workflow_execution_id)?;
    let token = message.claim_token;
    read_submission(execution_id, message).map_err(|status| Unread::activation(execution_id, token, status))
}

fn read_submission(
    execution_id: ExecutionId,
    message: v1::SubmitWorkflowCommandsRequest,
) -> Result<SubmitActivation, Status> {
    // Numbers that begin at 1 have no meaning: some clients restart at 1 in every batch.
    let first_number = message.commands.first().map(|command| command.sequence_number.into());
    let first_number = first_number.filter(|number: &i64| *number > 1);
    let mut ending = Ending::default();
    let mut commands = Vec::with_capacity(message.commands.len());
    for (index, command) in message.commands.into_iter().enumerate() {
        commands.extend(read(index, command, &mut ending)?);
    }
    let failure = message.activation_failure;
    let build_id = failure.as_ref().and_then(|failure| non_empty(&failure.build_id));
    let clean_up = message.clean_up.map(|told| CleanUp { waits: told.waits, grace_ms: told.grace_ms });
    Ok(SubmitActivation {
        execution_id,
        token: message.claim_token,
        base_sequence: message.base_sequence,
        commands,
        outcome: outcome(message.status, ending, failure)?,
        first_number,
        unread_signals: message.unread_signals,
        build_id,
        clean_up,
    })
}

fn outcome(
    status: i32,
    ending: Ending,
    activation_failure: Option<v1::ActivationFailure>,
) -> Result<Outcome, Status> {
    let wrong = |message: String| refuse(Code::InvalidValue, message);
    let status = WorkflowStatus::try_from(status)
        .map_err(|_| wrong(format!("status {status} is unknown: use one of WorkflowStatus")))?;
    Ok(match status {
        // RUNNING means that the workflow continues; a suspended one does too.
        WorkflowStatus::Suspended | WorkflowStatus::Running => Outcome::Suspended,
        WorkflowStatus::Completed => {
            let missing = || wrong("status COMPLETED needs a COMPLETE_WORKFLOW command".into());
            Outcome::Completed { output: ending.completed.ok_or_else(missing)? }
        }
        WorkflowStatus::Failed => {
            let missing = || wrong("status FAILED needs a FAIL_WORKFLOW command".into());
            let failed = ending.failed.ok_or_else(missing)?;
            Outcome::Failed {
                error: failed.error.into(),
                failure: failure(&failed.failure_type, failed.failure_details),
                stack_trace: non_empty(&failed.stack_trace),
            }
        }
        WorkflowStatus::Cancelled => {
            Outcome::Cancelled { reason: ending.cancelled.unwrap_or_default().into() }
        }
        WorkflowStatus::ActivationFailed => {
            let missing = || wrong("status ACTIVATION_FAILED needs the field activation_failure".into());
            let failure = activation_failure.ok_or_else(missing)?;
            let message = match failure.position {
                0 => failure.message,
                position => format!("at event {position}: {}", failure.message),
            };
            Outcome::ActivationFailed { code: failure.code.into(), message: message.into() }
        }
        WorkflowStatus::Unspecified => {
            return Err(wrong(
                "status must be RUNNING, SUSPENDED, COMPLETED, FAILED, CANCELLED or ACTIVATION_FAILED".into(),
            ));
        }
    })
}

/// Reads one command. `None` for a command without content, and for one that only describes how the activation ended.
fn read(index: usize, command: v1::WorkflowCommand, ending: &mut Ending) -> Result<Option<Command>, Status> {
    let wrong = |message: String| refuse(Code::InvalidCommand, format!("command {index}: {message}"));
    let at = |status: Status| refused_at(&format!("command {index}"), status);
    let kind = CommandType::try_from(command.command_type)
        .map_err(|_| wrong(format!("type {} is unknown", command.command_type)))?;
    let Some(data) = command.command_data else {
        return match kind {
            // Some clients send this command instead of a cancel request. It has no effect.
            CommandType::Unspecified | CommandType::SuspendWorkflow => Ok(None),
            CommandType::CompleteWorkflow => {
                ending.completed = Some(payload(Payload::new()));
                Ok(None)
            }
            _ => Err(wrong(format!("{} has no content", kind.as_str_name()))),
        };
    };
    if kind != CommandType::Unspecified && kind != type_of(&data) {
        return Err(wrong(format!(
            "{} has the content of {}",
            kind.as_str_name(),
            type_of(&data).as_str_name()
        )));
    }
    Ok(Some(match data {
        CommandData::RecordOperation(data) => {
            Command::RecordOperation { name: data.operation_name.into(), result: payload(data.result) }
        }
        CommandData::SetState(data) => {
            Command::SetState { name: data.key.into(), value: payload(data.value) }
        }
        CommandData::ClearState(data) => Command::ClearState { name: data.key.into() },
        CommandData::ScheduleTask(data) => Command::ScheduleTask {
            task_id: id("task_execution_id", &data.task_execution_id).map_err(at)?,
            spec: task_spec(data),
        },
        CommandData::CancelTask(data) => {
            Command::CancelTask { task_id: id("task_execution_id", &data.task_execution_id).map_err(at)? }
        }
        CommandData::StartTimer(data) => {
            Command::StartTimer { timer_id: data.timer_id.into(), duration_ms: data.duration_ms }
        }
        CommandData::CancelTimer(data) => Command::CancelTimer { timer_id: data.timer_id.into() },
        CommandData::CreatePromise(data) => Command::CreatePromise {
            name: data.promise_id.into(),
            timeout_ms: data.timeout_ms,
            key: key(data.idempotency_key, data.idempotency_key_ttl_seconds),
        },
        CommandData::ResolvePromise(data) => Command::ResolvePromise {
            promise_id: id("promise_id", &data.promise_id).map_err(at)?,
            value: payload(data.value),
        },
        CommandData::ScheduleChildWorkflow(data) => {
            let kind = data.workflow_kind.filter(|kind| !kind.is_empty());
            let kind = kind.ok_or_else(|| wrong("workflow_kind is missing".into()))?;
            Command::ScheduleChild(ScheduleChild {
                child_id: id("child_workflow_execution_id", &data.child_workflow_execution_id).map_err(at)?,
                name: data.child_execution_name.into(),
                kind: kind.into(),
                input: payload(data.input),
                queue: non_empty(&data.queue),
                priority_seconds: data.priority_seconds.into(),
                workflow_version: data.workflow_version.as_deref().and_then(non_empty),
                execution_timeout_ms: data.execution_timeout_ms,
                cancel_grace_ms: data.cancel_grace_ms,
                key: key(data.idempotency_key, data.idempotency_key_ttl_seconds),
                labels: labels(data.metadata),
            })
        }
        CommandData::RequestCancelChildWorkflow(data) => Command::RequestCancelChild {
            child_id: id("child_workflow_execution_id", &data.child_workflow_execution_id).map_err(at)?,
            reason: data.reason.into(),
        },
        CommandData::CompleteWorkflow(data) => {
            ending.completed = Some(payload(data.output));
            return Ok(None);
        }
        CommandData::FailWorkflow(data) => {
            ending.failed = Some(data);
            return Ok(None);
        }
        CommandData::CancelWorkflow(data) => {
            ending.cancelled = Some(data.reason);
            return Ok(None);
        }
        // Its reason is the text of the last polled branch, so it means nothing reliable.
        CommandData::SuspendWorkflow(_) => return Ok(None),
    }))
}

fn task_spec(data: v1::ScheduleTaskCommand) -> TaskSpec {
    TaskSpec {
        task_type: data.kind.into(),
        input: payload(data.input),
        queue: data.queue.as_deref().and_then(non_empty),
        priority_seconds: data.priority_seconds.unwrap_or(0).into(),
        max_retries: data.max_retries.map(Into::into),
        retry: retry(data.retry_policy),
        schedule_to_start_ms: data.schedule_to_start_ms,
        start_to_close_ms: data.timeout_ms,
        total_ms: data.total_timeout_ms,
        heartbeat_ms: data.heartbeat_timeout_ms,
        key: key(data.idempotency_key, data.idempotency_key_ttl_seconds),
    }
}

fn type_of(data: &CommandData) -> CommandType {
    match data {
        CommandData::RecordOperation(_) => CommandType::RecordOperation,
        CommandData::SetState(_) => CommandType::SetState,
        CommandData::ClearState(_) => CommandType::ClearState,
        CommandData::ScheduleTask(_) => CommandType::ScheduleTask,
        CommandData::CompleteWorkflow(_) => CommandType::CompleteWorkflow,
        CommandData::FailWorkflow(_) => CommandType::FailWorkflow,
        CommandData::SuspendWorkflow(_) => CommandType::SuspendWorkflow,
        CommandData::CancelWorkflow(_) => CommandType::CancelWorkflow,
        CommandData::CreatePromise(_) => CommandType::CreatePromise,
        CommandData::ResolvePromise(_) => CommandType::ResolvePromise,
        CommandData::ScheduleChildWorkflow(_) => CommandType::ScheduleChildWorkflow,
        CommandData::StartTimer(_) => CommandType::StartTimer,
        CommandData::CancelTimer(_) => CommandType::CancelTimer,
        CommandData::RequestCancelChildWorkflow(_) => CommandType::RequestCancelChildWorkflow,
        CommandData::CancelTask(_) => CommandType::CancelTask,
    }
}
