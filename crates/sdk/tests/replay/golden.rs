//! Pitfall 34, key drift: the SDK and its test kit must read what the engine writes. The engine's typed definition
//! renders every kind of event. The JSON is stored here and fed to workflows.

use flovyn_engine::event::{Event, EventKind, Origin, TaskPayloads};
use flovyn_engine::failure::{Failure, StoredFailure};
use flovyn_engine::state::SmallEnum;
use flovyn_sdk::testing::Replay;
use flovyn_sdk::{PromiseOptions, WorkflowContext};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::corpus_workflows::find;
use crate::runs::{environment_in_order, replay_strictly};

const SUBJECT: Uuid = Uuid::from_u128(7);

/// An event with all columns filled.
fn rendered(kind: EventKind) -> Value {
    let event = Event {
        tenant_id: Default::default(),
        execution_id: Uuid::from_u128(1),
        sequence: 1,
        kind,
        origin: Origin::External,
        time_ms: 1,
        subject: Some(SUBJECT),
        name: Some("name".into()),
        number: Some(1),
        text: Some("text".into()),
        payload: Some(r#""payload""#.into()),
    };
    let task = TaskPayloads {
        input: Some("\"input\"".into()),
        output: Some("\"output\"".into()),
        error: Some("error".into()),
        failure: Some(stored("task").into()),
    };
    serde_json::from_slice(&event.render(Some(&task))).unwrap()
}

/// The kind and details of a failure, as stored.
fn stored(name: &str) -> String {
    let stored = StoredFailure {
        failure: Failure { kind: Some(name.into()), details: Some("[1]".into()) },
        retryable: Some(false),
        attempts: Some(2),
        stack_trace: None,
    };
    String::from_utf8(stored.write().unwrap().to_vec()).unwrap()
}

#[test]
fn the_engine_writes_these_keys() {
    let id = SUBJECT.to_string();
    let golden = json!({
        "WORKFLOW_STARTED": { "workflowKind": "name", "input": "payload" },
        "WORKFLOW_COMPLETED": { "output": "payload", "unreadSignals": 1 },
        "WORKFLOW_EXECUTION_FAILED": {
            "error": "text", "failureType": "name", "stackTrace": "payload", "unreadSignals": 1 },
        "WORKFLOW_CANCELLED": { "reason": "text", "unreadSignals": 1 },
        "WORKFLOW_SUSPENDED": { "reason": "text", "seenThrough": 1 },
        "CANCELLATION_REQUESTED": { "reason": "text" },
        "OPERATION_COMPLETED": { "operationName": "name", "result": "payload" },
        "STATE_SET": { "key": "name", "value": "payload" },
        "STATE_CLEARED": { "key": "name" },
        "TASK_SCHEDULED": { "taskExecutionId": id, "kind": "name", "taskType": "name", "input": "input" },
        "TASK_COMPLETED": { "taskExecutionId": id, "output": "output" },
        "TASK_FAILED": { "taskExecutionId": id, "cancelled": true, "error": "error", "failureType": "task",
            "failureDetails": [1], "retryable": false, "attempts": 2 },
        "TASK_CANCEL_REQUESTED": { "taskExecutionId": id, "cancelled": true },
        "PROMISE_CREATED": { "promiseId": id, "promiseName": "name", "timeoutMs": 1 },
        "PROMISE_RESOLVED": { "promiseId": id, "promiseName": "name", "value": "payload" },
        "PROMISE_REJECTED": { "promiseId": id, "promiseName": "name", "error": "text" },
        "PROMISE_TIMEOUT": { "promiseId": id, "promiseName": "name" },
        "CHILD_WORKFLOW_INITIATED": { "childExecutionId": id, "childExecutionName": "name", "childWorkflowKind": "text" },
        "CHILD_WORKFLOW_COMPLETED": { "childExecutionId": id, "childExecutionName": "name", "output": "payload" },
        "CHILD_WORKFLOW_FAILED": { "childExecutionId": id, "childworkflowExecutionId": id,
            "childExecutionName": "name", "error": "text", "cancelled": true },
        "CHILD_WORKFLOW_CANCEL_REQUESTED": { "childExecutionId": id, "childExecutionName": "name", "reason": "text" },
        "TIMER_STARTED": { "timerId": "name", "durationMs": 1 },
        "TIMER_FIRED": { "timerId": "name" },
        "TIMER_CANCELLED": { "timerId": "name" },
        "SIGNAL_RECEIVED": { "signalName": "name", "signalValue": "payload" },
    });
    let all: serde_json::Map<String, Value> =
        EventKind::ALL.iter().map(|kind| (kind.name().to_owned(), rendered(*kind))).collect();
    assert_eq!(Value::Object(all), golden);
}

/// The test kit acts as the server, so it must not write keys that the server does not write.
#[tokio::test]
async fn the_test_kit_writes_the_engines_keys() {
    for name in [
        "operation",
        "state",
        "task",
        "failing-task",
        "task-cancelled",
        "timer-cancelled",
        "promise",
        "child",
        "child-cancelled",
        "cancelled",
        "mix",
    ] {
        let mut run = environment_in_order().start_fn("w", find(name).unwrap(), Value::Null);
        run.settle().await.unwrap();
        let _ = run.signal("go", &1).await;
        if name == "cancelled" {
            run.cancel("enough").await.unwrap();
        }
        let _ = run.reject_promise("p", "no").await;
        run.finish().await.unwrap();
        for event in run.history() {
            let kind =
                EventKind::ALL.iter().find(|kind| kind.name() == event.kind).expect("a kind of the engine");
            let known = rendered(*kind);
            for key in event.data.as_object().unwrap().keys() {
                assert!(known.get(key).is_some(), "{}: the engine has no {key:?}", event.kind);
            }
        }
    }
}

/// A history with one command, its row and its end in the engine's JSON.
async fn told(row: EventKind, end: EventKind, change: impl Fn(&mut Value)) -> Value {
    let workflow = |context: WorkflowContext, input: Value| async move {
        let outcome = match input["what"].as_str().unwrap() {
            "task" => context.schedule_raw("name", json!("input")).await,
            "child" => {
                let child = context.schedule_workflow_raw("name", "text", Value::Null);
                // Only to tell the test the id.
                context.set_state("id", &child.execution_id().to_string())?;
                child.await
            }
            "promise" => {
                let timeout = Some(std::time::Duration::from_millis(1));
                context.promise_with_options("name", PromiseOptions { timeout, key: None }).await
            }
            "signal" => context.wait_for_signal("name").await,
            _ => Ok(json!(context.cancellation().await)),
        };
        Ok(json!(format!("{outcome:?}")))
    };
    let what = row.name().split('_').next().unwrap().to_lowercase();
    let (row_data, mut end_data) = (rendered(row), rendered(end));
    change(&mut end_data);
    let is_row = !matches!(row, EventKind::SignalReceived | EventKind::CancellationRequested);
    let mut events = vec![
        json!({ "sequence": 1, "eventType": "WORKFLOW_STARTED", "data": { "input": { "what": what } } }),
    ];
    if is_row {
        events.push(json!({ "sequence": 2, "eventType": row.name(), "data": row_data }));
    }
    events.push(json!({ "sequence": 3, "eventType": end.name(), "data": end_data }));
    // Ids of tasks and children are generated by the SDK, so they are read from its commands.
    let first = Replay::new("w", workflow, &json!(events[..1])).unwrap().strict().feed(1).await.unwrap();
    let words = first.iter().flat_map(|asked| asked.split([' ', '"']));
    let id = words.filter_map(|word| Uuid::try_parse(word).ok()).next();
    let mut text = json!(events).to_string();
    if let Some(id) = id {
        text = text.replace(&SUBJECT.to_string(), &id.to_string());
    }
    let history: Value = serde_json::from_str(&text).unwrap();
    let mut replay = Replay::new("w", workflow, &history).unwrap().strict();
    replay.feed(9).await.unwrap();
    replay.ended().unwrap_or_else(|| panic!("{} did not reach the workflow", end.name())).unwrap()
}

#[tokio::test]
async fn the_sdk_reads_what_the_engine_writes() {
    use EventKind as Kind;
    let same = |_: &mut Value| {};
    let ends = [
        (Kind::TaskScheduled, Kind::TaskCompleted, r#"Ok(String("output"))"#),
        (Kind::TaskScheduled, Kind::TaskFailed, r#"Err(Cancelled("error"))"#),
        (Kind::PromiseCreated, Kind::PromiseResolved, r#"Ok(String("payload"))"#),
        (
            Kind::PromiseCreated,
            Kind::PromiseRejected,
            r#"Err(PromiseRejected { name: "name", message: "text" })"#,
        ),
        (Kind::PromiseCreated, Kind::PromiseTimeout, "Err(Timeout(None))"),
        (Kind::ChildInitiated, Kind::ChildCompleted, r#"Ok(String("payload"))"#),
        (
            Kind::ChildInitiated,
            Kind::ChildFailed,
            r#"Err(ChildFailed { name: "name", message: "text", failure: Failure { kind: Some("CANCELLED"), details: None, retryable: true, attempts: None } })"#,
        ),
        (Kind::SignalReceived, Kind::SignalReceived, r#"Ok(String("payload"))"#),
        (Kind::CancellationRequested, Kind::CancellationRequested, r#"Ok(String("text"))"#),
    ];
    for (row, end, expected) in ends {
        assert_eq!(told(row, end, same).await, json!(expected), "{}", end.name());
    }
    let failed = told(Kind::ChildInitiated, Kind::ChildFailed, |data| {
        let more: Value = serde_json::from_str(&stored("child")).unwrap();
        let data = data.as_object_mut().unwrap();
        data.extend(more.as_object().unwrap().clone());
        data.remove("cancelled");
    });
    assert_eq!(
        failed.await,
        json!(
            r#"Err(ChildFailed { name: "name", message: "text", failure: Failure { kind: Some("child"), details: Some(Array [Number(1)]), retryable: false, attempts: Some(2) } })"#
        )
    );
    let failed = told(Kind::TaskScheduled, Kind::TaskFailed, |data| {
        data.as_object_mut().unwrap().remove("cancelled");
    });
    assert_eq!(
        failed.await,
        json!(
            r#"Err(TaskFailed { task_type: "name", message: "error", failure: Failure { kind: Some("task"), details: Some(Array [Number(1)]), retryable: false, attempts: Some(2) } })"#
        )
    );
}

/// Pitfall 35: unknown events are skipped and not mistaken for other events.
#[tokio::test]
async fn unknown_events_are_skipped() {
    let workflow = find("timer").unwrap();
    let mut run = environment_in_order().start_fn("w", workflow, Value::Null);
    run.finish().await.unwrap();
    let mut history = run.recording();
    let time = history["events"][0]["timestampMs"].clone();
    for (origin, kind) in [("EXTERNAL", "TIMER_FIRED_TWICE"), ("COMMAND", "TIMER_PAUSED"), ("EXTERNAL", "")] {
        let new = json!({ "sequence": 2, "eventType": kind, "origin": origin, "timestampMs": time,
            "data": { "timerId": "timer-1" } });
        history["events"].as_array_mut().unwrap().insert(2, new);
    }
    for (number, event) in history["events"].as_array_mut().unwrap().iter_mut().enumerate() {
        event["sequence"] = json!(number + 1);
    }
    replay_strictly("w", workflow, &history).await.unwrap();
}
