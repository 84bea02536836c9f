//! The audit log: what it records, who may read it, how it is filtered.

use std::time::{SystemTime, UNIX_EPOCH};

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::worker::{Worker, signed};
use crate::world::{World, complete_next, fail_next, fields, on_both, text};

on_both!(over_rest, over_grpc, filters_and_pages, tenants, only_administrators);

async fn entries(world: &World, query: &str) -> Vec<Value> {
    let body = world.get(&format!("/audit{query}")).await.ok(200);
    body["entries"].as_array().unwrap().clone()
}

/// Action and target of every entry, oldest first.
async fn log(world: &World) -> Vec<(String, String)> {
    let mut log: Vec<_> = entries(world, "?limit=100")
        .await
        .iter()
        .map(|entry| (text(&entry["action"]), text(&entry["target"])))
        .collect();
    log.reverse();
    log
}

async fn over_rest(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let one = world.start_order().await;
    let path = format!("/workflow-executions/{one}");
    let signal = json!({ "name": "paid", "value": { "card": "4111-1111" } });
    world.post(&format!("{path}/signal"), &signal).await.ok(202);
    next_millisecond().await;
    fail_next(&mut worker).await;
    world.post(&format!("{path}/cancel"), &json!({})).await.refused(409, "FLV0051");
    world.post(&format!("{path}/retry"), &json!({})).await.ok(201);
    next_millisecond().await;
    complete_next(&mut worker, "1").await;
    assert_eq!(world.delete(&path).await.status, 204);
    next_millisecond().await;
    world.delete(&path).await.refused(404, "FLV0031");

    let two =
        text(&world.post("/workflows/unknown/trigger", &json!({})).await.ok(201)["workflowExecutionId"]);
    world
        .post(&format!("/workflow-executions/{two}/cancel"), &json!({ "reason": "wrong order" }))
        .await
        .ok(200);
    next_millisecond().await;
    let three =
        text(&world.post("/workflows/unknown/trigger", &json!({})).await.ok(201)["workflowExecutionId"]);
    world.post(&format!("/workflow-executions/{three}/terminate"), &json!({})).await.ok(200);
    next_millisecond().await;
    let task = text(&world.post("/tasks", &json!({ "task_type": "unknown" })).await.ok(201)["id"]);
    assert_eq!(world.delete(&format!("/tasks/{task}")).await.status, 204);
    next_millisecond().await;
    for verb in ["pause", "pause", "resume", "resume"] {
        assert_eq!(world.post(&format!("/queues/slow/{verb}"), &json!({})).await.status, 204);
        next_millisecond().await;
    }
    let made = world.post("/worker-tokens", &json!({ "name": "ci" })).await.ok(201);
    let token = text(&made["id"]);
    next_millisecond().await;
    for _ in 0..2 {
        assert_eq!(world.delete(&format!("/worker-tokens/{token}")).await.status, 204);
    }
    let expected = [
        ("workflow.signal", &one),
        ("workflow.retry", &one),
        ("workflow.delete", &one),
        ("workflow.cancel", &two),
        ("workflow.terminate", &three),
        ("task.cancel", &task),
        ("queue.pause", &"slow".to_owned()),
        ("queue.resume", &"slow".to_owned()),
        ("worker_token.create", &token),
        ("worker_token.revoke", &token),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(action, target)| ((*action).to_owned(), (*target).clone())).collect();
    assert_eq!(log(&world).await, expected);

    let all = entries(&world, "").await;
    for entry in &all {
        assert_eq!(entry["actor"], json!({ "subject": "somebody", "credential": "jwt" }));
        assert_eq!(Uuid::parse_str(entry["id"].as_str().unwrap()).unwrap().get_version_num(), 7);
        assert!(entry["time"].as_str().unwrap().ends_with('Z'), "{entry}");
    }
    let cancel = all.iter().find(|entry| entry["action"] == "workflow.cancel").unwrap();
    assert_eq!(
        cancel["details"],
        json!({ "reason": "wrong order", "cascade": cancel["details"]["cascade"] })
    );
    assert_eq!(fields(cancel), ["action", "actor", "details", "id", "target", "time"]);
    let shown = json!(all).to_string();
    assert!(!shown.contains("4111-1111") && !shown.contains(made["token"].as_str().unwrap()), "{shown}");
}

