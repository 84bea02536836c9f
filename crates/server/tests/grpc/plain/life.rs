//! Whole lives of workflows: tasks that succeed and fail, timers, operations. Histories have exactly the keys of
//! PROTOCOL.md section 9.

use serde_json::json;
use uuid::Uuid;

use super::client::{Plain, WORKER, event, parsed};
use super::commands::{ScheduleTask, operation, schedule, task, task_data, timer};
use super::messages::WorkerHeartbeatRequest;
use crate::common::{TENANT, TestServer, on_both};

on_both!(a_task_completes, a_failing_task_is_retried, a_timer_fires, operations_are_recorded);

async fn a_task_completes(server: TestServer) {
    let client = Plain::of(&server);
    let worker_id = client.register(WORKER, &["order"], &["charge"]).await;
    let beat = WorkerHeartbeatRequest { worker_id };
    client.call::<_, ()>("WorkerLifecycle/SendHeartbeat", beat).await.unwrap();

    let id = client.start("order", json!({"total": 3})).await;
    let execution = client.poll_workflow().await;
    assert_eq!((execution.id.as_str(), execution.kind.as_str()), (id.as_str(), "order"));
    assert_eq!((execution.org_id, execution.queue), (TENANT.to_string(), "default".to_owned()));
    assert_eq!(parsed(&execution.input), json!({"total": 3}));
    assert_eq!((execution.current_sequence, execution.priority_ms), (1, 0));
    assert!(execution.created_at_ms > 0 && execution.workflow_task_time_millis > 0);
    let started = event("WORKFLOW_STARTED", json!({"workflowKind": "order", "input": {"total": 3}}));
    assert_eq!(client.events(&id).await, std::slice::from_ref(&started));

    let task_id = Uuid::new_v4();
    client.suspend(&id, vec![schedule(task_id, "charge", json!({"amount": 3}))]).await;
    let delivered = client.poll_task().await;
    assert_eq!(delivered.task_execution_id, task_id.to_string());
    assert_eq!((delivered.kind.as_str(), delivered.execution_count), ("charge", 1));
    assert_eq!(parsed(&delivered.input), json!({"amount": 3}));
    assert_eq!((delivered.workflow_execution_id, delivered.queue), (id.clone(), "default".to_owned()));
    client.complete_task(task_id, json!({"receipt": "r-1"})).await.unwrap();

    let again = client.poll_workflow().await;
    assert_eq!((&again.id, parsed(&again.input)), (&id, json!({"total": 3})));
    // This is "now" in the workflow, so it must not change between replays.
    assert_eq!(again.workflow_task_time_millis, execution.workflow_task_time_millis);
    client.complete(&id, json!("paid")).await;
    let scheduled = json!({
        "kind": "charge", "taskType": "charge", "taskExecutionId": task_id.to_string(), "input": {"amount": 3},
    });
    let completed = json!({"taskExecutionId": task_id.to_string(), "output": {"receipt": "r-1"}});
    let expected = [
        started,
        event("TASK_SCHEDULED", scheduled),
        event("TASK_COMPLETED", completed),
        event("WORKFLOW_COMPLETED", json!({"output": "paid"})),
    ];
    assert_eq!(client.events(&id).await, expected);
    client.assert_no_workflow().await;
    client.assert_no_task().await;
}

async fn a_failing_task_is_retried(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let task_id = Uuid::new_v4();
    let twice = ScheduleTask { max_retries: Some(2), ..task_data(task_id, "charge", json!(1)) };
    client.suspend(&id, vec![task(twice)]).await;

    assert_eq!(client.poll_task().await.execution_count, 1);
    client.fail_task(task_id, "card declined").await.unwrap();
    // An attempt is left, so the workflow must not be notified of the first failure.
    assert_eq!(client.events(&id).await.len(), 2);
    client.assert_no_workflow().await;

    assert_eq!(client.poll_task().await.execution_count, 2);
    client.fail_task(task_id, "card declined again").await.unwrap();
    let events = client.claim(&id).await;
    let failed = json!({
        "taskExecutionId": task_id.to_string(),
        "error": "card declined again",
        "attempts": 2,
        "retryable": true,
    });
    assert_eq!(events[2..], [event("TASK_FAILED", failed)]);
    client.assert_no_task().await;
    client.complete(&id, json!("given up")).await;
}

async fn a_timer_fires(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("nap", json!(null)).await;
    client.claim(&id).await;
    client.suspend(&id, vec![timer("sleep-1", 20), timer("sleep-2", 86_400_000)]).await;
    let events = client.claim(&id).await;
    let expected = [
        event("TIMER_STARTED", json!({"timerId": "sleep-1", "durationMs": 20})),
        event("TIMER_STARTED", json!({"timerId": "sleep-2", "durationMs": 86_400_000})),
        event("TIMER_FIRED", json!({"timerId": "sleep-1"})),
    ];
    assert_eq!(events[1..], expected);
    client.suspend(&id, vec![]).await;
    let waiting = client.query(&id, "__waiting").await;
    assert_eq!((&waiting[0]["kind"], &waiting[0]["name"]), (&json!("TIMER"), &json!("sleep-2")));
}

async fn operations_are_recorded(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let commands = vec![operation("draw", json!([1, {"a": null}])), operation("draw", json!("é"))];
    client.suspend(&id, commands).await;
    let expected = [
        event("OPERATION_COMPLETED", json!({"operationName": "draw", "result": [1, {"a": null}]})),
        event("OPERATION_COMPLETED", json!({"operationName": "draw", "result": "é"})),
    ];
    assert_eq!(client.events(&id).await[1..], expected);
}
