//! Limits on the number of workflows that a tenant may start per month and have open at once.

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use futures::future::join_all;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::app::{command, complete};
use crate::common::Database;
use crate::http::{Answer, Http};
use crate::worker::{KIND, Worker, signed};
use crate::world::{World, complete_next, fail_next, on_both, text};

const PATH: &str = "/workflows/order/trigger";

on_both!(
    limits_are_set_and_shown,
    a_month_that_is_used_up,
    a_place_that_becomes_free,
    a_batch_is_refused_whole,
    repeated_keys_cost_nothing,
    retries_and_signals_with_start,
    starts_over_grpc,
    children_are_free,
    one_tenant_alone,
);

/// Checks the answer to a start beyond the limit, field by field.
#[track_caller]
fn refused(answer: Answer, error: &str, message: &str, quota: &str, counts: (i64, i64)) {
    let code = if quota == "monthly_workflow_runs" { "FLV0028" } else { "FLV0029" };
    let expected = json!({
        "error": error,
        "message": message,
        "quotaType": quota,
        "limit": counts.0,
        "current": counts.1,
        "code": code,
        "link": format!("https://github.com/flovyn/flovyn/blob/main/docs/errors/{code}.md"),
    });
    assert_eq!((answer.status, &answer.body), (429, &expected));
}

#[track_caller]
fn no_place(answer: Answer, limit: i64, current: i64) {
    assert_eq!(answer.retry_after(), Some(1), "{}", answer.text);
    let message = "Concurrent workflow quota exceeded";
    refused(answer, "CONCURRENT_QUOTA_EXCEEDED", message, "concurrent_workflows", (limit, current));
}

#[track_caller]
fn no_run(answer: Answer, limit: i64, current: i64) {
    let message = "Monthly workflow run quota exceeded";
    refused(answer, "MONTHLY_QUOTA_EXCEEDED", message, "monthly_workflow_runs", (limit, current));
}

/// The runs of the month and the open workflows.
async fn counts(world: &World) -> (i64, i64) {
    let current = world.get("/quota").await.ok(200)["current"].take();
    (current["monthlyWorkflowRuns"].as_i64().unwrap(), current["concurrentWorkflows"].as_i64().unwrap())
}

