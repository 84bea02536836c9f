//! The limit on requests per second of a tenant.

use std::time::Instant;

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use futures::future::join_all;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::common::Database;
use crate::http::{Answer, Http};
use crate::worker::{KIND, PATIENCE, Worker, signed};
use crate::world::{World, complete_next, on_both};

const PATH: &str = "/workflows/order/trigger";

on_both!(
    one_request_too_many,
    every_route_counts_but_the_one_that_sets_the_limit,
    starts_over_grpc_count_and_workers_do_not,
    never_more_than_the_bucket_gives,
);

/// Repeats a request until it is refused. With a limit of one per second, that is soon.
async fn until_refused(world: &World, method: &str, path: &str, body: &Value) -> Answer {
    let until = Instant::now() + PATIENCE;
    loop {
        let path = format!("/api/tenants/one{path}");
        let answer = world.call(&world.admin, method, &path, &body.to_string()).await;
        if answer.status == 429 {
            return answer;
        }
        assert!(Instant::now() < until, "never refused: {answer:?}");
    }
}

async fn one_request_too_many(world: World) {
    world.get("/tasks").await.ok(200);
    world.limit(&json!({ "requestsPerSecond": 1 })).await;
    // A repeated key counts as a request too.
    let keyed = json!({ "idempotencyKey": "key" });
    let answer = until_refused(&world, "POST", PATH, &keyed).await;
    let expected = json!({
        "error": "RATE_LIMIT_EXCEEDED",
        "message": "Request rate limit exceeded",
        "quotaType": "requests_per_second",
        "limit": 1,
        "code": "FLV0076",
        "link": "https://github.com/flovyn/flovyn/blob/main/docs/errors/FLV0076.md",
    });
    assert_eq!((answer.status, answer.retry_after(), &answer.body), (429, Some(1), &expected));
    // Another tenant is not affected.
    let other = world.token(&["two"], "admin");
    for _ in 0..20 {
        world.call(&other, "GET", "/api/tenants/two/tasks", "").await.ok(200);
    }
    // Without the limit, nothing is refused any more.
    world.limit(&json!({})).await;
    for _ in 0..20 {
        world.post(PATH, &keyed).await.ok(200);
    }
}

async fn every_route_counts_but_the_one_that_sets_the_limit(world: World) {
    let limits = json!({ "requestsPerSecond": 1 });
    world.limit(&limits).await;
    let none = json!({});
    let routes = [
        ("GET", ""),
        ("GET", "/tasks"),
        ("GET", "/quota"),
        ("POST", "/tasks"),
        ("DELETE", "/worker-tokens/x"),
    ];
    for (method, path) in routes {
        until_refused(&world, method, path, &none).await.refused(429, "FLV0076");
    }
    for _ in 0..20 {
        world.limit(&limits).await;
    }
    // A caller without access does not use up the limit.
    let stranger = world.token(&["two"], "admin");
    for _ in 0..20 {
        world.call(&stranger, "GET", "/api/tenants/one/tasks", "").await.refused(404, "FLV0030");
        world.call("junk", "GET", "/api/tenants/one/tasks", "").await.refused(401, "FLV0080");
    }
}

#[track_caller]
fn exhausted(status: &Status) {
    let code = status.metadata().get("flovyn-error-code").map(|value| value.to_str().unwrap());
    assert_eq!((status.code(), code), (Code::ResourceExhausted, Some("FLV0076")), "{status:?}");
}

async fn starts_over_grpc_count_and_workers_do_not(world: World) {
    let id = world.start_order().await;
    world.limit(&json!({ "requestsPerSecond": 1 })).await;
    let mut dispatch = WorkflowDispatchClient::new(world.server.channel());
    let mut client = WorkflowClientClient::new(world.server.channel());
    let mut tasks = TaskExecutionClient::new(world.server.channel());
    let until = Instant::now() + PATIENCE;
    // An invalid request counts too, because it is counted before it is checked.
    macro_rules! until_refused {
        ($call:expr) => {
            loop {
                match $call.await {
                    Err(status) if status.code() == Code::ResourceExhausted => break exhausted(&status),
                    _ => assert!(Instant::now() < until, "never refused"),
                }
            }
        };
    }
    until_refused!(dispatch.start_workflow(signed(v1::StartWorkflowRequest::default())));
    until_refused!(
        dispatch.signal_with_start_workflow(signed(v1::SignalWithStartWorkflowRequest::default()))
    );
    until_refused!(client.start_workflows(signed(v1::StartWorkflowsRequest::default())));
    until_refused!(client.submit_tasks(signed(v1::SubmitTasksRequest::default())));
    until_refused!(tasks.submit_task(signed(v1::SubmitTaskRequest::default())));
    let mut worker = Worker::connect(&world.server).await;
    complete_next(&mut worker, "1").await;
    for _ in 0..20 {
        let poll = v1::PollRequest {
            worker_id: "plain".into(),
            workflow_capabilities: vec![KIND.into()],
            ..v1::PollRequest::default()
        };
        // A poll with a timeout of zero.
        dispatch.poll_workflow(signed(v1::PollRequest { timeout_seconds: 0, ..poll })).await.unwrap();
        let get = v1::GetExecutionRequest {
            workflow_execution_id: id.clone(),
            ..v1::GetExecutionRequest::default()
        };
        client.get_execution(signed(get)).await.unwrap();
    }
}

/// Sends many requests at once, in waves, over these servers. The number of accepted requests must not exceed what the
/// bucket can have granted.
async fn flood(world: &World, servers: &[Http]) {
    let (rate, burst) = (40, 15);
    let bearer = format!("Bearer {}", world.admin);
    let headers = [("authorization", bearer.as_str())];
    let mut let_in = 0;
    let begun = Instant::now();
    for _ in 0..12 {
        let calls = (0..40).map(|number| {
            servers[number % servers.len()].send("GET", "/api/tenants/one/queues", &headers, "")
        });
        for answer in join_all(calls).await {
            match answer.status {
                200 => let_in += 1,
                _ => assert_eq!(answer.refused(429, "FLV0076")["limit"], rate),
            }
        }
    }
    let passed_ms = i64::try_from(begun.elapsed().as_millis()).unwrap() + 1;
    let given = burst + rate * passed_ms / 1_000;
    assert!((burst..=given).contains(&let_in), "{let_in} were accepted, at most {given} are allowed");
}

const FLOODED: &str = r#"{"requestsPerSecond":40,"burst":15}"#;

async fn never_more_than_the_bucket_gives(world: World) {
    world.limit(&serde_json::from_str(FLOODED).unwrap()).await;
    flood(&world, std::slice::from_ref(&world.http)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_have_one_bucket() {
    let world = World::start(Database::Postgres).await;
    world.limit(&serde_json::from_str(FLOODED).unwrap()).await;
    let second = world.second_server().await;
    flood(&world, &[world.http.clone(), Http::new(second.http_addr())]).await;
    second.stop().await;
}
