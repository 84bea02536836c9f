//! The whole life of workflows over the stream.

use flovyn_proto::v1;
use flovyn_proto::v1::WorkflowStatus::{Cancelled, Completed, Failed, Suspended};
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::json;
use uuid::Uuid;

use super::app::{App, command, complete, data, schedule_task};
use super::worker::{KIND, Worker, signed};
use crate::common::{TestServer, on_both};

on_both!(
    a_task,
    a_task_with_the_step_that_follows,
    a_step_that_cannot_be_taken_does_not_harm_the_task,
    a_task_that_fails_for_good,
    a_timer,
    a_promise,
    a_child,
    signals,
    state_and_operations,
    a_cancel_request_is_seen_and_cleaned_up_after,
    a_failed_activation_is_held_back_until_another_build_comes,
);

async fn a_task(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;

    let first = worker.activation().await;
    assert_eq!((first.id.as_str(), first.kind.as_str(), first.events_after), (id.as_str(), KIND, 0));
    assert_eq!(first.events[0].event_type, "WORKFLOW_STARTED");
    assert_eq!(data(&first.events[0])["input"], json!({"order": 1}));
    let ack = worker.submit(&first, vec![schedule_task(Uuid::new_v4(), 3)], Suspended).await;
    assert_eq!((ack.code.as_str(), ack.repeated_result), ("", false));

    let task = worker.task().await;
    assert_eq!((task.workflow_execution_id.as_str(), task.execution_count), (id.as_str(), 1));
    assert_eq!(task.input, "7");
    assert_eq!(worker.complete_task(&task, "49").await.code, "");

    let second = worker.activation().await;
    // The unseen events: its own command without content, and the completion with content.
    let kinds: Vec<&str> = second.events.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(kinds, ["TASK_SCHEDULED", "TASK_COMPLETED"]);
    assert_eq!(data(&second.events[0]).get("input"), None);
    assert_eq!(data(&second.events[1])["output"], json!(49));
    assert_eq!(worker.submit(&second, vec![complete("50")], Completed).await.code, "");

    let result = app.result(&id).await;
    assert_eq!((result.status.as_str(), result.output.as_deref()), ("COMPLETED", Some(&b"50"[..])));
    assert_eq!(
        app.history(&id).await,
        ["WORKFLOW_STARTED", "TASK_SCHEDULED", "TASK_COMPLETED", "WORKFLOW_COMPLETED"]
    );
}

/// A workflow that waits for the task that its worker has claimed, and the step that follows that task's success.
async fn waiting_for_its_task(
    worker: &mut Worker,
    app: &mut App,
) -> (String, v1::TaskExecutionInfo, v1::SubmitWorkflowCommandsRequest) {
    let id = app.start().await;
    let first = worker.activation().await;
    worker.submit(&first, vec![schedule_task(Uuid::new_v4(), 3)], Suspended).await;
    let next = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.clone(),
        commands: vec![complete("50")],
        status: Completed.into(),
        claim_token: Some(first.claim_token + 1),
        base_sequence: Some(3),
        activation_failure: None,
        unread_signals: 0,
        clean_up: None,
    };
    (id, worker.task().await, next)
}

async fn a_task_with_the_step_that_follows(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let (id, task, next) = waiting_for_its_task(&mut worker, &mut app).await;
    let again = {
        let scheduled = schedule_task(Uuid::new_v4(), 3);
        v1::SubmitWorkflowCommandsRequest {
            commands: vec![scheduled],
            status: Suspended.into(),
            ..next.clone()
        }
    };
    let ack = worker.complete_task_and(&task, "49", Some(again)).await;
    assert_eq!((ack.code.as_str(), ack.continued), ("", true));
    let task = worker.task().await;
    let last = v1::SubmitWorkflowCommandsRequest { claim_token: Some(3), base_sequence: Some(5), ..next };
    let ack = worker.complete_task_and(&task, "50", Some(last)).await;
    assert_eq!((ack.code.as_str(), ack.continued), ("", true));
    let result = app.result(&id).await;
    assert_eq!((result.status.as_str(), result.output.as_deref()), ("COMPLETED", Some(&b"50"[..])));
    let step = ["TASK_SCHEDULED", "TASK_COMPLETED"];
    assert_eq!(
        app.history(&id).await,
        [&["WORKFLOW_STARTED"], &step[..], &step, &["WORKFLOW_COMPLETED"]].concat()
    );
    assert_eq!(worker.unread(), (0, 0), "nothing was pushed for steps that came with a result");
}

