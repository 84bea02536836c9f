//! Triggers a workflow: the answer, field by field.

use serde_json::json;

use crate::common::TENANT;
use crate::worker::{KIND, Worker};
use crate::world::{World, complete_next, fields, in_a_year, on_both, text};

on_both!(
    success,
    without_a_body,
    invalid_ttl,
    tenant_not_found,
    kind_in_the_body,
    names_in_either_case,
    waiting_for_the_result,
    an_unknown_kind_waits_and_says_so,
);

async fn success(world: World) {
    let request = json!({
        "input": { "orderId": "ORDER-12345", "customerId": "CUST-789" },
        "taskQueue": "high-priority",
        "prioritySeconds": 0,
        "version": "1.0.0",
        "idempotencyKey": "order-ORDER-12345-process",
        "idempotencyKeyTTL": "1h",
        "labels": { "environment": "production", "source": "webhook" },
    });
    let body = world.post("/workflows/order-processing/trigger", &request).await.ok(201);
    let id = text(&body["workflowExecutionId"]);
    let own = format!("/api/tenants/one/workflow-executions/{id}");
    let expected = json!({
        "workflowExecutionId": id,
        "status": "PENDING",
        "kind": "order-processing",
        "createdAt": body["createdAt"],
        "links": { "self": own, "events": format!("{own}/events") },
        "idempotencyKeyUsed": true,
        "idempotencyKeyNew": true,
    });
    assert_eq!(body, expected);
    assert!(text(&body["createdAt"]).ends_with('Z'));
    // The links lead to the started execution.
    let found = world.call(&world.admin, "GET", &own, "").await.ok(200);
    assert_eq!(found["id"], json!(id));
    for name in ["input", "taskQueue", "prioritySeconds", "version", "idempotencyKey", "labels"] {
        assert_eq!(found[name], request[name], "{name}");
    }
    let events = world.call(&world.admin, "GET", &text(&body["links"]["events"]), "").await.ok(200);
    assert_eq!(events["events"][0]["eventType"], "WORKFLOW_STARTED");
    let again = world.post("/workflows/order-processing/trigger", &request).await.ok(200);
    assert_eq!(fields(&again), fields(&body));
    assert_eq!(again["createdAt"], body["createdAt"]);
}

async fn without_a_body(world: World) {
    // The tenant by id and with the alias; every field has its default.
    for path in [format!("/api/tenants/{TENANT}"), "/api/orgs/one".to_owned()] {
        let path = format!("{path}/workflows/{KIND}/trigger");
        let body = world.call(&world.admin, "POST", &path, "").await.ok(201);
        assert_eq!((&body["idempotencyKeyUsed"], &body["idempotencyKeyNew"]), (&json!(false), &json!(true)));
        let found = world.call(&world.admin, "GET", &text(&body["links"]["self"]), "").await.ok(200);
        assert_eq!((&found["input"], &found["taskQueue"]), (&json!({}), &json!("default")));
    }
    // Null is a value.
    let body = world.post("/workflows/order/trigger", &json!({ "input": null })).await.ok(201);
    let found = world.call(&world.admin, "GET", &text(&body["links"]["self"]), "").await.ok(200);
    assert!(found.as_object().unwrap().contains_key("input") && found["input"].is_null(), "{found}");
}

async fn invalid_ttl(world: World) {
    for ttl in ["2x", "", "s", "1.5h", "-1s", "1h "] {
        let request = json!({ "idempotencyKey": "key", "idempotencyKeyTTL": ttl });
        let body = world.post("/workflows/order/trigger", &request).await.refused(400, "FLV0005");
        let error = format!("Invalid idempotencyKeyTTL format: '{ttl}'. Expected: 30s, 5m, 2h, 7d");
        assert_eq!(body["error"], json!(error));
    }
    // Shorter than a second, or longer than thirty days.
    for ttl in ["0s", "31d", "2592001s", "9999999999999999d"] {
        let request = json!({ "idempotencyKey": "key", "idempotencyKeyTTL": ttl });
        world.post("/workflows/order/trigger", &request).await.refused(400, "FLV0005");
    }
    assert_eq!(world.executions().await, 0);
    let request = json!({ "idempotencyKey": "key", "idempotencyKeyTTL": "30d" });
    world.post("/workflows/order/trigger", &request).await.ok(201);
}

