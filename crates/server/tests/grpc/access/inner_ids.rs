//! Requests whose outer ids belong to the caller, with another tenant's ids inside.

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use tonic::Code;

use super::table::command;
use super::wire::{Outcome, send};
use super::world::{Ids, SECRET, World};
use crate::common::OTHER_TOKEN;

/// An execution of the other tenant, claimed.
async fn own_execution(world: &World) -> v1::WorkflowExecution {
    let start = v1::StartWorkflowRequest { workflow_kind: "own".into(), ..Default::default() };
    let started = send(&world.server, "WorkflowDispatch/StartWorkflow", &start, OTHER_TOKEN).await;
    assert_eq!(started.grpc, Code::Ok, "{started:?}");
    let poll = v1::PollRequest {
        worker_id: "w".into(),
        workflow_capabilities: vec!["own".into()],
        ..v1::PollRequest::default()
    };
    let polled = send(&world.server, "WorkflowDispatch/PollWorkflow", &poll, OTHER_TOKEN).await;
    polled.reply::<v1::PollResponse>().workflow_execution.unwrap()
}

async fn submit(world: &World, execution: &v1::WorkflowExecution, data: CommandData) -> Outcome {
    let message = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: execution.id.clone(),
        commands: vec![command(data)],
        status: v1::WorkflowStatus::Suspended.into(),
        claim_token: Some(execution.claim_token),
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    send(&world.server, "WorkflowDispatch/SubmitWorkflowCommands", &message, OTHER_TOKEN).await
}

/// The commands that act on existing resources.
fn acting(ids: &Ids) -> Vec<CommandData> {
    vec![
        CommandData::CancelTask(v1::CancelTaskCommand { task_execution_id: ids.task.clone() }),
        CommandData::ResolvePromise(v1::ResolvePromiseCommand {
            promise_id: ids.promise.clone(),
            value: "1".into(),
        }),
        CommandData::RequestCancelChildWorkflow(v1::RequestCancelChildWorkflowCommand {
            child_execution_name: "child".into(),
            child_workflow_execution_id: ids.child.clone(),
            reason: "why".into(),
        }),
    ]
}

/// The commands that create something under an id that the caller chose.
fn making(ids: &Ids) -> Vec<CommandData> {
    vec![
        CommandData::ScheduleTask(v1::ScheduleTaskCommand {
            kind: "charge".into(),
            task_execution_id: ids.task.clone(),
            ..v1::ScheduleTaskCommand::default()
        }),
        CommandData::ScheduleChildWorkflow(v1::ScheduleChildWorkflowCommand {
            child_execution_name: "child".into(),
            workflow_kind: Some("child".into()),
            child_workflow_execution_id: ids.child.clone(),
            ..v1::ScheduleChildWorkflowCommand::default()
        }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_ones_own_execution_do_not_reach_into_another_tenant() {
    let world = World::new().await;
    let rows = world.rows().await;
    for data in acting(&world.ids) {
        // A refusal ends the claim of the execution.
        let absent = submit(&world, &own_execution(&world).await, rename(&data)).await;
        let foreign = submit(&world, &own_execution(&world).await, data.clone()).await;
        // The error is the same for a missing resource and for another tenant's.
        assert_eq!((foreign.grpc, &foreign.flv), (absent.grpc, &absent.flv), "{data:?}");
        assert_eq!(foreign.grpc, Code::NotFound, "{data:?}: {foreign:?}");
        assert_eq!(world.rows().await, rows, "{data:?} reached another tenant");
    }
}

/// The same command about a resource that does not exist.
fn rename(data: &CommandData) -> CommandData {
    let id = super::table::new_id();
    match data.clone() {
        CommandData::CancelTask(_) => {
            CommandData::CancelTask(v1::CancelTaskCommand { task_execution_id: id })
        }
        CommandData::ResolvePromise(data) => {
            CommandData::ResolvePromise(v1::ResolvePromiseCommand { promise_id: id, ..data })
        }
        CommandData::RequestCancelChildWorkflow(data) => {
            CommandData::RequestCancelChildWorkflow(v1::RequestCancelChildWorkflowCommand {
                child_workflow_execution_id: id,
                ..data
            })
        }
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_another_tenant_uses_is_free_in_ones_own() {
    let world = World::new().await;
    let rows = world.rows().await;
    for data in making(&world.ids) {
        let execution = own_execution(&world).await;
        let outcome = submit(&world, &execution, data.clone()).await;
        assert_eq!(outcome.grpc, Code::Ok, "{data:?}: {outcome:?}");
        assert_eq!(world.rows().await, rows, "{data:?} reached another tenant");
    }
    // Two tasks with the same id are different tasks: each tenant sees its own.
    let get = v1::GetTaskRequest { task_execution_id: world.ids.task.clone() };
    let outcome = send(&world.server, "WorkflowClient/GetTask", &get, OTHER_TOKEN).await;
    assert_eq!(outcome.reply::<v1::TaskInfo>().status, "PENDING");
    assert!(!outcome.contains(SECRET));
}
