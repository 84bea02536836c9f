//! Standalone tasks: create, list, cancel.

use serde_json::{Value, json};

use crate::common::TENANT;
use crate::world::{World, fields, in_a_year, on_both, text};

on_both!(creating, listing, cancelling, keys, names_in_either_case);

async fn creating(world: World) {
    let request = json!({
        "task_type": "send-email",
        "input": { "to": "user@example.com", "subject": "Hello" },
        "queue": "default",
        "max_retries": 3,
        "scheduled_at": in_a_year(),
    });
    let body = world.post("/tasks", &request).await.ok(201);
    let expected = json!({
        "id": body["id"],
        "tenant_id": TENANT.to_string(),
        "task_type": "send-email",
        "status": "PENDING",
        "input": request["input"],
        "queue": "default",
        "execution_count": 0,
        "max_retries": 3,
        "progress": 0.0,
        "created_at": body["created_at"],
        "scheduled_at": request["scheduled_at"],
    });
    assert_eq!(body, expected);
    let mut found = world.get(&format!("/tasks/{}", text(&body["id"]))).await.ok(200);
    assert_eq!(found["waiting_on"]["kind"], "DELAYED_START", "{found}");
    found.as_object_mut().unwrap().remove("waiting_on");
    assert_eq!(found, expected);
    assert!(
        !fields(&world.post("/tasks", &json!({ "task_type": "t" })).await.ok(201)).contains(&"scheduled_at")
    );
}

async fn listing(world: World) {
    let task = |kind: &str, queue: &str| json!({ "task_type": kind, "queue": queue });
    let items: Vec<Value> =
        (0..5).map(|n| task(if n < 3 { "a" } else { "b" }, if n % 2 == 0 { "q" } else { "r" })).collect();
    let made = world.post("/tasks/batch", &json!({ "tasks": items })).await.ok(201);
    world.delete(&format!("/tasks/{}", text(&made["tasks"][0]["id"]))).await;
    let cases = [
        ("", 5),
        ("task_type=a", 3),
        ("queue=q", 3),
        ("task_type=b&queue=r", 1),
        ("status=PENDING", 4),
        ("status=CANCELLED", 1),
        ("status=COMPLETED", 0),
        ("taskType=a&taskQueue=r", 1),
    ];
    for (query, total) in cases {
        for base in ["/tasks", "/task-executions"] {
            let body = world.get(&format!("{base}?{query}")).await.ok(200);
            assert_eq!(fields(&body), ["limit", "offset", "tasks", "total"], "{query}");
            assert_eq!(body["tasks"].as_array().unwrap().len(), total, "{query}");
            assert_eq!(
                (&body["total"], &body["limit"], &body["offset"]),
                (&json!(total), &json!(50), &json!(0))
            );
        }
    }
    let page = world.get("/tasks?limit=2&offset=4").await.ok(200);
    assert_eq!((page["tasks"].as_array().unwrap().len(), &page["total"]), (1, &json!(5)));
    let (mut seen, mut path) = (0, "/tasks?limit=2".to_owned());
    loop {
        let body = world.get(&path).await.ok(200);
        seen += body["tasks"].as_array().unwrap().len();
        let Some(cursor) = body["next_cursor"].as_str() else { break };
        path = format!("/tasks?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, 5);
    for query in
        ["limit=101", "limit=0", "limit=many", "offset=10001", "status=NEVER", "cursor=x", "queue=%00"]
    {
        let answer = world.get(&format!("/tasks?{query}")).await;
        assert_eq!((answer.status, answer.body["code"].is_string()), (400, true), "{query}: {}", answer.text);
    }
}

async fn cancelling(world: World) {
    let id = text(&world.post("/tasks", &json!({ "task_type": "t" })).await.ok(201)["id"]);
    let path = format!("/tasks/{id}");
    let answer = world.delete(&path).await;
    assert_eq!((answer.status, answer.text.as_str()), (204, ""));
    assert_eq!(world.get(&path).await.ok(200)["status"], "CANCELLED");
    world.delete(&path).await.refused(409, "FLV0056");
    let listed = world.get("/tasks?status=CANCELLED").await.ok(200);
    assert_eq!(listed["tasks"][0]["id"], json!(id));
}

async fn keys(world: World) {
    let request = json!({ "task_type": "t", "idempotency_key": "key", "idempotency_key_ttl": "1h" });
    let first = world.post("/tasks", &request).await.ok(201);
    assert_eq!(world.post("/tasks", &request).await.ok(200)["id"], first["id"]);
    let other = json!({ "task_type": "u", "idempotency_key": "key" });
    world.post("/tasks", &other).await.refused(409, "FLV0042");
    // A cancelled task frees its key.
    world.delete(&format!("/tasks/{}", text(&first["id"]))).await;
    assert_ne!(world.post("/tasks", &request).await.ok(201)["id"], first["id"]);
    let wrong = json!({ "task_type": "t", "idempotency_key": "k", "idempotency_key_ttl": "2x" });
    world.post("/tasks", &wrong).await.refused(400, "FLV0005");
}

async fn names_in_either_case(world: World) {
    let request = json!({
        "taskType": "t", "taskQueue": "q", "maxRetries": 2, "scheduledAt": in_a_year(),
        "prioritySeconds": -1, "timeoutMs": 1000, "idempotencyKey": "k", "idempotencyKeyTTL": "5m",
        "retryPolicy": { "initialMs": 10, "factor": 2.0, "capMs": 100 },
    });
    let body = world.post("/task-executions", &request).await.ok(201);
    assert_eq!((&body["queue"], &body["max_retries"], &body["input"]), (&json!("q"), &json!(2), &json!({})));
    world.post("/tasks", &json!({ "kind": "t" })).await.ok(201);
    assert!(
        world.post("/tasks", &json!({ "task_type": "t", "input": null })).await.ok(201)["input"].is_null()
    );
}
