//! Tenants, worker tokens, queues, workers.

use flovyn_proto::v1;
use flovyn_proto::v1::worker_lifecycle_client::WorkerLifecycleClient;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use serde_json::{Value, json};
use tonic::{Code, Request};

use crate::common::TENANT;
use crate::worker::{KIND, TASK, Worker, signed};
use crate::world::{World, complete_next, on_both, text};

on_both!(tenants, worker_tokens, queues, workers_and_definitions);

async fn tenants(world: World) {
    let root = world.token(&["*"], "server-admin");
    let create = |token: String, body: Value| {
        let world = &world;
        async move { world.call(&token, "POST", "/api/tenants", &body.to_string()).await }
    };
    let body = create(root.clone(), json!({ "slug": "three", "name": "Three" })).await.ok(201);
    assert_eq!((&body["slug"], &body["name"]), (&json!("three"), &json!("Three")));
    create(root.clone(), json!({ "slug": "three" })).await.refused(409, "FLV0040");
    for slug in ["", "a b", "a/b", &"s".repeat(300)] {
        let answer = create(root.clone(), json!({ "slug": slug })).await;
        assert_eq!(
            (answer.status, answer.body["code"].is_string()),
            (400, true),
            "{slug:?}: {}",
            answer.text
        );
    }
    for role in ["viewer", "operator", "admin"] {
        let token = world.token(&["*"], role);
        create(token, json!({ "slug": "four" })).await.refused(403, "FLV0081");
    }
    for name in ["three", body["id"].as_str().unwrap()] {
        assert_eq!(world.call(&root, "GET", &format!("/api/tenants/{name}"), "").await.ok(200), body);
        world.call(&world.admin, "GET", &format!("/api/tenants/{name}"), "").await.refused(404, "FLV0030");
    }
    // A server-admin acts only for the tenants that its credential names.
    let bound = world.token(&["two"], "server-admin");
    world.call(&bound, "GET", "/api/tenants/one", "").await.refused(404, "FLV0030");
    assert_eq!(world.get("").await.ok(200)["id"], json!(TENANT.to_string()));
}

async fn start_with(world: &World, token: &str) -> Result<(), Code> {
    let start =
        v1::StartWorkflowRequest { workflow_kind: KIND.into(), ..v1::StartWorkflowRequest::default() };
    let mut request = Request::new(start);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let mut client = WorkflowDispatchClient::new(world.server.channel());
    client.start_workflow(request).await.map(|_| ()).map_err(|status| status.code())
}

async fn worker_tokens(world: World) {
    let request = json!({ "name": "ci", "expiresAt": "2096-01-15T10:00:00Z" });
    let body = world.post("/worker-tokens", &request).await.ok(201);
    let (id, token) = (text(&body["id"]), text(&body["token"]));
    assert_eq!((&body["name"], &body["expiresAt"]), (&request["name"], &request["expiresAt"]));
    assert_eq!(start_with(&world, &token).await, Ok(()));
    // The token is shown only once.
    let listed = world.get("/worker-tokens").await;
    assert!(!listed.text.contains(&token));
    let row = |body: &Value| {
        let rows = body["workerTokens"].as_array().unwrap();
        rows.iter().find(|row| row["id"] == json!(id)).unwrap().clone()
    };
    let listed = row(&listed.ok(200));
    assert!(listed.get("token").is_none() && listed.get("revokedAt").is_none(), "{listed}");
    // Worker tokens are for gRPC only.
    world.call(&token, "GET", "/api/tenants/one", "").await.refused(401, "FLV0080");
    let path = format!("/worker-tokens/{id}");
    assert_eq!(world.delete(&path).await.status, 204);
    assert_eq!(start_with(&world, &token).await, Err(Code::Unauthenticated));
    assert!(row(&world.get("/worker-tokens").await.ok(200))["revokedAt"].is_string());
    world.post("/worker-tokens", &json!({ "name": "" })).await.refused(400, "FLV0003");
    world.post("/worker-tokens", &json!({ "name": "n", "expiresAt": "soon" })).await.refused(400, "FLV0011");
    let operator = world.token(&["one"], "operator");
    for (method, below) in [("GET", ""), ("POST", ""), ("DELETE", &path[14..])] {
        let path = format!("/api/tenants/one/worker-tokens{below}");
        world.call(&operator, method, &path, "{}").await.refused(403, "FLV0081");
    }
}