async fn a_step_that_cannot_be_taken_does_not_harm_the_task(server: TestServer) {
    type Change = fn(&mut v1::SubmitWorkflowCommandsRequest);
    let changes: [Change; 6] = [
        |next| next.workflow_execution_id = "nonsense".to_owned(),
        |next| next.status = 99,
        |next| next.claim_token = None,
        |next| next.base_sequence = Some(i64::MAX),
        |next| next.commands = vec![v1::WorkflowCommand::default()],
        |next| next.commands = vec![schedule_task(Uuid::nil(), 3); 2],
    ];
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    for change in changes {
        let (id, task, mut next) = waiting_for_its_task(&mut worker, &mut app).await;
        change(&mut next);
        let ack = worker.complete_task_and(&task, "49", Some(next)).await;
        assert_eq!((ack.code.as_str(), ack.continued), ("", false));
        // The execution is activated as usual.
        let second = worker.activation().await;
        assert_eq!((second.id.as_str(), second.events.len()), (id.as_str(), 2));
        worker.submit(&second, vec![complete("50")], Completed).await;
        assert_eq!(app.result(&id).await.status, "COMPLETED");
    }
}

async fn a_task_that_fails_for_good(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let first = worker.activation().await;
    worker.submit(&first, vec![schedule_task(Uuid::new_v4(), 2)], Suspended).await;
    for attempt in 1..=2 {
        let task = worker.task().await;
        assert_eq!(task.execution_count, attempt);
        assert_eq!(worker.fail_task(&task, "card declined").await.code, "");
    }
    let second = worker.activation().await;
    let failed = data(second.events.last().unwrap());
    assert_eq!(failed["error"], json!("card declined"));
    let fail = v1::FailWorkflowCommand { error: "no money".into(), ..v1::FailWorkflowCommand::default() };
    let fail = command(v1::CommandType::FailWorkflow, CommandData::FailWorkflow(fail));
    worker.submit(&second, vec![fail], Failed).await;
    let result = app.result(&id).await;
    assert_eq!((result.status.as_str(), result.error.as_deref()), ("FAILED", Some("no money")));
}

async fn a_timer(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let first = worker.activation().await;
    let timer = v1::StartTimerCommand { timer_id: "sleep-1".into(), duration_ms: 20 };
    let timer = command(v1::CommandType::StartTimer, CommandData::StartTimer(timer));
    worker.submit(&first, vec![timer], Suspended).await;
    let second = worker.activation().await;
    let fired = second.events.last().unwrap();
    assert_eq!((fired.event_type.as_str(), &data(fired)["timerId"]), ("TIMER_FIRED", &json!("sleep-1")));
    worker.submit(&second, vec![complete("null")], Completed).await;
    let events = app.events(&id).await;
    let time = |kind: &str| events.iter().find(|event| event.event_type == kind).unwrap().timestamp_ms;
    assert!(time("TIMER_FIRED") - time("TIMER_STARTED") >= 20, "a timer never fires early");
}

async fn a_promise(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let first = worker.activation().await;
    let promise = v1::CreatePromiseCommand {
        promise_id: "approval".into(),
        idempotency_key: Some("approve-1".into()),
        ..v1::CreatePromiseCommand::default()
    };
    let promise = command(v1::CommandType::CreatePromise, CommandData::CreatePromise(promise));
    worker.submit(&first, vec![promise], Suspended).await;
    let waiting = app.get(&id).await.waiting_on;
    assert_eq!((waiting[0].kind.as_str(), waiting[0].name.as_str()), ("PROMISE", "approval"));
    let resolve = v1::ResolvePromiseRequest { promise_id: "key:approve-1".into(), value: "true".into() };
    app.dispatch.resolve_promise(signed(resolve)).await.unwrap();
    let second = worker.activation().await;
    assert_eq!(data(second.events.last().unwrap())["value"], json!(true));
    worker.submit(&second, vec![complete("true")], Completed).await;
    assert_eq!(app.result(&id).await.status, "COMPLETED");
}

