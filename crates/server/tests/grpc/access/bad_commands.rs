//! Invalid commands: each refuses the whole batch, and the activation has failed.

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use flovyn_proto::v1::{CommandType, WorkflowStatus};
use tonic::Code;

use super::spoil::assert_goes_on;
use super::table::{command, new_id};
use super::wire::{Outcome, send};
use super::world::World;
use crate::common::TOKEN;

async fn submit(world: &World, commands: Vec<v1::WorkflowCommand>, status: i32) -> Outcome {
    let message = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: world.ids.execution.clone(),
        commands,
        status,
        claim_token: Some(world.ids.execution_token),
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    send(&world.server, "WorkflowDispatch/SubmitWorkflowCommands", &message, TOKEN).await
}

/// Checks that the commands are refused with this code and have no effect: the execution is held back, and its claim
/// has ended.
async fn refused(commands: Vec<v1::WorkflowCommand>, status: i32, code: &str) -> Outcome {
    let world = World::new().await;
    let before = world.rows().await;
    let shown = format!("{status}: {commands:?}");
    let outcome = submit(&world, commands, status).await;
    assert!(outcome.is(Code::InvalidArgument, code), "{shown}: {code} expected, got {outcome:?}");
    assert!(outcome.contains("refusal 1 of 5"), "{shown}: {outcome:?}");
    let mut changed = world.rows().await;
    changed.retain(|row| !before.contains(row));
    let is_of = |row: &String, table: &str| row.starts_with(&format!("{table} {{"));
    let (executions, others): (Vec<_>, Vec<_>) = changed.iter().partition(|row| is_of(row, "Execution"));
    assert_eq!(executions.len(), 1, "{shown}: {changed:?}");
    assert!(executions[0].contains(&format!("failure_code: Some(\"{code}\")")), "{shown}: {executions:?}");
    assert!(others.iter().all(|row| is_of(row, "Ready") || is_of(row, "Due")), "{shown}: {others:?}");
    assert_goes_on(&world.server).await;
    outcome
}

async fn all_refused(cases: Vec<(&str, v1::WorkflowCommand)>) {
    let good = || command(CommandData::SetState(v1::SetStateCommand { key: "k".into(), value: "1".into() }));
    for (code, bad) in cases {
        let outcome = refused(vec![good(), bad], WorkflowStatus::Suspended.into(), code).await;
        assert!(outcome.contains("command 1"), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_type_is_unknown_or_not_that_of_its_content_is_refused() {
    let state = || CommandData::ClearState(v1::ClearStateCommand { key: "k".into() });
    let typed =
        |command_type, command_data| v1::WorkflowCommand { command_type, command_data, sequence_number: 1 };
    all_refused(vec![
        ("FLV0009", typed(99, Some(state()))),
        ("FLV0009", typed(-1, Some(state()))),
        ("FLV0009", typed(i32::MAX, None)),
        ("FLV0009", typed(CommandType::SetState.into(), Some(state()))),
        ("FLV0009", typed(CommandType::CompleteWorkflow.into(), Some(state()))),
        ("FLV0009", typed(CommandType::StartTimer.into(), None)),
        ("FLV0009", typed(CommandType::ScheduleTask.into(), None)),
        ("FLV0009", typed(CommandType::FailWorkflow.into(), None)),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_unknown_or_has_no_content_is_refused() {
    let statuses = [0, 6, 99, -1, i32::MAX].into_iter();
    let without = [WorkflowStatus::Completed, WorkflowStatus::Failed, WorkflowStatus::ActivationFailed];
    for status in statuses.chain(without.map(Into::into)) {
        refused(Vec::new(), status, "FLV0011").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_times_in_commands_are_checked() {
    let timer = |id: &str, duration_ms| {
        command(CommandData::StartTimer(v1::StartTimerCommand { timer_id: id.into(), duration_ms }))
    };
    let promise = |name: &str, timeout_ms, ttl| {
        command(CommandData::CreatePromise(v1::CreatePromiseCommand {
            promise_id: name.into(),
            timeout_ms,
            idempotency_key: Some("key".into()),
            idempotency_key_ttl_seconds: ttl,
        }))
    };
    let task = |change: fn(&mut v1::ScheduleTaskCommand)| {
        let mut data = v1::ScheduleTaskCommand {
            kind: "kind".into(),
            task_execution_id: new_id(),
            ..v1::ScheduleTaskCommand::default()
        };
        change(&mut data);
        command(CommandData::ScheduleTask(data))
    };
    let operation =
        |name: &str| v1::RecordOperationCommand { operation_name: name.into(), result: "1".into() };
    all_refused(vec![
        ("FLV0003", timer("", 1)),
        ("FLV0002", timer("a\0b", 1)),
        ("FLV0006", timer("t", -1)),
        ("FLV0006", timer("t", i64::MAX)),
        ("FLV0006", timer("t", i64::MIN)),
        ("FLV0003", command(CommandData::CancelTimer(v1::CancelTimerCommand { timer_id: String::new() }))),
        ("FLV0003", promise("", None, None)),
        ("FLV0006", promise("p", Some(-1), None)),
        ("FLV0006", promise("p", Some(i64::MAX), None)),
        ("FLV0005", promise("p", None, Some(-1))),
        ("FLV0005", promise("p", None, Some(i64::MAX))),
        ("FLV0006", task(|task| task.timeout_ms = Some(-1))),
        ("FLV0006", task(|task| task.heartbeat_timeout_ms = Some(i64::MAX))),
        ("FLV0006", task(|task| task.priority_seconds = Some(i32::MIN))),
        ("FLV0007", task(|task| task.max_retries = Some(-1))),
        ("FLV0003", command(CommandData::RecordOperation(operation("")))),
        ("FLV0002", command(CommandData::RecordOperation(operation("\0")))),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_of_commands_are_checked() {
    let operation = v1::RecordOperationCommand { operation_name: "o".into(), result: "{".into() };
    let state = v1::SetStateCommand { key: "s".into(), value: "nothing".into() };
    let task = v1::ScheduleTaskCommand {
        kind: "kind".into(),
        task_execution_id: new_id(),
        input: "1 2".into(),
        ..v1::ScheduleTaskCommand::default()
    };
    let child = v1::ScheduleChildWorkflowCommand {
        child_execution_name: "c".into(),
        workflow_kind: Some("kind".into()),
        child_workflow_execution_id: new_id(),
        input: "[".into(),
        ..v1::ScheduleChildWorkflowCommand::default()
    };
    all_refused(vec![
        ("FLV0001", command(CommandData::RecordOperation(operation))),
        ("FLV0001", command(CommandData::SetState(state))),
        ("FLV0001", command(CommandData::ScheduleTask(task))),
        ("FLV0001", command(CommandData::ScheduleChildWorkflow(child))),
    ])
    .await;
    let output = v1::CompleteWorkflowCommand { output: "{".into() };
    let completed = command(CommandData::CompleteWorkflow(output));
    refused(vec![completed], WorkflowStatus::Completed.into(), "FLV0001").await;
    let failed = v1::FailWorkflowCommand { error: "a\0b".into(), ..v1::FailWorkflowCommand::default() };
    let failed = command(CommandData::FailWorkflow(failed));
    refused(vec![failed], WorkflowStatus::Failed.into(), "FLV0002").await;
}
