//! A permanent refusal never leaves work with a live worker: in every case the work ends, with its code.

use flovyn_engine::Limits;
use flovyn_proto::v1;
use flovyn_proto::v1::WorkflowStatus::{self, Completed, Suspended};
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::json;
use uuid::Uuid;

use super::app::{App, command, complete, data, schedule_task};
use super::worker::{Worker, signed};
use crate::common::{TestServer, on_both, on_both_limited};

on_both_limited!(
    super::quick;
    a_state_of_2_mib,
    an_output_of_2_mib,
    too_many_tasks_at_once,
    a_command_that_does_not_fit,
    an_id_that_is_none,
    a_status_that_is_none,
    a_payload_that_is_no_json,
    a_history_that_is_full,
    a_full_history_is_cancelled,
    a_tasks_output_of_2_mib,
    a_tasks_error_that_is_too_long_is_cut,
);
on_both!(what_is_refused_says_why_it_waits, a_heartbeat_that_is_refused_does_not_count, limits_are_told);

fn quick(limits: &mut Limits) {
    limits.activation_backoff_ms = 1;
    limits.history_events = 12;
}

fn large() -> String {
    format!("\"{}\"", "x".repeat(2 << 20))
}

fn set_state(value: String) -> v1::WorkflowCommand {
    let data = v1::SetStateCommand { key: "k".into(), value: value.into() };
    command(v1::CommandType::SetState, CommandData::SetState(data))
}

fn operation() -> v1::WorkflowCommand {
    let data = v1::RecordOperationCommand { operation_name: "o".into(), result: "1".into() };
    command(v1::CommandType::RecordOperation, CommandData::RecordOperation(data))
}

fn submission(
    activation: &v1::WorkflowExecution,
    commands: Vec<v1::WorkflowCommand>,
    status: i32,
) -> v1::SubmitWorkflowCommandsRequest {
    let last = activation.events.last().map_or(activation.events_after, |event| event.sequence_number.into());
    v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: activation.id.clone(),
        commands,
        status,
        claim_token: Some(activation.claim_token),
        base_sequence: Some(last),
        activation_failure: None,
        unread_signals: 0,
        clean_up: None,
    }
}

/// A worker that sends the same invalid batch repeatedly is refused five times, then the execution has failed.
async fn fails(server: TestServer, code: &str, what: &str, commands: Vec<v1::WorkflowCommand>, status: i32) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let child_of = app.get(&id).await;
    assert_eq!(child_of.status, "RUNNING");
    for count in 1..=5 {
        let activation = worker.activation().await;
        let ack = worker.submit_raw(submission(&activation, commands.clone(), status)).await;
        assert_eq!((ack.code.as_str(), ack.retryable), (code, false), "{}", ack.message);
        let told = format!("refusal {count} of 5, ");
        assert!(ack.message.contains(what) && ack.message.contains(&told), "{}", ack.message);
    }
    let ended = app.result(&id).await;
    assert_eq!(ended.status, "FAILED");
    let error = ended.error.unwrap();
    assert!(error.starts_with(&format!("{code}: ")) && error.contains(what), "{error}");
    let events = app.events(&id).await;
    assert_eq!(data(events.last().unwrap())["failureType"], code);
    assert_eq!(events.len(), 2, "nothing of it was executed");
    // The worker continues with other work.
    let next = app.start().await;
    let activation = worker.activation().await;
    assert_eq!(worker.submit(&activation, vec![complete("1")], Completed).await.code, "");
    assert_eq!(app.result(&next).await.status, "COMPLETED");
}

const SUSPENDED: i32 = WorkflowStatus::Suspended as i32;
const COMPLETED: i32 = WorkflowStatus::Completed as i32;

async fn a_state_of_2_mib(server: TestServer) {
    let what = "state value has 2097154 bytes, the limit is 1048576";
    fails(server, "FLV0020", what, vec![set_state(large())], SUSPENDED).await;
}

