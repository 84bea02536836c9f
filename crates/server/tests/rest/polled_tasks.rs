//! Standalone tasks end to end: created over REST, claimed by workers that poll over gRPC, read over REST.

use std::time::Instant;

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use serde_json::{Value, json};
use tonic::transport::Channel;

use crate::worker::{PATIENCE, signed};
use crate::world::{World, on_both, text};

on_both!(
    a_worker_polls_and_completes,
    a_failed_attempt_goes_to_another_worker,
    a_failure_says_what_it_is_called_and_whether_it_gave_up,
    tasks_come_in_the_order_of_their_times,
    an_attempt_that_takes_too_long_is_one_of_its_attempts,
);

const QUEUE: &str = "mail";

/// A worker that uses only unary calls.
struct Poller {
    name: &'static str,
    calls: TaskExecutionClient<Channel>,
}

impl Poller {
    fn new(world: &World, name: &'static str) -> Self {
        Self { name, calls: TaskExecutionClient::new(world.server.channel()) }
    }

    async fn poll(&mut self, queue: &str, types: &[&str], seconds: i64) -> Option<v1::TaskExecutionInfo> {
        let request = v1::PollTaskRequest {
            worker_id: self.name.into(),
            queue: queue.into(),
            task_types: types.iter().map(ToString::to_string).collect(),
            timeout_seconds: seconds,
            ..v1::PollTaskRequest::default()
        };
        self.calls.poll_task(signed(request)).await.unwrap().into_inner().task
    }

    async fn next(&mut self) -> v1::TaskExecutionInfo {
        let until = Instant::now() + PATIENCE;
        loop {
            // A poll may return without work before its time, so workers poll again.
            if let Some(task) = self.poll(QUEUE, &["send-email"], 20).await {
                return task;
            }
            assert!(Instant::now() < until, "there is a task");
        }
    }

    async fn complete(&mut self, id: &str, output: &Value) {
        let output = output.to_string().into_bytes();
        let request = v1::CompleteTaskRequest {
            task_execution_id: id.into(),
            output: output.into(),
            claim_token: None,
        };
        self.calls.complete_task(signed(request)).await.unwrap();
    }

    async fn fail(&mut self, id: &str, error: &str) {
        let request = v1::FailTaskRequest {
            task_execution_id: id.into(),
            error: error.into(),
            next_retry_delay_ms: Some(0),
            ..v1::FailTaskRequest::default()
        };
        self.calls.fail_task(signed(request)).await.unwrap();
    }
}

async fn create(world: &World, more: Value) -> String {
    let mut request = json!({ "task_type": "send-email", "queue": QUEUE });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    text(&world.post("/tasks", &request).await.ok(201)["id"])
}

async fn status(world: &World, id: &str) -> String {
    text(&world.get(&format!("/tasks/{id}")).await.ok(200)["status"])
}

async fn a_worker_polls_and_completes(world: World) {
    let mut worker = Poller::new(&world, "worker-1");
    let input = json!({ "to": "user@example.com" });
    let id = create(&world, json!({ "input": input })).await;
    assert_eq!(status(&world, &id).await, "PENDING");
    // Neither for another queue nor for another type.
    assert_eq!(worker.poll("other", &["send-email"], 0).await, None);
    assert_eq!(worker.poll(QUEUE, &["send-letter"], 0).await, None);
    let task = worker.next().await;
    assert_eq!((task.task_execution_id.as_str(), task.workflow_execution_id.as_str()), (id.as_str(), ""));
    assert_eq!(serde_json::from_slice::<Value>(&task.input).unwrap(), input);
    assert_eq!(status(&world, &id).await, "RUNNING");
    assert_eq!(worker.poll(QUEUE, &["send-email"], 0).await, None, "another poll has claimed it");
    worker.complete(&id, &json!({ "message_id": "abc123" })).await;
    let done = world.get(&format!("/tasks/{id}")).await.ok(200);
    assert_eq!((&done["status"], &done["worker_id"]), (&json!("COMPLETED"), &json!("worker-1")));
    assert_eq!((&done["output"], &done["progress"]), (&json!({ "message_id": "abc123" }), &json!(1.0)));
    for (status, total) in [("PENDING", 0), ("RUNNING", 0), ("COMPLETED", 1), ("FAILED", 0)] {
        let list = world.get(&format!("/tasks?status={status}&queue={QUEUE}")).await.ok(200);
        assert_eq!(list["total"], json!(total), "{status}");
    }
}

