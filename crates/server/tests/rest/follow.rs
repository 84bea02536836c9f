//! Following an execution: nothing is missed, nothing comes twice.

use serde_json::json;

use crate::http::Events;
use crate::worker::Worker;
use crate::world::{World, complete_next, on_both};

on_both!(from_the_beginning_to_the_end, from_where_it_broke_off);

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
    // What is no number is no place: from the beginning.
    for strange in ["nonsense", "-7"] {
        assert_eq!(open(&world, &id, Some(strange)).await.next().await.unwrap().0, 1);
    }
}