async fn a_child(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let first = worker.activation().await;
    let child_id = Uuid::new_v4().to_string();
    let child = v1::ScheduleChildWorkflowCommand {
        child_execution_name: "shipping".into(),
        workflow_kind: Some(KIND.into()),
        child_workflow_execution_id: child_id.clone(),
        ..v1::ScheduleChildWorkflowCommand::default()
    };
    let child = command(v1::CommandType::ScheduleChildWorkflow, CommandData::ScheduleChildWorkflow(child));
    worker.submit(&first, vec![child], Suspended).await;
    let of_child = worker.activation().await;
    assert_eq!(of_child.id, child_id);
    worker.submit(&of_child, vec![complete(r#""sent""#)], Completed).await;
    let second = worker.activation().await;
    let completed = data(second.events.last().unwrap());
    assert_eq!(
        (&completed["childExecutionName"], &completed["output"]),
        (&json!("shipping"), &json!("sent"))
    );
    worker.submit(&second, vec![complete("1")], Completed).await;
    assert_eq!(app.result(&id).await.status, "COMPLETED");
}

async fn signals(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let first = worker.activation().await;
    // The signal arrives while the workflow runs. A suspend that did not see it leaves the execution runnable.
    app.signal(&id, "ping", "1").await;
    worker.submit(&first, Vec::new(), Suspended).await;
    let second = worker.activation().await;
    assert_eq!(data(second.events.last().unwrap())["signalValue"], json!(1));
    worker.submit(&second, Vec::new(), Suspended).await;
    // A second signal arrives while it is parked.
    app.signal(&id, "ping", "2").await;
    let third = worker.activation().await;
    assert_eq!(third.events_after, 2);
    assert_eq!(data(third.events.last().unwrap())["signalValue"], json!(2));
    worker.submit(&third, vec![complete("2")], Completed).await;
    assert_eq!(app.result(&id).await.status, "COMPLETED");
}

async fn state_and_operations(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let first = worker.activation().await;
    let set = v1::SetStateCommand { key: "step".into(), value: r#""paid""#.into() };
    let operation = v1::RecordOperationCommand { operation_name: "now".into(), result: "5".into() };
    let commands = vec![
        command(v1::CommandType::SetState, CommandData::SetState(set)),
        command(v1::CommandType::RecordOperation, CommandData::RecordOperation(operation)),
        complete("null"),
    ];
    worker.submit(&first, commands, Completed).await;
    assert_eq!(
        app.history(&id).await,
        ["WORKFLOW_STARTED", "STATE_SET", "OPERATION_COMPLETED", "WORKFLOW_COMPLETED"]
    );
    let mut query = v1::workflow_query_client::WorkflowQueryClient::new(server.channel());
    let ask = |name: &str| {
        signed(v1::QueryWorkflowRequest {
            workflow_execution_id: id.clone(),
            query_name: name.into(),
            params: "null".into(),
        })
    };
    assert_eq!(query.query_workflow(ask("step")).await.unwrap().into_inner().result, r#""paid""#);
    assert!(query.query_workflow(ask("other")).await.unwrap().into_inner().error.is_some());
}

async fn a_cancel_request_is_seen_and_cleaned_up_after(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let first = worker.activation().await;
    worker.submit(&first, Vec::new(), Suspended).await;
    assert_ne!(app.cancel(&id).await, "CANCELLED", "the worker cleans up first");
    let second = worker.activation().await;
    assert_eq!(second.events.last().unwrap().event_type, "CANCELLATION_REQUESTED");
    let cancelled = v1::CancelWorkflowCommand { reason: "cleaned up".into() };
    let cancelled = command(v1::CommandType::CancelWorkflow, CommandData::CancelWorkflow(cancelled));
    assert_eq!(worker.submit(&second, vec![cancelled], Cancelled).await.code, "");
    let result = app.result(&id).await;
    assert_eq!((result.status.as_str(), result.error.as_deref()), ("CANCELLED", Some("cleaned up")));
}

async fn a_failed_activation_is_held_back_until_another_build_comes(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let first = worker.activation().await;
    let failure = v1::ActivationFailure {
        code: "DETERMINISM_VIOLATION".into(),
        message: "expected a timer".into(),
        position: 3,
        build_id: "build-1".into(),
    };
    let submit = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.clone(),
        status: v1::WorkflowStatus::ActivationFailed.into(),
        claim_token: Some(first.claim_token),
        base_sequence: Some(1),
        activation_failure: Some(failure),
        unread_signals: 0,
        clean_up: None,
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    assert_eq!(worker.submit_raw(submit).await.code, "");
    let waiting = app.get(&id).await.waiting_on;
    assert_eq!(
        (waiting[0].kind.as_str(), waiting[0].name.as_str()),
        ("ACTIVATION_BACKOFF", "DETERMINISM_VIOLATION")
    );
    assert!(waiting[0].message.contains("at event 3: expected a timer"), "{}", waiting[0].message);
    worker.goodbye().await;
    let fixed = v1::StreamHello { build_id: "build-2".into(), ..super::worker::hello(Uuid::new_v4()) };
    let mut worker = Worker::with(&server, fixed, 1, 0).await.unwrap();
    let again = worker.activation().await;
    worker.submit(&again, vec![complete("1")], Completed).await;
    assert_eq!(app.result(&id).await.status, "COMPLETED");
}