async fn limits_are_set_and_shown(world: World) {
    let none = json!({
        "monthlyWorkflowRuns": null,
        "concurrentWorkflows": null,
        "requestsPerSecond": null,
        "burst": null,
        "current": null,
    });
    assert_eq!(world.get("/quota").await.ok(200), none);
    let limits =
        json!({ "monthlyWorkflowRuns": 1_000, "concurrent_workflows": 10, "requestsPerSecond": 500 });
    let set = world.limit(&limits).await;
    let end = text(&set["current"]["monthEndsAt"]);
    assert!(end.ends_with("-01T00:00:00Z"), "{end}");
    let expected = json!({
        "monthlyWorkflowRuns": 1_000,
        "concurrentWorkflows": 10,
        "requestsPerSecond": 500,
        "burst": 500,
        "current": { "monthlyWorkflowRuns": 0, "concurrentWorkflows": 0, "monthEndsAt": end },
    });
    assert_eq!(set, expected);
    world.start_order().await;
    let viewer = world.token(&["one"], "viewer");
    let shown = world.call(&viewer, "GET", "/api/orgs/one/quota", "").await.ok(200);
    assert_eq!(shown["current"]["monthlyWorkflowRuns"], 1);
    // A tenant's own users cannot set its quota.
    for role in ["viewer", "operator", "admin"] {
        let token = world.token(&["one"], role);
        world.call(&token, "PUT", "/api/tenants/one/quota", "{}").await.refused(403, "FLV0081");
    }
    let root = world.token(&["*"], "server-admin");
    let wrong = [
        ("", "FLV0001"),
        ("[]", "FLV0001"),
        (r#"{"monthlyWorkflowRuns":"many"}"#, "FLV0001"),
        (r#"{"monthlyWorkflowRuns":1.5}"#, "FLV0001"),
        (r#"{"perDay":1}"#, "FLV0001"),
        (r#"{"monthlyWorkflowRuns":-1}"#, "FLV0011"),
        (r#"{"concurrentWorkflows":1000000000001}"#, "FLV0011"),
        (r#"{"requestsPerSecond":0}"#, "FLV0011"),
        (r#"{"burst":5}"#, "FLV0011"),
    ];
    for (body, code) in wrong {
        world.call(&root, "PUT", "/api/tenants/one/quota", body).await.refused(400, code);
    }
    assert_eq!(world.get("/quota").await.ok(200)["monthlyWorkflowRuns"], 1_000);
}

async fn a_month_that_is_used_up(world: World) {
    let end = text(&world.limit(&json!({ "monthlyWorkflowRuns": 2 })).await["current"]["monthEndsAt"]);
    let end = end.parse::<jiff::Timestamp>().unwrap().as_second();
    for _ in 0..2 {
        world.post(PATH, &json!({})).await.ok(201);
    }
    let before = jiff::Timestamp::now().as_second();
    let answer = world.post(PATH, &json!({})).await;
    let left = answer.retry_after().unwrap();
    assert!(left <= end - before && left >= end - jiff::Timestamp::now().as_second() - 1, "{left}");
    no_run(answer, 2, 2);
    no_run(world.post("/workflow-executions", &json!({ "kind": KIND })).await, 2, 2);
    assert_eq!(world.executions().await, 2);
    world.limit(&json!({ "monthlyWorkflowRuns": 3 })).await;
    world.post(PATH, &json!({})).await.ok(201);
    no_run(world.post(PATH, &json!({})).await, 3, 3);
}

async fn a_place_that_becomes_free(world: World) {
    world.limit(&json!({ "concurrentWorkflows": 1 })).await;
    let mut worker = Worker::connect(&world.server).await;
    for way in ["completed", "failed", "cancelled", "terminated"] {
        let id = world.start_order().await;
        no_place(world.post(PATH, &json!({})).await, 1, 1);
        let act = |what: &str| format!("/workflow-executions/{id}/{what}");
        match way {
            "completed" => complete_next(&mut worker, "1").await,
            "failed" => fail_next(&mut worker).await,
            "cancelled" => {
                // It runs, so it is asked to stop and ends by itself.
                let running = worker.activation().await;
                worker.submit(&running, Vec::new(), v1::WorkflowStatus::Suspended).await;
                world.post(&act("cancel"), &json!({})).await.ok(200);
                let asked = worker.activation().await;
                no_place(world.post(PATH, &json!({})).await, 1, 1);
                let data = v1::CancelWorkflowCommand { reason: "asked to".into() };
                let data = v1::workflow_command::CommandData::CancelWorkflow(data);
                let stop = command(v1::CommandType::CancelWorkflow, data);
                worker.submit(&asked, vec![stop], v1::WorkflowStatus::Cancelled).await;
            }
            _ => {
                worker.activation().await;
                world.post(&act("terminate"), &json!({})).await.ok(200);
            }
        }
        assert_eq!(counts(&world).await.1, 0, "{way}");
    }
    assert_eq!(counts(&world).await.0, 4);
}

async fn a_batch_is_refused_whole(world: World) {
    let batch = |count: usize| json!({ "workflows": vec![json!({ "kind": KIND }); count] });
    world.limit(&json!({ "monthlyWorkflowRuns": 6, "concurrentWorkflows": 5 })).await;
    world.post("/workflows/batch", &batch(3)).await.ok(201);
    no_place(world.post("/workflows/batch", &batch(3)).await, 5, 3);
    world.limit(&json!({ "monthlyWorkflowRuns": 6 })).await;
    no_run(world.post("/workflows/batch", &batch(4)).await, 6, 3);
    assert_eq!((world.executions().await, counts(&world).await), (3, (3, 3)));
    world.post("/workflows/batch", &batch(3)).await.ok(201);
    assert_eq!((world.executions().await, counts(&world).await), (6, (6, 6)));
}

async fn repeated_keys_cost_nothing(world: World) {
    world.limit(&json!({ "monthlyWorkflowRuns": 1, "concurrentWorkflows": 1 })).await;
    let keyed = json!({ "idempotencyKey": "key" });
    world.post(PATH, &keyed).await.ok(201);
    for _ in 0..3 {
        world.post(PATH, &keyed).await.ok(200);
    }
    assert_eq!(counts(&world).await, (1, 1));
    no_run(world.post(PATH, &json!({ "idempotencyKey": "other" })).await, 1, 1);
}

async fn retries_and_signals_with_start(world: World) {
    let id = world.start_order().await;
    world.post(&format!("/workflow-executions/{id}/terminate"), &json!({})).await.ok(200);
    world.limit(&json!({ "concurrentWorkflows": 1 })).await;
    let retry = format!("/workflow-executions/{id}/retry");
    let second = text(&world.post(&retry, &json!({})).await.ok(201)["workflowExecutionId"]);
    no_place(world.post(&retry, &json!({})).await, 1, 1);
    let signal = json!({ "signalName": "go", "workflow": { "kind": KIND, "idempotencyKey": "key" } });
    no_place(world.post("/workflow-executions/signal-with-start", &signal).await, 1, 1);
    world.post(&format!("/workflow-executions/{second}/terminate"), &json!({})).await.ok(200);
    world.post("/workflow-executions/signal-with-start", &signal).await.ok(201);
    // The execution exists, so a second signal starts nothing.
    world.post("/workflow-executions/signal-with-start", &signal).await.ok(200);
    assert_eq!(counts(&world).await, (2, 1));
}

#[track_caller]
fn exhausted(status: &Status, code: &str) {
    let found = status.metadata().get("flovyn-error-code").map(|value| value.to_str().unwrap());
    assert_eq!((status.code(), found), (Code::ResourceExhausted, Some(code)), "{status:?}");
}

async fn starts_over_grpc(world: World) {
    let start =
        || v1::StartWorkflowRequest { workflow_kind: KIND.into(), ..v1::StartWorkflowRequest::default() };
    let mut dispatch = WorkflowDispatchClient::new(world.server.channel());
    let mut client = WorkflowClientClient::new(world.server.channel());
    world.limit(&json!({ "concurrentWorkflows": 2 })).await;
    dispatch.start_workflow(signed(start())).await.unwrap();
    let two = v1::StartWorkflowsRequest { items: vec![start(), start()] };
    exhausted(&client.start_workflows(signed(two)).await.unwrap_err(), "FLV0029");
    let one = v1::StartWorkflowsRequest { items: vec![start()] };
    client.start_workflows(signed(one)).await.unwrap();
    exhausted(&dispatch.start_workflow(signed(start())).await.unwrap_err(), "FLV0029");
    let signal = v1::SignalWithStartWorkflowRequest {
        workflow_id: "key".into(),
        workflow_kind: KIND.into(),
        signal_name: "go".into(),
        ..v1::SignalWithStartWorkflowRequest::default()
    };
    exhausted(&dispatch.signal_with_start_workflow(signed(signal)).await.unwrap_err(), "FLV0029");
    world.limit(&json!({ "monthlyWorkflowRuns": 2 })).await;
    exhausted(&dispatch.start_workflow(signed(start())).await.unwrap_err(), "FLV0028");
    assert_eq!(counts(&world).await, (2, 2));
}

async fn children_are_free(world: World) {
    world.limit(&json!({ "monthlyWorkflowRuns": 1, "concurrentWorkflows": 1 })).await;
    let parent = world.start_order().await;
    let mut worker = Worker::connect(&world.server).await;
    let activation = worker.activation().await;
    let data = v1::ScheduleChildWorkflowCommand {
        child_execution_name: "child".into(),
        workflow_kind: Some(KIND.into()),
        child_workflow_execution_id: uuid::Uuid::new_v4().to_string(),
        ..v1::ScheduleChildWorkflowCommand::default()
    };
    let data = v1::workflow_command::CommandData::ScheduleChildWorkflow(data);
    let child = command(v1::CommandType::ScheduleChildWorkflow, data);
    worker.submit(&activation, vec![child], v1::WorkflowStatus::Suspended).await;
    assert_eq!((world.executions().await, counts(&world).await), (2, (1, 1)));
    let child = worker.activation().await;
    worker.submit(&child, vec![complete("1")], v1::WorkflowStatus::Completed).await;
    assert_eq!(counts(&world).await, (1, 1));
    world.post(&format!("/workflow-executions/{parent}/terminate"), &json!({})).await.ok(200);
    assert_eq!(counts(&world).await, (1, 0));
}

async fn one_tenant_alone(world: World) {
    world.limit(&json!({ "concurrentWorkflows": 0 })).await;
    no_place(world.post(PATH, &json!({})).await, 0, 0);
    let other = world.token(&["two"], "admin");
    world.call(&other, "POST", &format!("/api/tenants/two{PATH}"), "{}").await.ok(201);
    let shown = world.call(&other, "GET", "/api/tenants/two/quota", "").await.ok(200);
    assert_eq!(shown["current"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_starts_on_two_servers_find_ten_places() {
    let world = World::start(Database::Postgres).await;
    let second = world.second_server().await;
    world.limit(&json!({ "concurrentWorkflows": 10 })).await;
    let servers = [world.http.clone(), Http::new(second.http_addr())];
    let bearer = format!("Bearer {}", world.admin);
    let headers = [("authorization", bearer.as_str())];
    let path = format!("/api/tenants/one{PATH}");
    let calls = (0..200).map(|number| servers[number % 2].send("POST", &path, &headers, "{}"));
    let (started, left_out): (Vec<_>, Vec<_>) =
        join_all(calls).await.into_iter().partition(|answer| answer.status == 201);
    assert_eq!(started.len(), 10);
    left_out.into_iter().for_each(|answer| no_place(answer, 10, 10));
    assert_eq!((world.executions().await, counts(&world).await), (10, (10, 10)));
    second.stop().await;
}