async fn tenant_not_found(world: World) {
    let all = world.token(&["*"], "admin");
    for token in [&world.admin, &all] {
        let path = "/api/tenants/unknown-tenant/workflows/order/trigger";
        let body = world.call(token, "POST", path, "{}").await.refused(404, "FLV0030");
        assert_eq!(body["error"], "Tenant 'unknown-tenant' not found");
    }
    let path = "/api/tenants/two/workflows/order/trigger";
    let body = world.call(&world.admin, "POST", path, "{}").await.refused(404, "FLV0030");
    assert_eq!(body["error"], "Tenant 'two' not found");
    let nobody = world.http.send("POST", path, &[], "{}").await.refused(401, "FLV0080");
    assert_eq!(nobody["error"], "Missing or invalid authorization token");
}

async fn kind_in_the_body(world: World) {
    let body = world.post("/workflow-executions", &json!({ "kind": "order", "queue": "q" })).await.ok(201);
    assert_eq!(body["kind"], "order");
    world.post("/workflow-executions", &json!({})).await.refused(400, "FLV0003");
    world.post("/workflows/order/trigger", &json!({ "kind": "other" })).await.refused(400, "FLV0003");
    world.post("/workflows/order/trigger", &json!({ "kind": "order" })).await.ok(201);
}

async fn names_in_either_case(world: World) {
    let request = json!({
        "task_queue": "q", "priority_seconds": -5, "idempotency_key": "k", "idempotency_key_ttl": "5m",
        "metadata": { "a": "b" }, "scheduled_at": in_a_year(), "execution_timeout": "1h",
    });
    let body = world.post("/workflows/order/trigger", &request).await.ok(201);
    let found = world.call(&world.admin, "GET", &text(&body["links"]["self"]), "").await.ok(200);
    assert_eq!(found["taskQueue"], "q");
    assert_eq!(found["prioritySeconds"], -5);
    assert_eq!(found["labels"], json!({ "a": "b" }));
    assert_eq!(found["scheduledAt"], request["scheduled_at"]);
    let request = json!({ "idempotencyKey": "k2", "idempotencyKeyTtl": "5m" });
    world.post("/workflows/order/trigger", &request).await.ok(201);
}

async fn waiting_for_the_result(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let request = json!({ "idempotencyKey": "key" });
    let waits = world.post("/workflows/order/trigger?wait=30s", &request);
    let (body, ()) = tokio::join!(waits, complete_next(&mut worker, r#"{"paid":true}"#));
    let body = body.ok(201);
    assert_eq!(body["status"], "COMPLETED");
    assert_eq!(body["execution"]["output"], json!({ "paid": true }));
    // A finished execution is returned at once; an open one is returned in its current state after the wait.
    let again = world.post("/workflows/order/trigger?wait=30s", &request).await.ok(200);
    assert_eq!(again["execution"]["output"], json!({ "paid": true }));
    let body = world.post("/workflows/other/trigger?wait=0s", &json!({})).await.ok(201);
    assert_eq!(body["execution"]["status"], "PENDING");
    for wait in ["301s", "soon", "-1s"] {
        let path = format!("/workflows/order/trigger?wait={wait}");
        world.post(&path, &json!({})).await.refused(400, "FLV0006");
    }
}

async fn an_unknown_kind_waits_and_says_so(world: World) {
    let body = world.post("/workflows/nobody-has-it/trigger", &json!({})).await.ok(201);
    let found = world.call(&world.admin, "GET", &text(&body["links"]["self"]), "").await.ok(200);
    assert_eq!(found["waitingOn"][0]["kind"], "NO_WORKER", "{found}");
}
