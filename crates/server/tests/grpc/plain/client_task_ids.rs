//! Task ids that clients choose: when they mean the same task, and when they collide.

use serde_json::json;
use tonic::Code;
use uuid::Uuid;

use super::client::{Event, Plain, event, kinds};
use super::commands::{
    COMPLETED, SUSPENDED, ScheduleTask, complete, operation, promise, schedule, set_state, task, task_data,
    timer,
};
use super::messages::{SubmitTaskRequest, SubmitTaskResponse};
use crate::common::{TENANT, TestServer, on_both};

on_both!(
    happy_path,
    same_id_twice_in_one_batch,
    same_id_in_a_later_batch,
    another_type_collides,
    another_type_collides_in_a_later_batch,
    another_workflow_collides,
    a_malformed_id_is_refused,
    a_batch_is_atomic,
    a_task_made_by_submit_task_is_adopted,
);

async fn started(client: &Plain) -> String {
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    id
}

fn scheduled(id: Uuid, kind: &str) -> Event {
    event(
        "TASK_SCHEDULED",
        json!({"kind": kind, "taskType": kind, "taskExecutionId": id.to_string(), "input": 1}),
    )
}

async fn happy_path(server: TestServer) {
    let client = Plain::of(&server);
    let id = started(&client).await;
    // Any UUID is accepted, but only in one spelling.
    let task_id = Uuid::from_u128(0xa5a5_0000_0000_5000_8000_0000_0000_abcd);
    let upper = ScheduleTask {
        task_execution_id: task_id.to_string().to_uppercase(),
        ..task_data(task_id, "charge", json!(1))
    };
    let refused = client.submit(&id, vec![task(upper)], SUSPENDED).await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains("FLV0004"), "{refused}");
    // The refusal has ended the claim, so the execution is handed out again.
    client.claim(&id).await;
    client.suspend(&id, vec![task(task_data(task_id, "charge", json!(1)))]).await;
    assert_eq!(client.events(&id).await[1..], [scheduled(task_id, "charge")]);
    let delivered = client.poll_task().await;
    assert_eq!((delivered.task_execution_id, delivered.workflow_execution_id), (task_id.to_string(), id));
}

async fn same_id_twice_in_one_batch(server: TestServer) {
    let client = Plain::of(&server);
    let id = started(&client).await;
    let task_id = Uuid::new_v4();
    let command = schedule(task_id, "charge", json!(1));
    client.suspend(&id, vec![command.clone(), command]).await;
    assert_eq!(client.events(&id).await[1..], [scheduled(task_id, "charge")]);
    client.poll_task().await;
    client.assert_no_task().await;
}

/// A client that lost its history sends its first commands again. They are acknowledged without effect, and the
/// execution is activated again.
async fn same_id_in_a_later_batch(server: TestServer) {
    let client = Plain::of(&server);
    let id = started(&client).await;
    let task_id = Uuid::new_v4();
    client.suspend(&id, vec![schedule(task_id, "charge", json!(1))]).await;
    client.signal(&id, "wake", json!(null)).await.unwrap();
    let before = client.claim(&id).await;
    client.suspend(&id, vec![schedule(task_id, "charge", json!(1))]).await;
    assert_eq!(client.claim(&id).await, before);
    // If only a part is new, the client must read the history again before anything is accepted.
    let mixed = vec![schedule(task_id, "charge", json!(1)), schedule(Uuid::new_v4(), "ship", json!(1))];
    let refused = client.submit(&id, mixed, SUSPENDED).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(client.claim(&id).await, before);
    assert_eq!(client.poll_task().await.task_execution_id, task_id.to_string());
    client.assert_no_task().await;
}

async fn another_type_collides(server: TestServer) {
    let client = Plain::of(&server);
    let id = started(&client).await;
    let task_id = Uuid::new_v4();
    let in_one_batch = vec![schedule(task_id, "charge", json!(1)), schedule(task_id, "refund", json!(1))];
    let refused = client.submit(&id, in_one_batch, SUSPENDED).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("command 1"), "{refused:?}");
    assert_eq!(client.events(&id).await.len(), 1);
    client.assert_no_task().await;
}