async fn over_grpc(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    // Actions of a worker as a worker are not audited: it completes this execution, after a start that is not audited
    // either.
    complete_next(&mut worker, "1").await;
    assert_eq!(log(&world).await, []);
    let (one, two) = (
        world.post("/workflows/unknown/trigger", &json!({})).await,
        world.post("/workflows/unknown/trigger", &json!({})).await,
    );
    let (one, two) = (text(&one.ok(201)["workflowExecutionId"]), text(&two.ok(201)["workflowExecutionId"]));
    let mut client = WorkflowClientClient::new(world.server.channel());
    let cancel = |id: &String| v1::CancelExecutionRequest {
        workflow_execution_id: id.clone(),
        ..v1::CancelExecutionRequest::default()
    };
    let mut as_user = tonic::Request::new(cancel(&one));
    let bearer = format!("Bearer {}", world.token(&["one"], "operator"));
    as_user.metadata_mut().insert("authorization", bearer.parse().unwrap());
    client.cancel_execution(as_user).await.unwrap();
    next_millisecond().await;
    client.cancel_execution(signed(cancel(&two))).await.unwrap();
    client.cancel_execution(signed(cancel(&id))).await.unwrap_err();
    assert_eq!(log(&world).await, [("workflow.cancel".to_owned(), one), ("workflow.cancel".to_owned(), two)]);
    let entries = entries(&world, "").await;
    let token = world.get("/worker-tokens").await.ok(200)["workerTokens"][0]["id"].clone();
    assert_eq!(entries[0]["actor"], json!({ "subject": token, "credential": "worker_token" }));
    assert_eq!(entries[1]["actor"], json!({ "subject": "somebody", "credential": "jwt" }));
}

/// Entries of the same millisecond are in no particular order.
async fn next_millisecond() {
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let begin = now_ms();
    while now_ms() <= begin + 1 {
        tokio::task::yield_now().await;
    }
}

async fn filters_and_pages(world: World) {
    let other = world.jwt.sign("somebody else", &["one"], "operator", 1, crate::world::FAR).unwrap();
    for number in 0..5 {
        for (token, verb) in [(&world.admin, "pause"), (&other, "resume")] {
            let path = format!("/api/tenants/one/queues/q{number}/{verb}");
            assert_eq!(world.call(token, "POST", &path, "").await.status, 204);
            next_millisecond().await;
        }
    }
    let names = |entries: &[Value]| {
        entries
            .iter()
            .map(|entry| format!("{} {}", text(&entry["action"]), text(&entry["target"])))
            .collect::<Vec<_>>()
    };
    let newest_first: Vec<String> =
        (0..5).rev().flat_map(|n| [format!("queue.resume q{n}"), format!("queue.pause q{n}")]).collect();
    assert_eq!(names(&entries(&world, "").await), newest_first);
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let body = world.get(&format!("/audit?limit=3&cursor={cursor}")).await.ok(200);
        paged.extend(names(body["entries"].as_array().unwrap()));
        match body["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(paged, newest_first);
    assert_eq!(entries(&world, "?actor=somebody").await.len(), 5);
    assert_eq!(entries(&world, "?actor=somebody%20else&action=queue.resume").await.len(), 5);
    assert_eq!(entries(&world, "?actor=somebody%20else&action=queue.pause").await.len(), 0);
    assert_eq!(names(&entries(&world, "?target=q3").await), ["queue.resume q3", "queue.pause q3"]);
    assert_eq!(names(&entries(&world, "?target=q3&action=queue.pause").await), ["queue.pause q3"]);
    assert_eq!(entries(&world, "?target=q9").await.len(), 0);
    for (query, code) in [
        ("?action=nothing", "FLV0011"),
        ("?limit=0", "FLV0012"),
        ("?limit=101", "FLV0012"),
        ("?cursor=x", "FLV0012"),
        ("?actr=x", "FLV0011"),
        ("?target=%00", "FLV0002"),
    ] {
        world.get(&format!("/audit{query}")).await.refused(400, code);
    }
}

async fn tenants(world: World) {
    let root = world.token(&["*"], "server-admin");
    let made = world.call(&root, "POST", "/api/tenants", r#"{"slug":"new"}"#).await.ok(201);
    world.call(&root, "POST", "/api/tenants", r#"{"slug":"new"}"#).await.refused(409, "FLV0040");
    let body = world.call(&root, "GET", "/api/tenants/new/audit", "").await.ok(200);
    let list = body["entries"].as_array().unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!((&list[0]["action"], &list[0]["target"]), (&json!("tenant.create"), &made["id"]));
    assert_eq!(list[0]["details"], json!({ "slug": "new" }));
    assert_eq!(entries(&world, "").await.len(), 0, "a tenant does not see changes in another tenant");
}

async fn only_administrators(world: World) {
    for (role, status) in [("viewer", 403), ("operator", 403), ("admin", 200)] {
        let token = world.token(&["one"], role);
        assert_eq!(world.call(&token, "GET", "/api/tenants/one/audit", "").await.status, status, "{role}");
    }
}