async fn a_failed_attempt_goes_to_another_worker(world: World) {
    let (mut first, mut second) = (Poller::new(&world, "worker-1"), Poller::new(&world, "worker-2"));
    let id = create(&world, json!({ "max_retries": 2 })).await;
    first.next().await;
    first.fail(&id, "Connection timeout").await;
    assert_eq!(status(&world, &id).await, "PENDING");
    let again = second.next().await;
    assert_eq!((again.task_execution_id.as_str(), again.execution_count), (id.as_str(), 2));
    second.complete(&id, &json!(1)).await;
    let body = world.get(&format!("/tasks/{id}/attempts")).await.ok(200);
    let rows = body["attempts"].as_array().unwrap().iter();
    let rows: Vec<Value> =
        rows.map(|row| json!([row["attempt"], row["status"], row["worker_id"], row["error"]])).collect();
    let expected =
        [json!([1, "FAILED", "worker-1", "Connection timeout"]), json!([2, "COMPLETED", "worker-2", null])];
    assert_eq!(rows, expected);
    // Without attempts left, the task has permanently failed.
    let id = create(&world, json!({ "max_retries": 1 })).await;
    first.next().await;
    first.fail(&id, "broken").await;
    assert_eq!(status(&world, &id).await, "FAILED");
    assert_eq!(second.poll(QUEUE, &["send-email"], 0).await, None);
    let dead = world.get("/tasks?status=FAILED").await.ok(200);
    assert_eq!((&dead["total"], &dead["tasks"][0]["id"]), (&json!(1), &json!(id)));
}

async fn a_failure_says_what_it_is_called_and_whether_it_gave_up(world: World) {
    let mut worker = Poller::new(&world, "worker-1");
    let id = create(&world, json!({})).await;
    let path = format!("/tasks/{id}");
    let expected = |retryable: &Value| json!(["DECLINED", { "limit": 7 }, retryable]);
    let said = |row: &Value| json!([row["failure_type"], row["failure_details"], row["retryable"]]);
    for (non_retryable, retryable) in [(false, Value::Null), (true, json!(false))] {
        worker.next().await;
        let request = v1::FailTaskRequest {
            task_execution_id: id.clone(),
            error: "no funds".into(),
            failure_type: "DECLINED".into(),
            failure_details: r#"{"limit":7}"#.into(),
            non_retryable,
            next_retry_delay_ms: Some(0),
            ..v1::FailTaskRequest::default()
        };
        worker.calls.fail_task(signed(request)).await.unwrap();
        let task = world.get(&path).await.ok(200);
        assert_eq!(said(&task), expected(&retryable), "{task}");
        assert_eq!(task["status"] == "FAILED", non_retryable);
        let attempts = world.get(&format!("{path}/attempts")).await.ok(200);
        assert_eq!(said(attempts["attempts"].as_array().unwrap().last().unwrap()), expected(&retryable));
    }
    // After it has succeeded, the task shows no failure any more.
    world.post(&format!("{path}/retry"), &json!({})).await.ok(200);
    worker.next().await;
    worker.complete(&id, &json!(1)).await;
    let done = world.get(&path).await.ok(200);
    assert_eq!((said(&done), &done["error"]), (json!([null, null, null]), &Value::Null));
}

async fn tasks_come_in_the_order_of_their_times(world: World) {
    let mut worker = Poller::new(&world, "worker-1");
    // None of these is the order of creation.
    let mut expected = Vec::new();
    for more in [
        json!({}),
        json!({ "scheduled_at": "2020-01-15T11:00:00Z" }),
        json!({ "scheduled_at": "2020-01-15T10:00:00Z" }),
        json!({ "scheduled_at": "2020-01-15T11:00:00Z", "priority_seconds": -7200 }),
    ] {
        expected.insert(0, create(&world, more).await);
    }
    let mut got = Vec::new();
    for _ in 0..4 {
        got.push(worker.next().await.task_execution_id);
    }
    assert_eq!(got, expected);
}

async fn an_attempt_that_takes_too_long_is_one_of_its_attempts(world: World) {
    let mut worker = Poller::new(&world, "worker-1");
    let id = create(&world, json!({ "max_retries": 1, "timeout_ms": 50 })).await;
    worker.next().await;
    let until = Instant::now() + PATIENCE;
    while status(&world, &id).await == "RUNNING" {
        assert!(Instant::now() < until, "it was never ended");
    }
    assert_eq!(status(&world, &id).await, "FAILED");
    let body = world.get(&format!("/tasks/{id}/attempts")).await.ok(200);
    assert_eq!(
        (body["attempts"].as_array().unwrap().len(), &body["attempts"][0]["status"]),
        (1, &json!("TIMEOUT"))
    );
}