async fn an_output_of_2_mib(server: TestServer) {
    let what = "output has 2097154 bytes";
    fails(server, "FLV0020", what, vec![complete(&large())], COMPLETED).await;
}

async fn too_many_tasks_at_once(server: TestServer) {
    let tasks = (0..20_000).map(|_| schedule_task(Uuid::new_v4(), 1)).collect();
    fails(server, "FLV0008", "20000 commands given", tasks, SUSPENDED).await;
}

async fn a_command_that_does_not_fit(server: TestServer) {
    let data = v1::CancelTimerCommand { timer_id: "none".into() };
    let cancel = command(v1::CommandType::CancelTimer, CommandData::CancelTimer(data));
    let what = "command 1: timer 'none' was never started";
    fails(server, "FLV0009", what, vec![operation(), cancel], SUSPENDED).await;
}

async fn an_id_that_is_none(server: TestServer) {
    let data = v1::CancelTaskCommand { task_execution_id: "no-uuid".into() };
    let cancel = command(v1::CommandType::CancelTask, CommandData::CancelTask(data));
    let what = "command 0: task_execution_id \"no-uuid\" is not a UUID";
    fails(server, "FLV0004", what, vec![cancel], SUSPENDED).await;
}

async fn a_status_that_is_none(server: TestServer) {
    fails(server, "FLV0011", "status 77 is unknown", Vec::new(), 77).await;
}

async fn a_payload_that_is_no_json(server: TestServer) {
    fails(server, "FLV0001", "state value is not JSON", vec![set_state("{".into())], SUSPENDED).await;
}

async fn a_history_that_is_full(server: TestServer) {
    let what = "has 12 events, and 0 more are reserved; the limit is 12";
    let operations = vec![operation(); 11];
    fails(server, "FLV0022", what, operations, SUSPENDED).await;
}

async fn a_full_history_is_cancelled(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let activation = worker.activation().await;
    assert_eq!(worker.submit(&activation, vec![operation(); 8], Suspended).await.code, "");
    // Nine of twelve events: the rest is reserved for a cancel request, a deferral and the end.
    let mut client = v1::workflow_dispatch_client::WorkflowDispatchClient::new(server.channel());
    let signal = v1::SignalWorkflowRequest {
        workflow_execution_id: id.clone(),
        signal_name: "s".into(),
        signal_value: "1".into(),
        ..v1::SignalWorkflowRequest::default()
    };
    let refused = client.signal_workflow(signed(signal)).await.unwrap_err();
    assert_eq!(refused.metadata().get("flovyn-error-code").unwrap(), "FLV0022");
    app.cancel(&id).await;
    let activation = worker.activation().await;
    let data = v1::CancelWorkflowCommand { reason: "no longer needed".into() };
    let cancel = command(v1::CommandType::CancelWorkflow, CommandData::CancelWorkflow(data));
    let ack = worker.submit(&activation, vec![operation(), cancel], WorkflowStatus::Cancelled).await;
    assert_eq!(ack.code, "", "{}", ack.message);
    assert_eq!(app.result(&id).await.status, "CANCELLED");
    assert_eq!(app.events(&id).await.len(), 12);
}

/// A workflow whose task is running.
async fn with_task(worker: &mut Worker, app: &mut App) -> (String, v1::TaskExecutionInfo) {
    let id = app.start().await;
    let activation = worker.activation().await;
    let scheduled = schedule_task(Uuid::new_v4(), 5);
    assert_eq!(worker.submit(&activation, vec![scheduled], Suspended).await.code, "");
    (id, worker.task().await)
}

