//! Standalone tasks from creation to end, with a worker.

use std::time::Instant;

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use serde_json::{Value, json};

use crate::worker::{PATIENCE, TASK, Worker, signed};
use crate::world::{World, fields, in_a_year, on_both, text};

on_both!(retried_until_it_completes, out_of_retries, not_before_its_time, logs);

async fn create(world: &World, more: Value) -> String {
    let mut request = json!({ "task_type": TASK });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    text(&world.post("/tasks", &request).await.ok(201)["id"])
}

async fn retried_until_it_completes(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = create(&world, json!({ "max_retries": 3, "input": { "to": "user@example.com" } })).await;
    let path = format!("/tasks/{id}");
    let first = worker.task().await;
    assert_eq!(first.task_execution_id, id);
    let running = world.get(&path).await.ok(200);
    assert_eq!((&running["status"], &running["execution_count"]), (&json!("RUNNING"), &json!(1)));
    world.delete(&path).await.refused(409, "FLV0056");
    world.post(&format!("{path}/retry"), &json!({})).await.refused(409, "FLV0057");
    worker.fail_task(&first, "Connection timeout").await;
    let second = worker.task().await;
    worker.complete_task(&second, r#"{"message_id":"abc123"}"#).await;
    let done = world.get(&path).await.ok(200);
    let expected = [
        "completed_at",
        "created_at",
        "execution_count",
        "id",
        "input",
        "max_retries",
        "output",
        "progress",
        "queue",
        "started_at",
        "status",
        "task_type",
        "tenant_id",
        "worker_id",
    ];
    assert_eq!(fields(&done), expected, "{done}");
    assert_eq!((&done["status"], &done["output"]), (&json!("COMPLETED"), &json!({ "message_id": "abc123" })));
    assert_eq!((&done["execution_count"], &done["progress"]), (&json!(2), &json!(1.0)));
    let body = world.get(&format!("{path}/attempts")).await.ok(200);
    let attempts = body["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    let common = ["attempt", "duration_ms", "finished_at", "started_at", "status", "worker_id"];
    let with = |name: &'static str| {
        let mut names = [&common[..], &[name]].concat();
        names.sort_unstable();
        names
    };
    assert_eq!((fields(&attempts[0]), fields(&attempts[1])), (with("error"), with("output")));
    assert_eq!((&attempts[0]["attempt"], &attempts[1]["attempt"]), (&json!(1), &json!(2)));
    assert_eq!((&attempts[0]["status"], &attempts[1]["status"]), (&json!("FAILED"), &json!("COMPLETED")));
    assert_eq!(
        (&attempts[0]["error"], &attempts[1]["output"]),
        (&json!("Connection timeout"), &done["output"])
    );
    world.delete(&path).await.refused(409, "FLV0056");
}

async fn out_of_retries(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = create(&world, json!({ "max_retries": 2 })).await;
    let path = format!("/tasks/{id}");
    for _ in 0..2 {
        let task = worker.task().await;
        worker.fail_task(&task, "broken").await;
    }
    let failed = world.get(&path).await.ok(200);
    assert_eq!((&failed["status"], &failed["error"]), (&json!("FAILED"), &json!("broken")));
    assert_eq!(failed["execution_count"], 2);
    assert!(failed["completed_at"].is_string());
    // A user may retry it.
    let again = world.post(&format!("{path}/retry"), &json!({})).await.ok(200);
    assert_eq!((&again["id"], again["status"] != json!("FAILED")), (&json!(id), true), "{again}");
    let task = worker.task().await;
    worker.complete_task(&task, "1").await;
    assert_eq!(world.get(&path).await.ok(200)["status"], "COMPLETED");
    let body = world.get(&format!("{path}/attempts")).await.ok(200);
    let numbers: Vec<_> =
        body["attempts"].as_array().unwrap().iter().map(|row| row["attempt"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

async fn not_before_its_time(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let late = create(&world, json!({ "scheduled_at": in_a_year() })).await;
    let now = create(&world, json!({})).await;
    let past = create(&world, json!({ "scheduled_at": "2020-01-15T10:00:00Z" })).await;
    let mut got = [worker.task().await, worker.task().await].map(|task| task.task_execution_id);
    got.sort();
    let mut ready = [now, past];
    ready.sort();
    assert_eq!(got, ready);
    let mut poll = TaskExecutionClient::new(world.server.channel());
    let request = v1::PollTaskRequest {
        worker_id: "poller".into(),
        queue: "default".into(),
        task_types: vec![TASK.into()],
        ..v1::PollTaskRequest::default()
    };
    assert_eq!(poll.poll_task(signed(request)).await.unwrap().into_inner().task, None);
    assert_eq!(worker.unread(), (0, 0));
    assert_eq!(world.get(&format!("/tasks/{late}")).await.ok(200)["status"], "PENDING");
}

async fn logs(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = create(&world, json!({})).await;
    let path = format!("/tasks/{id}/logs");
    assert_eq!(world.get(&path).await.ok(200), json!({ "lines": [] }));
    let claimed = worker.task().await;
    let mut client = TaskExecutionClient::new(world.server.channel());
    for message in ["one", "two", "three"] {
        let line = v1::LogMessageRequest {
            task_execution_id: id.clone(),
            level: "INFO".into(),
            message: message.into(),
            claim_token: Some(claimed.claim_token),
        };
        client.log_message(signed(line)).await.unwrap();
    }
    // Log lines are reports, which are written a little later.
    let until = Instant::now() + PATIENCE;
    let body = loop {
        let body = world.get(&path).await.ok(200);
        if body["lines"].as_array().unwrap().len() == 3 {
            break body;
        }
        assert!(Instant::now() < until, "the lines never came: {body}");
    };
    assert_eq!((&body["lines"][0]["message"], &body["lines"][0]["level"]), (&json!("one"), &json!("INFO")));
    let page = format!("{path}?after_line={}&limit=1", body["lines"][0]["line"]);
    assert_eq!(world.get(&page).await.ok(200)["lines"], json!([body["lines"][1]]));
    world.get(&format!("{path}?limit=0")).await.refused(400, "FLV0012");
    world.get(&format!("{path}?limit=1001")).await.refused(400, "FLV0012");
}
