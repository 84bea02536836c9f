//! Reads executions: one, many, and their tasks and children.

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use http_body_util::BodyExt;
use serde_json::json;
use uuid::Uuid;

use crate::app::{command, schedule_task};
use crate::worker::{PATIENCE, Worker, signed};
use crate::world::{World, complete_next, on_both, text};

on_both!(
    listing_and_filters,
    pages,
    what_lies_below,
    tasks_in_pages,
    history_in_pages,
    a_whole_history_for_clients_of_the_public_protocol,
    a_large_history_is_read_as_fast_as_it_is_sent_and_cut_off_if_it_is_deleted,
    a_finished_one,
    signals_not_read
);

async fn listing_and_filters(world: World) {
    let start = |kind: &str, queue: &str, label: &str| json!({ "kind": kind, "taskQueue": queue, "labels": { "env": label } });
    let items = [start("a", "default", "prod"), start("a", "fast", "test"), start("b", "fast", "prod")];
    world.post("/workflows/batch", &json!({ "workflows": items })).await.ok(201);
    let cases = [
        ("", 3),
        ("?kind=a", 2),
        ("?kind=a&taskQueue=fast", 1),
        ("?task_queue=fast", 2),
        ("?queue=fast&kind=b", 1),
        ("?status=PENDING", 3),
        ("?status=COMPLETED", 0),
        ("?label=env:prod", 2),
        ("?label=env:prod&kind=b", 1),
        ("?createdAfter=2096-01-01T00:00:00Z", 0),
        ("?createdBefore=2096-01-01T00:00:00Z", 3),
        ("?kind=", 3),
    ];
    for (query, count) in cases {
        let body = world.get(&format!("/workflow-executions{query}")).await.ok(200);
        let rows = body["executions"].as_array().unwrap();
        assert_eq!(rows.len(), count, "{query}: {body}");
        assert_eq!((&body["limit"], &body["offset"]), (&json!(50), &json!(0)));
    }
    let wrong = [
        "status=done",
        "label=env",
        "limit=0",
        "limit=101",
        "limit=x",
        "offset=-1",
        "offset=10001",
        "cursor=nonsense",
        "createdAfter=yesterday",
        "parentId=me",
        "kind=%00",
    ];
    for query in wrong {
        let answer = world.get(&format!("/workflow-executions?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert!(answer.body["code"].is_string(), "{query}: {}", answer.text);
    }
}

async fn pages(world: World) {
    let items: Vec<_> = (0..7).map(|_| json!({ "kind": "a" })).collect();
    world.post("/workflows/batch", &json!({ "workflows": items })).await.ok(201);
    let all = world.get("/workflow-executions").await.ok(200);
    let ids = |body: &serde_json::Value| -> Vec<String> {
        body["executions"].as_array().unwrap().iter().map(|row| text(&row["id"])).collect()
    };
    let (mut seen, mut path) = (Vec::new(), "/workflow-executions?limit=3".to_owned());
    loop {
        let body = world.get(&path).await.ok(200);
        seen.extend(ids(&body));
        let Some(cursor) = body["nextCursor"].as_str() else { break };
        path = format!("/workflow-executions?limit=3&cursor={cursor}");
    }
    assert_eq!(seen, ids(&all));
    let last = world.get("/workflow-executions?limit=3&offset=6").await.ok(200);
    assert_eq!(ids(&last), ids(&all)[6..]);
}

async fn what_lies_below(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let (task, child) = (Uuid::new_v4(), Uuid::new_v4());
    let activation = worker.activation().await;
    let state = v1::SetStateCommand { key: "step".into(), value: r#"{"n":1}"#.into() };
    let scheduled = v1::ScheduleChildWorkflowCommand {
        child_execution_name: "child".into(),
        workflow_kind: Some("child".into()),
        child_workflow_execution_id: child.to_string(),
        ..v1::ScheduleChildWorkflowCommand::default()
    };
    let commands = vec![
        schedule_task(task, 3),
        command(v1::CommandType::SetState, CommandData::SetState(state)),
        command(v1::CommandType::ScheduleChildWorkflow, CommandData::ScheduleChildWorkflow(scheduled)),
    ];
    let ack = worker.submit(&activation, commands, v1::WorkflowStatus::Suspended).await;
    assert_eq!(ack.code, "");
    let below = |what: &str| format!("/workflow-executions/{id}/{what}");
    let tasks = world.get(&below("tasks")).await.ok(200);
    assert_eq!(tasks["tasks"][0]["id"], json!(task.to_string()));
    assert_eq!(tasks["tasks"][0]["workflow_execution_id"], json!(id));
    let children = world.get(&below("children")).await.ok(200);
    assert_eq!(children["executions"].as_array().unwrap().len(), 1);
    assert_eq!(children["executions"][0]["id"], json!(child.to_string()));
    assert_eq!(children["executions"][0]["parentId"], json!(id));
    assert_eq!(world.get(&below("state")).await.ok(200), json!({ "step": { "n": 1 } }));
    let by_parent = world.get(&format!("/workflow-executions?parentId={id}")).await.ok(200);
    assert_eq!(by_parent["executions"], children["executions"]);
    // A task of a workflow is not a standalone task.
    world.get(&format!("/tasks/{task}")).await.refused(404, "FLV0032");
    assert_eq!(world.get("/tasks").await.ok(200)["total"], 0);
    let found = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
    assert_eq!(found["waitingOn"].as_array().unwrap().len(), 2, "{found}");
}

async fn tasks_in_pages(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let mut all: Vec<Uuid> = (0..7).map(|_| Uuid::new_v4()).collect();
    let activation = worker.activation().await;
    let commands = all.iter().map(|task| schedule_task(*task, 3)).collect();
    worker.submit(&activation, commands, v1::WorkflowStatus::Suspended).await;
    all.sort_unstable();
    let below = format!("/workflow-executions/{id}/tasks");
    let (mut seen, mut sizes, mut path) = (Vec::new(), Vec::new(), format!("{below}?limit=3"));
    loop {
        let body = world.get(&path).await.ok(200);
        let tasks = body["tasks"].as_array().unwrap();
        sizes.push(tasks.len());
        seen.extend(tasks.iter().map(|task| text(&task["id"]).parse::<Uuid>().unwrap()));
        let Some(cursor) = body["nextCursor"].as_str() else { break };
        path = format!("{below}?limit=3&cursor={cursor}");
    }
    assert_eq!((seen, sizes), (all, vec![3, 3, 1]));
    for query in ["limit=0", "limit=1001", "limit=x", "cursor=nonsense"] {
        let answer = world.get(&format!("{below}?{query}")).await;
        assert_eq!((answer.status, answer.body["code"].is_string()), (400, true), "{query}: {}", answer.text);
    }
}

async fn history_in_pages(world: World) {
    let id = world.start_order().await;
    for number in 0..4 {
        let signal = json!({ "name": "s", "value": number });
        world.post(&format!("/workflow-executions/{id}/signal"), &signal).await.ok(202);
    }
    let (mut seen, mut since) = (Vec::new(), 0);
    loop {
        let path = format!("/workflow-executions/{id}/events?limit=2&sinceSequence={since}");
        let body = world.get(&path).await.ok(200);
        assert_eq!(body["executionId"], json!(id));
        seen.extend(
            body["events"].as_array().unwrap().iter().map(|event| event["sequence"].as_i64().unwrap()),
        );
        let Some(next) = body["nextSinceSequence"].as_i64() else { break };
        since = next;
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    for query in ["limit=0", "limit=1001", "limit=x", "sinceSequence=x"] {
        let answer = world.get(&format!("/workflow-executions/{id}/events?{query}")).await;
        assert_eq!((answer.status, answer.body["code"].is_string()), (400, true), "{query}: {}", answer.text);
    }
}

/// Runs the next workflow in one activation that records this many operations and ends.
async fn run_in_steps(world: &World, id: &str, operations: usize) {
    let mut worker = WorkflowDispatchClient::new(world.server.channel());
    let poll =
        v1::PollRequest { worker_id: "steps".into(), timeout_seconds: 20, ..v1::PollRequest::default() };
    let polled = worker.poll_workflow(signed(poll)).await.unwrap().into_inner();
    assert_eq!(polled.workflow_execution.unwrap().id, id);
    let operation = || {
        let step = v1::RecordOperationCommand { operation_name: "step".into(), result: "1".into() };
        command(v1::CommandType::RecordOperation, CommandData::RecordOperation(step))
    };
    let end = v1::CompleteWorkflowCommand { output: "1".into() };
    let end = command(v1::CommandType::CompleteWorkflow, CommandData::CompleteWorkflow(end));
    let submit = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.into(),
        commands: (0..operations).map(|_| operation()).chain([end]).collect(),
        status: v1::WorkflowStatus::Completed.into(),
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    worker.submit_workflow_commands(signed(submit)).await.unwrap();
}

/// These clients ask once and search the answer for the end: without a limit they get the whole history, with a limit a
/// page.
async fn a_whole_history_for_clients_of_the_public_protocol(world: World) {
    const EVENTS: usize = 5_000;
    let id = world.start_order().await;
    run_in_steps(&world, &id, EVENTS - 2).await;
    let path = format!("/workflow-executions/{id}/events");
    let token = world.token(&["one"], "admin");
    let of_alias = async |query: &str| {
        let path = format!("/api/orgs/one{path}{query}");
        world.call(&token, "GET", &path, "").await.ok(200)
    };
    let whole = of_alias("").await;
    let events = whole["events"].as_array().unwrap();
    let sequences: Vec<_> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=EVENTS as u64).collect::<Vec<_>>());
    assert_eq!(events.last().unwrap()["eventType"], json!("WORKFLOW_COMPLETED"));
    // The same fields and the same events as a page.
    let page = world.get(&format!("{path}?limit=1000")).await.ok(200);
    assert_eq!((&whole["executionId"], &whole["createdAtMs"]), (&page["executionId"], &page["createdAtMs"]));
    assert_eq!(events[..1_000], page["events"].as_array().unwrap()[..]);
    assert_eq!(whole.get("nextSinceSequence"), None);
    let rest = of_alias("?sinceSequence=4990").await;
    assert_eq!(rest["events"].as_array().unwrap()[..], events[4_990..]);
    assert_eq!(of_alias("?sinceSequence=9000").await["events"], json!([]));
    assert_eq!(of_alias("?limit=7").await["events"].as_array().unwrap().len(), 7);
    assert_eq!(world.get(&path).await.ok(200)["events"].as_array().unwrap().len(), 100);
}

/// The server must not read ahead of its client: what it has not read when the execution is deleted is missing, and the
/// answer must not look whole.
async fn a_large_history_is_read_as_fast_as_it_is_sent_and_cut_off_if_it_is_deleted(world: World) {
    // Many times what sockets and buffers hold.
    const SIGNALS: u64 = 48;
    const BYTES: usize = 900 << 10;
    let id = world.start_order().await;
    let value = "x".repeat(BYTES);
    for _ in 0..SIGNALS {
        let signal = json!({ "name": "s", "value": value });
        world.post(&format!("/workflow-executions/{id}/signal"), &signal).await.ok(202);
    }
    world.post(&format!("/workflow-executions/{id}/terminate"), &json!({})).await.ok(200);
    let path = format!("/api/orgs/one/workflow-executions/{id}/events");
    let token = world.token(&["one"], "admin");
    let whole = world.http.begin(&path, &token).await.collect().await.unwrap().to_bytes();
    let whole: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    let sequences = whole["events"].as_array().unwrap().iter().map(|event| event["sequence"].as_u64());
    assert!(sequences.eq((1..=SIGNALS + 2).map(Some)));

    let mut begun = world.http.begin(&path, &token).await;
    begun.frame().await.unwrap().unwrap();
    world.delete(&format!("/workflow-executions/{id}")).await.ok(204);
    let rest = tokio::time::timeout(PATIENCE, begun.collect()).await.expect("an end in time");
    assert!(rest.is_err(), "a part of the history must not look like all of it");
}

async fn a_finished_one(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    complete_next(&mut worker, r#"{"paid":1}"#).await;
    let found = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
    assert_eq!((&found["status"], &found["output"]), (&json!("COMPLETED"), &json!({ "paid": 1 })));
    assert!(found["finishedAt"].is_string() && found["startedAt"].is_string(), "{found}");
    assert!(found.get("error").is_none(), "{found}");
    let status = world.get(&format!("/workflows/{id}/status")).await.ok(200);
    assert_eq!(status, json!({ "workflowExecutionId": id, "status": "COMPLETED" }));
}

async fn signals_not_read(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let activation = worker.activation().await;
    let submit = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.clone(),
        commands: vec![crate::app::complete("1")],
        status: v1::WorkflowStatus::Completed.into(),
        claim_token: Some(activation.claim_token),
        base_sequence: Some(1),
        unread_signals: 2,
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    assert_eq!(worker.submit_raw(submit).await.code, "");
    let found = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
    assert_eq!(found["unreadSignals"], json!(2));
    let events = world.get(&format!("/workflow-executions/{id}/events")).await.ok(200);
    assert_eq!(events["events"][1]["data"], json!({ "output": 1, "unreadSignals": 2 }));
    let metrics = world.call(&world.token(&["*"], "server-admin"), "GET", "/_/metrics", "").await;
    assert!(metrics.text.contains("flovyn_signals_unread_total{"), "{}", metrics.text);

    let id = world.start_order().await;
    complete_next(&mut worker, "1").await;
    let found = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
    assert_eq!(found.get("unreadSignals"), None, "{found}");
}