async fn queues(world: World) {
    let queue =
        |body: Value| body["queues"].as_array().unwrap().iter().find(|row| row["name"] == "default").cloned();
    assert_eq!(world.post("/queues/default/pause", &json!({})).await.status, 204);
    let id = world.start_order().await;
    world.post("/tasks", &json!({ "task_type": TASK })).await.ok(201);
    let paused = queue(world.get("/queues").await.ok(200)).unwrap();
    assert_eq!(paused["paused"], json!(true));
    let found = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
    assert_eq!(found["waitingOn"][0]["kind"], "QUEUE_PAUSED", "{found}");
    let mut worker = Worker::connect(&world.server).await;
    assert_eq!(worker.unread(), (0, 0));
    assert_eq!(world.post("/queues/default/resume", &json!({})).await.status, 204);
    complete_next(&mut worker, "1").await;
    let task = worker.task().await;
    worker.complete_task(&task, "1").await;
    world.post("/tasks", &json!({ "task_type": "nobody-has-it" })).await.ok(201);
    world.post("/workflows/nobody-has-it/trigger", &json!({})).await.ok(201);
    let open = queue(world.get("/queues").await.ok(200)).unwrap();
    assert_eq!((&open["paused"], &open["pendingTasks"]), (&json!(false), &json!(1)));
    assert_eq!(open["pendingWorkflows"], json!(1));
    let answer = world.post("/queues/%00/pause", &json!({})).await;
    assert_eq!((answer.status, answer.body["code"].is_string()), (400, true), "{}", answer.text);
}

/// As public clients register by default: each process is listed, with what distinguishes it.
async fn processes_of_one_name(world: &World) {
    let mut client = WorkerLifecycleClient::new(world.server.channel());
    let mut registered = Vec::new();
    for process in ["1", "2"] {
        let request = v1::WorkerRegistrationRequest {
            worker_name: "worker-default".to_owned(),
            host_name: "host".to_owned(),
            process_id: process.to_owned(),
            tasks: vec![v1::TaskCapability { kind: TASK.to_owned(), ..v1::TaskCapability::default() }],
            ..v1::WorkerRegistrationRequest::default()
        };
        let answer = client.register_worker(signed(request)).await.unwrap().into_inner();
        registered.push((answer.worker_id, "host".to_owned(), process.to_owned()));
    }
    let body = world.get("/workers").await.ok(200);
    let listed = body["workers"].as_array().unwrap().iter();
    let mut listed: Vec<_> = listed
        .filter(|row| row["name"] == "worker-default")
        .map(|row| (text(&row["id"]), text(&row["host"]), text(&row["processId"])))
        .collect();
    listed.sort_by(|one, other| one.2.cmp(&other.2));
    assert_eq!(listed, registered);
}

async fn workers_and_definitions(world: World) {
    assert_eq!(world.get("/workers").await.ok(200), json!({ "workers": [] }));
    let _worker = Worker::connect(&world.server).await;
    let body = world.get("/workers").await.ok(200);
    let row = &body["workers"][0];
    assert_eq!((&row["alive"], &row["taskQueue"]), (&json!(true), &json!("default")), "{body}");
    assert_eq!((&row["workflows"], &row["tasks"]), (&json!([KIND]), &json!([TASK])));
    let body = world.get("/definitions").await.ok(200);
    assert_eq!(body["workflows"], json!([{ "kind": KIND, "versions": [], "workers": 1 }]));
    assert_eq!(body["tasks"], json!([{ "kind": TASK, "versions": [], "workers": 1 }]));
    processes_of_one_name(&world).await;
    processes_of_one_name(&world).await;
    // Another tenant sees none of it.
    let other = world.token(&["two"], "admin");
    assert_eq!(
        world.call(&other, "GET", "/api/tenants/two/workers", "").await.ok(200),
        json!({ "workers": [] })
    );
}