/// A batch with another task type under a known id is not a repeat. To acknowledge it would lose the new commands.
async fn another_type_collides_in_a_later_batch(server: TestServer) {
    let client = Plain::of(&server);
    let id = started(&client).await;
    let task_id = Uuid::new_v4();
    client.suspend(&id, vec![schedule(task_id, "charge", json!(1))]).await;
    client.signal(&id, "wake", json!(null)).await.unwrap();
    let before = client.claim(&id).await;
    let other = vec![operation("draw", json!(1)), schedule(task_id, "refund", json!(1))];
    let refused = client.submit(&id, other, SUSPENDED).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(client.events(&id).await, before);
}

async fn another_workflow_collides(server: TestServer) {
    let client = Plain::of(&server);
    let first = started(&client).await;
    let task_id = Uuid::new_v4();
    client.suspend(&first, vec![schedule(task_id, "charge", json!(1))]).await;
    let second = started(&client).await;
    let refused = client.submit(&second, vec![schedule(task_id, "charge", json!(1))], SUSPENDED).await;
    assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(client.events(&second).await.len(), 1);
}

async fn a_malformed_id_is_refused(server: TestServer) {
    let client = Plain::of(&server);
    let id = started(&client).await;
    for wrong in ["not-a-uuid", "", "00000000-0000-0000-0000-000000000000"] {
        let broken =
            ScheduleTask { task_execution_id: wrong.into(), ..task_data(Uuid::nil(), "charge", json!(1)) };
        let commands =
            vec![operation("draw", json!(1)), schedule(Uuid::new_v4(), "charge", json!(1)), task(broken)];
        let refused = client.submit(&id, commands, SUSPENDED).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("command 2"), "{refused:?}");
    }
    assert_eq!(client.events(&id).await.len(), 1);
    client.assert_no_task().await;
}

/// The last command fails in the engine, after all others were applied.
async fn a_batch_is_atomic(server: TestServer) {
    let client = Plain::of(&server);
    let (task_id, taken) = (Uuid::new_v4(), Uuid::new_v4());
    let other = started(&client).await;
    client.suspend(&other, vec![schedule(taken, "charge", json!(1))]).await;
    assert_eq!(client.poll_task().await.task_execution_id, taken.to_string());

    let id = started(&client).await;
    let commands = vec![
        operation("draw", json!(1)),
        set_state("step", json!(1)),
        schedule(task_id, "charge", json!(1)),
        timer("sleep-1", 0),
        promise("approval", Some(1)),
        schedule(taken, "charge", json!(1)),
        complete(json!(1)),
    ];
    let refused = client.submit(&id, commands, COMPLETED).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("command 5"), "{refused:?}");
    assert_eq!(kinds(&client.events(&id).await), ["WORKFLOW_STARTED"]);
    client.assert_no_task().await;
    assert!(client.query_reply(&id, "step").await.error.is_some());
    // The refused batch has left nothing that blocks the corrected batch.
    client.claim(&id).await;
    client.suspend(&id, vec![schedule(task_id, "charge", json!(1)), timer("sleep-1", 86_400_000)]).await;
    assert_eq!(client.poll_task().await.task_execution_id, task_id.to_string());
    assert_eq!(kinds(&client.events(&id).await[1..]), ["TASK_SCHEDULED", "TIMER_STARTED"]);
}

/// The old way in two steps still works: SubmitTask creates the row, then the command adds its event.
async fn a_task_made_by_submit_task_is_adopted(server: TestServer) {
    let client = Plain::of(&server);
    let id = started(&client).await;
    let request = SubmitTaskRequest {
        workflow_execution_id: id.clone(),
        org_id: TENANT.to_string(),
        kind: "charge".into(),
        input: b"1".to_vec(),
        max_retries: 3,
        ..SubmitTaskRequest::default()
    };
    let made: SubmitTaskResponse = client.call("TaskExecution/SubmitTask", request).await.unwrap();
    let task_id: Uuid = made.task_execution_id.parse().unwrap();
    client.assert_no_task().await;
    client.suspend(&id, vec![schedule(task_id, "charge", json!(1))]).await;
    assert_eq!(client.events(&id).await[1..], [scheduled(task_id, "charge")]);
    assert_eq!(client.poll_task().await.task_execution_id, made.task_execution_id);
}
