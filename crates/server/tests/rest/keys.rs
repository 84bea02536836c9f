//! Idempotency keys: one execution per key, during the lifetime of the key.

use std::collections::BTreeSet;
use std::time::Instant;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::common::Database;
use crate::http::{Answer, Http};
use crate::worker::{PATIENCE, Worker};
use crate::world::{World, complete_next, fail_next, on_both, text};

on_both!(
    with_idempotency_key,
    by_header,
    header_and_body_name_one_key,
    idempotency_key_expired,
    failed_execution_allows_retry,
    cancelled_execution_allows_retry,
    concurrent_requests_same_key,
    one_namespace_for_workflows_and_tasks,
);

const PATH: &str = "/workflows/order/trigger";

async fn header_and_body_name_one_key(world: World) {
    let send = async |path: &str, body: &Value, keys: &[&str]| {
        let bearer = format!("Bearer {}", world.admin);
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(keys.iter().map(|key| ("idempotency-key", *key)));
        world.http.send("POST", &format!("/api/tenants/one{path}"), &headers, body.to_string()).await
    };
    let start = json!({ "kind": "order", "idempotencyKey": "one" });
    let with_signal = json!({ "signalName": "go", "workflow": start });
    let task = json!({ "task_type": "t", "idempotency_key": "two" });
    for (path, body, own) in [
        ("/workflow-executions", &start, "one"),
        (PATH, &start, "one"),
        ("/workflow-executions/signal-with-start", &with_signal, "one"),
        ("/tasks", &task, "two"),
    ] {
        send(path, body, &["other"]).await.refused(400, "FLV0013");
        send(path, body, &[own, "other"]).await.refused(400, "FLV0013");
        let same = send(path, body, &[own, own]).await;
        assert!([200, 201].contains(&same.status), "{path}: {same:?}");
    }
    assert_eq!(world.executions().await, 1);
}

async fn with_idempotency_key(world: World) {
    let request = json!({ "input": { "name": "World" }, "idempotencyKey": "greeting-world-1" });
    let first = world.post(PATH, &request).await.ok(201);
    let second = world.post(PATH, &request).await.ok(200);
    assert_eq!((&first["idempotencyKeyNew"], &second["idempotencyKeyNew"]), (&json!(true), &json!(false)));
    assert_eq!(second["idempotencyKeyUsed"], json!(true));
    assert_eq!(first["workflowExecutionId"], second["workflowExecutionId"]);
    // A completed execution keeps its key.
    let mut worker = Worker::connect(&world.server).await;
    complete_next(&mut worker, "1").await;
    let third = world.post(PATH, &request).await.ok(200);
    assert_eq!(
        (&third["status"], &third["workflowExecutionId"]),
        (&json!("COMPLETED"), &first["workflowExecutionId"])
    );
    assert_eq!(world.executions().await, 1);
}

async fn trigger_with(world: &World, key: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {}", world.admin);
    let headers = [("authorization", bearer.as_str()), ("Idempotency-Key", key)];
    world.http.send("POST", &format!("/api/tenants/one{PATH}"), &headers, body.to_string()).await
}

async fn by_header(world: World) {
    let first = trigger_with(&world, "key", &json!({})).await.ok(201);
    let second = trigger_with(&world, "key", &json!({})).await.ok(200);
    assert_eq!(first["workflowExecutionId"], second["workflowExecutionId"]);
    let by_body = world.post(PATH, &json!({ "idempotencyKey": "key" })).await.ok(200);
    assert_eq!(first["workflowExecutionId"], by_body["workflowExecutionId"]);
    trigger_with(&world, "key", &json!({ "idempotencyKey": "key" })).await.ok(200);
    // An unreadable key is not ignored.
    trigger_with(&world, "schl\u{fc}ssel", &json!({})).await.refused(400, "FLV0003");
    let bearer = format!("Bearer {}", world.admin);
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "schl\u{fc}ssel")];
    let task = world.http.send("POST", "/api/tenants/one/tasks", &headers, r#"{"task_type":"t"}"#).await;
    task.refused(400, "FLV0003");
    assert_eq!(world.executions().await, 1);
}

async fn idempotency_key_expired(world: World) {
    let request = json!({ "idempotencyKey": "key", "idempotencyKeyTTL": "1s" });
    let first = world.post(PATH, &request).await.ok(201);
    let until = Instant::now() + PATIENCE;
    // A repeated request does not extend the lifetime of the key.
    let second = loop {
        let answer = world.post(PATH, &request).await;
        if answer.status == 201 {
            break answer.body;
        }
        assert_eq!(answer.ok(200)["workflowExecutionId"], first["workflowExecutionId"]);
        assert!(Instant::now() < until, "the key never expired");
    };
    assert_ne!(first["workflowExecutionId"], second["workflowExecutionId"]);
}

async fn failed_execution_allows_retry(world: World) {
    let request = json!({ "idempotencyKey": "key" });
    let first = world.post(PATH, &request).await.ok(201);
    let mut worker = Worker::connect(&world.server).await;
    fail_next(&mut worker).await;
    let found =
        world.get(&format!("/workflows/{}/status", text(&first["workflowExecutionId"]))).await.ok(200);
    assert_eq!(found["status"], "FAILED");
    let second = world.post(PATH, &request).await.ok(201);
    assert_eq!(second["idempotencyKeyNew"], json!(true));
    assert_ne!(first["workflowExecutionId"], second["workflowExecutionId"]);
}

async fn cancelled_execution_allows_retry(world: World) {
    let request = json!({ "idempotencyKey": "key" });
    let first = world.post(PATH, &request).await.ok(201);
    let id = text(&first["workflowExecutionId"]);
    world.post(&format!("/workflow-executions/{id}/terminate"), &json!({})).await.ok(200);
    let second = world.post(PATH, &request).await.ok(201);
    assert_ne!(first["workflowExecutionId"], second["workflowExecutionId"]);
}

/// Fifty requests at once, distributed over these servers: one starts the execution, the others find it.
async fn fifty(world: &World, servers: &[Http]) {
    let bearer = format!("Bearer {}", world.admin);
    let headers = [("authorization", bearer.as_str())];
    let path = format!("/api/tenants/one{PATH}");
    let calls = (0..50).map(|number| {
        servers[number % servers.len()].send("POST", &path, &headers, r#"{"idempotencyKey":"key"}"#)
    });
    let answers = join_all(calls).await;
    let new = answers.iter().filter(|answer| answer.status == 201).count();
    let old = answers.iter().filter(|answer| answer.status == 200).count();
    let ids: BTreeSet<String> =
        answers.iter().map(|answer| answer.body["workflowExecutionId"].to_string()).collect();
    assert_eq!((new, old, ids.len()), (1, 49, 1), "{answers:?}");
    assert_eq!(world.executions().await, 1);
}

async fn concurrent_requests_same_key(world: World) {
    fifty(&world, std::slice::from_ref(&world.http)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_same_key_on_two_servers() {
    let world = World::start(Database::Postgres).await;
    let second = world.second_server().await;
    fifty(&world, &[world.http.clone(), Http::new(second.http_addr())]).await;
    second.stop().await;
}

async fn one_namespace_for_workflows_and_tasks(world: World) {
    world.post(PATH, &json!({ "idempotencyKey": "key" })).await.ok(201);
    world.post("/workflows/other/trigger", &json!({ "idempotencyKey": "key" })).await.refused(409, "FLV0042");
    let task = json!({ "task_type": "t", "idempotency_key": "key" });
    world.post("/tasks", &task).await.refused(409, "FLV0042");
}