/// Checks that the workflow was notified why its task has failed, and continues.
async fn has_failed(
    worker: &mut Worker,
    app: &mut App,
    id: &str,
    ack: &v1::ResultAck,
    (code, what): (&str, &str),
) {
    assert_eq!((ack.code.as_str(), ack.retryable), (code, false), "{}", ack.message);
    assert!(ack.message.contains("the task has failed"), "{}", ack.message);
    let activation = worker.activation().await;
    let failed = activation.events.iter().find(|event| event.event_type == "TASK_FAILED").unwrap();
    let error = data(failed)["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with(&format!("{code}: ")) && error.contains(what), "{error}");
    assert_eq!(worker.submit(&activation, vec![complete("1")], Completed).await.code, "");
    assert_eq!(app.result(id).await.status, "COMPLETED");
}

async fn a_tasks_output_of_2_mib(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let (id, task) = with_task(&mut worker, &mut app).await;
    let ack = worker.complete_task(&task, &large()).await;
    let said = ("FLV0020", "output has 2097154 bytes, the limit is 1048576");
    has_failed(&mut worker, &mut app, &id, &ack, said).await;
}

async fn a_tasks_error_that_is_too_long_is_cut(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let (id, task) = with_task(&mut worker, &mut app).await;
    let error = format!("no route {}", "x".repeat(70_000));
    assert_eq!(worker.fail_task(&task, &error).await.code, "");
    // The attempts that are left count.
    for _ in 2..=5 {
        let task = worker.task().await;
        assert_eq!(worker.fail_task(&task, &error).await.code, "");
    }
    let activation = worker.activation().await;
    let failed = activation.events.iter().find(|event| event.event_type == "TASK_FAILED").unwrap();
    let error = data(failed)["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("no route xxx") && error.ends_with('…') && error.len() <= 65_536);
    assert_eq!(worker.submit(&activation, vec![complete("1")], Completed).await.code, "");
    assert_eq!(app.result(&id).await.status, "COMPLETED");
}

async fn what_is_refused_says_why_it_waits(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let activation = worker.activation().await;
    assert_eq!(worker.submit(&activation, vec![set_state(large())], Suspended).await.code, "FLV0020");
    let found = app.get(&id).await;
    let waiting = &found.waiting_on[0];
    assert_eq!((waiting.kind.as_str(), waiting.name.as_str()), ("ACTIVATION_BACKOFF", "FLV0020"));
    let said = "refused 1 of 5 times before it fails, with FLV0020: command 0: state value has 2097154 bytes, the limit is 1048576";
    assert_eq!(waiting.message, said);
    assert!(waiting.until_ms.is_some());
    // The next activation asks for less.
    let activation = worker.activation().await;
    assert_eq!(
        worker.submit(&activation, vec![set_state("1".into()), complete("2")], Completed).await.code,
        ""
    );
    assert_eq!(app.result(&id).await.status, "COMPLETED");
}

async fn a_heartbeat_that_is_refused_does_not_count(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let (id, task) = with_task(&mut worker, &mut app).await;
    for (details, code) in [(large(), "FLV0020"), ("{".to_owned(), "FLV0001")] {
        let heartbeat = v1::TaskHeartbeat {
            task_execution_id: task.task_execution_id.clone(),
            claim_token: task.claim_token,
            details: Some(details.into()),
        };
        worker.send(v1::WorkerFrame { task_heartbeats: vec![heartbeat], ..v1::WorkerFrame::default() }).await;
        let refused = worker.refused_heartbeat().await;
        assert_eq!(refused.code, code, "{}", refused.message);
        assert_eq!(
            (refused.task_execution_id, refused.claim_token),
            (task.task_execution_id.clone(), task.claim_token)
        );
    }
    assert_eq!(worker.complete_task(&task, "1").await.code, "");
    let activation = worker.activation().await;
    worker.submit(&activation, vec![complete("1")], Completed).await;
    assert_eq!(app.result(&id).await.status, "COMPLETED");
}

async fn limits_are_told(server: TestServer) {
    let worker = Worker::connect(&server).await;
    let limits = Limits::default();
    let told = v1::StreamLimits {
        payload_bytes: limits.payload_bytes as u64,
        text_bytes: limits.text_bytes as u64,
        commands: limits.commands as u64,
        frame_bytes: 4 << 20,
    };
    assert_eq!(worker.welcome.limits, Some(told));
    assert_eq!(
        json!(limits.payload_bytes),
        json!(1 << 20),
        "the SDK's calls use this limit, whatever the server announces"
    );
}
