//! Follows an execution or a task: no event is missed or repeated.

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use serde_json::json;

use crate::http::Events;
use crate::worker::{Worker, signed};
use crate::world::{World, complete_next, on_both, text};

on_both!(from_the_beginning_to_the_end, from_where_it_broke_off, a_task_and_what_it_streams);

async fn open(world: &World, id: &str, last: Option<&str>) -> Events {
    let bearer = format!("Bearer {}", world.admin);
    let mut headers = vec![("authorization", bearer.as_str())];
    headers.extend(last.map(|last| ("Last-Event-ID", last)));
    world.http.follow(&format!("/api/tenants/one/workflow-executions/{id}/stream"), &headers).await
}

async fn signal(world: &World, id: &str) {
    world.post(&format!("/workflow-executions/{id}/signal"), &json!({ "name": "s" })).await.ok(202);
}

async fn from_the_beginning_to_the_end(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let mut events = open(&world, &id, None).await;
    let (number, kind, data) = events.next().await.unwrap();
    assert_eq!((number, kind.as_str()), (1, "WORKFLOW_STARTED"));
    assert_eq!((&data["sequence"], &data["eventType"]), (&json!(1), &json!("WORKFLOW_STARTED")));
    signal(&world, &id).await;
    assert_eq!(events.next().await.unwrap().0, 2);
    complete_next(&mut worker, "1").await;
    let (mut last, mut kind) = (2, String::new());
    while let Some((number, next, _)) = events.next().await {
        assert_eq!(number, last + 1);
        (last, kind) = (number, next);
    }
    assert_eq!(kind, "WORKFLOW_COMPLETED");
}

async fn from_where_it_broke_off(world: World) {
    let id = world.start_order().await;
    for _ in 0..3 {
        signal(&world, &id).await;
    }
    let mut events = open(&world, &id, Some("2")).await;
    assert_eq!(events.next().await.unwrap().0, 3);
    assert_eq!(events.next().await.unwrap().0, 4);
    drop(events);
    signal(&world, &id).await;
    let mut events = open(&world, &id, Some("4")).await;
    assert_eq!(events.next().await.unwrap().0, 5);
    // Text that is not a number means from the beginning.
    for strange in ["nonsense", "-7"] {
        assert_eq!(open(&world, &id, Some(strange)).await.next().await.unwrap().0, 1);
    }
}

async fn a_task_and_what_it_streams(world: World) {
    let task = world.post("/tasks", &json!({ "task_type": "charge" })).await.ok(201);
    let id = text(&task["id"]);
    let bearer = format!("Bearer {}", world.admin);
    let path = format!("/api/tenants/one/tasks/{id}/stream");
    let mut events = world.http.follow(&path, &[("authorization", bearer.as_str())]).await;
    let (_, kind, data) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &data["status"]), ("task", &json!("PENDING")));

    let mut worker = Worker::connect(&world.server).await;
    let claimed = worker.task().await;
    assert_eq!(events.next().await.unwrap().2["status"], json!("RUNNING"));
    let datum = v1::StreamTaskDataRequest {
        task_execution_id: id,
        sequence: 5,
        payload: "{\"type\":\"token\",\n\"text\":\"hi\"}".into(),
        claim_token: Some(claimed.claim_token),
        ..v1::StreamTaskDataRequest::default()
    };
    let mut tasks = TaskExecutionClient::new(world.server.channel());
    assert!(tasks.stream_task_data(signed(datum)).await.unwrap().into_inner().acknowledged);
    let (number, kind, data) = events.next().await.unwrap();
    assert_eq!((number, kind.as_str(), &data["text"]), (5, "data", &json!("hi")));

    worker.complete_task(&claimed, "7").await;
    let (_, _, data) = events.next().await.unwrap();
    assert_eq!((&data["status"], &data["output"]), (&json!("COMPLETED"), &json!(7)));
    assert!(events.next().await.is_none(), "the stream ends with the task");
}
