//! Many starts at once: all of them or none.

use serde_json::{Value, json};

use crate::world::{World, on_both};

on_both!(
    all_or_none_of_the_workflows,
    all_or_none_of_the_tasks,
    keys_within_a_batch,
    what_was_there_already,
    the_key_header_is_refused,
);

async fn all_or_none_of_the_workflows(world: World) {
    let good = |number: usize| json!({ "kind": format!("kind-{number}"), "input": number });
    let bad: &[Value] = &[
        json!({ "input": 1 }),
        json!({ "kind": "" }),
        json!({ "kind": "k", "idempotencyKey": "k", "idempotencyKeyTTL": "2x" }),
        json!({ "kind": "k", "labels": { "l": "v".repeat(129) } }),
        json!({ "kind": "k", "nobody": 1 }),
    ];
    for bad in bad {
        let answer = world.post("/workflows/batch", &json!({ "workflows": [good(1), bad, good(2)] })).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(answer.body["code"].is_string());
    }
    world.post("/workflows/batch", &json!({ "workflows": [] })).await.refused(400, "FLV0008");
    assert_eq!(world.executions().await, 0);
    let body = world.post("/workflows/batch", &json!({ "workflows": [good(1), good(2)] })).await.ok(201);
    let started = body["workflows"].as_array().unwrap();
    assert_eq!(
        (started.len(), &started[0]["kind"], &started[1]["kind"]),
        (2, &json!("kind-1"), &json!("kind-2"))
    );
    for one in started {
        world.call(&world.admin, "GET", one["links"]["self"].as_str().unwrap(), "").await.ok(200);
    }
    assert_eq!(world.executions().await, 2);
}

async fn all_or_none_of_the_tasks(world: World) {
    let good = json!({ "task_type": "t", "input": 1 });
    for bad in [json!({ "task_type": "" }), json!({}), json!({ "task_type": "t", "scheduled_at": "soon" })] {
        let answer = world.post("/tasks/batch", &json!({ "tasks": [good, bad] })).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
    assert_eq!(world.get("/tasks").await.ok(200)["total"], 0);
    let body = world.post("/tasks/batch", &json!({ "tasks": [good, good] })).await.ok(201);
    assert_eq!(body["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(world.get("/tasks").await.ok(200)["total"], 2);
}

async fn keys_within_a_batch(world: World) {
    let item = json!({ "kind": "k", "idempotencyKey": "key" });
    let body = world.post("/workflows/batch", &json!({ "workflows": [item, item] })).await.ok(201);
    let started = &body["workflows"];
    assert_eq!(started[0]["workflowExecutionId"], started[1]["workflowExecutionId"]);
    assert_eq!(
        (&started[0]["idempotencyKeyNew"], &started[1]["idempotencyKeyNew"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(world.executions().await, 1);
}

/// The status is 201 if anything is new.
async fn what_was_there_already(world: World) {
    let item = |key: &str| json!({ "kind": "k", "idempotencyKey": key });
    for (keys, status) in [(["a", "b"], 201), (["a", "b"], 200), (["b", "c"], 201), (["c", "a"], 200)] {
        let request = json!({ "workflows": keys.map(item) });
        world.post("/workflows/batch", &request).await.ok(status);
    }
    assert_eq!(world.executions().await, 3);
    let item = |key: &str| json!({ "task_type": "t", "idempotency_key": key });
    for (keys, status) in [(["d", "e"], 201), (["d", "e"], 200), (["e", "f"], 201)] {
        let request = json!({ "tasks": keys.map(item) });
        world.post("/tasks/batch", &request).await.ok(status);
    }
    assert_eq!(world.get("/tasks").await.ok(200)["total"], 3);
}

async fn the_key_header_is_refused(world: World) {
    let bearer = format!("Bearer {}", world.admin);
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "one")];
    let batches = [
        ("/workflows/batch", json!({ "workflows": [{ "kind": "k" }] })),
        ("/tasks/batch", json!({ "tasks": [{ "task_type": "t" }] })),
    ];
    for (path, body) in batches {
        let path = format!("/api/tenants/one{path}");
        let refused =
            world.http.send("POST", &path, &headers, body.to_string()).await.refused(400, "FLV0008");
        assert!(refused["error"].as_str().unwrap().contains("Idempotency-Key"), "{refused}");
    }
    assert_eq!(world.executions().await, 0);
    assert_eq!(world.get("/tasks").await.ok(200)["total"], 0);
}
