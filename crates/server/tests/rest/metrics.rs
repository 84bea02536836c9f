//! Every metric changes by exactly the work that was done, as a scraper sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use flovyn_engine::state::Ready;
use flovyn_engine::{Change, Loaded, Mutations};
use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use flovyn_server::metrics::catalog;
use flovyn_service::loops::{KeyLoop, Options, OrphanLoop};
use flovyn_service::metrics::Kind;
use flovyn_store::{Decider, Step, TransactOptions};
use serde_json::json;
use uuid::Uuid;

use crate::app::{App, command, complete, schedule_task};
use crate::common::TENANT;
use crate::worker::{PATIENCE, TASK, Worker};
use crate::world::{World, complete_next, on_both, text};

on_both!(
    triggers_and_keys,
    expired_keys,
    tasks_and_queues,
    timers,
    batches_and_commits,
    requests,
    orphans,
    exported_is_what_the_catalog_says,
);

const PATH: &str = "/workflows/order/trigger";

/// The values of one scrape, by name and labels.
struct Scrape {
    values: BTreeMap<String, f64>,
    text: String,
}

async fn scrape(world: &World) -> Scrape {
    let root = world.token(&[], "server-admin");
    let answer = world.call(&root, "GET", "/_/metrics", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let lines = answer.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let value = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    Scrape { values: lines.map(value).collect(), text: answer.text.clone() }
}

impl Scrape {
    fn get(&self, series: &str) -> f64 {
        self.values.get(series).copied().unwrap_or(0.0)
    }

    /// How much a series has changed since an earlier scrape.
    fn since(&self, before: &Scrape, series: &str) -> f64 {
        self.get(series) - before.get(series)
    }
}

/// Scrapes until a condition holds, for values that are counted shortly after the answer.
async fn until(world: &World, what: &str, holds: impl Fn(&Scrape) -> bool) -> Scrape {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = scrape(world).await;
        if holds(&found) {
            return found;
        }
        assert!(Instant::now() < until, "{what} never came: {}", found.text);
    }
}

fn of_tenant(name: &str) -> String {
    format!("{name}{{tenant_id=\"{TENANT}\"}}")
}

fn triggered(kind: &str, status: &str) -> String {
    format!(
        "flovyn_rest_workflow_triggered_total\
         {{tenant_id=\"{TENANT}\",workflow_kind=\"{kind}\",status=\"{status}\"}}"
    )
}

async fn triggers_and_keys(world: World) {
    let before = scrape(&world).await;
    let keyed = json!({ "idempotencyKey": "one" });
    let first = world.post(PATH, &keyed).await.ok(201);
    world.post(PATH, &keyed).await.ok(200);
    world.post(PATH, &keyed).await.ok(200);
    world.post(PATH, &json!({})).await.ok(201);
    world.post("/workflows/other/trigger", &keyed).await.refused(409, "FLV0042");
    // A refused batch has no effect, so its parts are not counted.
    let spoilt = json!({ "workflows": [{ "kind": "other", "idempotencyKey": "five" },
        { "kind": "other", "idempotencyKey": "one" }] });
    world.post("/workflows/batch", &spoilt).await.refused(409, "FLV0042");
    let items = json!({ "workflows": [{ "kind": "bulk", "idempotencyKey": "two" }, { "kind": "bulk" },
        { "kind": "bulk", "idempotencyKey": "two" }] });
    world.post("/workflows/batch", &items).await.ok(201);
    let signal =
        json!({ "signalName": "go", "workflow": { "kind": "signalled", "idempotencyKey": "three" } });
    world.post("/workflow-executions/signal-with-start", &signal).await.ok(201);
    world.post("/workflow-executions/signal-with-start", &signal).await.ok(200);
    let task = json!({ "task_type": "t", "idempotency_key": "four" });
    world.post("/tasks", &task).await.ok(201);
    world.post("/tasks", &task).await.ok(200);
    let id = text(&first["workflowExecutionId"]);
    world.post(&format!("/workflow-executions/{id}/terminate"), &json!({})).await.ok(200);
    let after = scrape(&world).await;
    let moved = |series: &str| after.since(&before, series);
    assert_eq!(moved(&triggered("order", "created")), 2.0);
    assert_eq!(moved(&triggered("order", "existing")), 2.0);
    assert_eq!(moved(&triggered("bulk", "created")), 2.0);
    assert_eq!(moved(&triggered("bulk", "existing")), 1.0);
    assert_eq!(moved(&triggered("signalled", "created")), 1.0);
    assert_eq!(moved(&triggered("signalled", "existing")), 1.0);
    // A refused batch counts neither as a hit nor as a trigger.
    assert_eq!(moved(&triggered("other", "created")) + moved(&triggered("other", "existing")), 0.0);
    assert_eq!(moved(&of_tenant("flovyn_idempotency_misses_total")), 4.0);
    assert_eq!(moved(&of_tenant("flovyn_idempotency_hits_total")), 5.0);
    assert_eq!(moved(&of_tenant("flovyn_idempotency_cleared_total")), 1.0);
}

async fn expired_keys(world: World) {
    let short = json!({ "idempotencyKey": "short", "idempotencyKeyTTL": "1s" });
    world.post(PATH, &short).await.ok(201);
    world.post(PATH, &json!({ "idempotencyKey": "long" })).await.ok(201);
    let cleaner = KeyLoop::new(world.server.server.api().service().clone(), &Options::default());
    let until = Instant::now() + PATIENCE;
    while cleaner.tick().await.unwrap() == 0 {
        assert!(Instant::now() < until, "the key never expired");
    }
    let after = scrape(&world).await;
    assert_eq!(after.get("flovyn_idempotency_expired_total"), 1.0);
    assert_eq!(after.get(&of_tenant("flovyn_idempotency_cleared_total")), 0.0);
}

async fn tasks_and_queues(world: World) {
    let in_queue = |queue: &str| json!({ "task_type": TASK, "queue": queue });
    for _ in 0..3 {
        world.post("/tasks", &in_queue("slow")).await.ok(201);
    }
    world.post("/tasks", &in_queue("default")).await.ok(201);
    world.start_order().await;
    let labels =
        |queue: &str, class: &str| format!("{{tenant_id=\"{TENANT}\",queue=\"{queue}\",class=\"{class}\"}}");
    let submitted = |queue: &str| {
        format!(
            "flovyn_task_submitted_total{{tenant_id=\"{TENANT}\",task_type=\"{TASK}\",queue=\"{queue}\"}}"
        )
    };
    let depth = |queue: &str, class: &str| format!("flovyn_queue_depth{}", labels(queue, class));
    let waited =
        |queue: &str, class: &str| format!("flovyn_schedule_to_start_seconds_count{}", labels(queue, class));
    let filled = until(&world, "the depth", |found| found.get(&depth("slow", "TASK")) == 3.0).await;
    assert_eq!(filled.get(&depth("default", "TASK")), 1.0);
    assert_eq!(filled.get(&depth("default", "WORKFLOW")), 1.0);
    assert_eq!((filled.get(&submitted("slow")), filled.get(&submitted("default"))), (3.0, 1.0));
    assert_eq!(filled.get(&waited("default", "TASK")), 0.0);
    // The worker serves the default queue only, and its workflow schedules one more task.
    let mut worker = Worker::connect(&world.server).await;
    let activation = worker.activation().await;
    let scheduled = schedule_task(Uuid::from_u128(7), 3);
    worker.submit(&activation, vec![scheduled], v1::WorkflowStatus::Suspended).await;
    for _ in 0..2 {
        let task = worker.task().await;
        worker.complete_task(&task, "1").await;
    }
    complete_next(&mut worker, "1").await;
    let gone = |found: &Scrape| found.get(&depth("default", "TASK")) == 0.0;
    let after = until(&world, "an empty queue", gone).await;
    assert_eq!(after.get(&depth("slow", "TASK")), 3.0);
    assert_eq!((after.get(&submitted("slow")), after.get(&submitted("default"))), (3.0, 2.0));
    assert_eq!(after.get(&waited("default", "TASK")), 2.0);
    // Once when it began and once when its task completed.
    assert_eq!(after.get(&waited("default", "WORKFLOW")), 2.0);
    assert_eq!(after.get(&waited("slow", "TASK")), 0.0);
}

fn start_timer(duration_ms: i64) -> v1::WorkflowCommand {
    let data = v1::StartTimerCommand { timer_id: "t".into(), duration_ms };
    command(v1::CommandType::StartTimer, CommandData::StartTimer(data))
}

async fn timers(world: World) {
    let late = "flovyn_timer_lateness_seconds_count{class=\"TIMER\"}";
    world.start_order().await;
    let mut worker = Worker::connect(&world.server).await;
    let activation = worker.activation().await;
    assert_eq!(scrape(&world).await.get(late), 0.0);
    worker.submit(&activation, vec![start_timer(1)], v1::WorkflowStatus::Suspended).await;
    complete_next(&mut worker, "1").await;
    until(&world, "the timer", |found| found.get(late) == 1.0).await;
}

async fn batches_and_commits(world: World) {
    let before = scrape(&world).await;
    for _ in 0..5 {
        world.start_order().await;
    }
    // Each request waited for the previous one, so each had its own transaction.
    let after = scrape(&world).await;
    let moved = |series: &str| after.since(&before, series);
    assert_eq!(moved("flovyn_commit_duration_seconds_count"), 5.0);
    assert_eq!(moved("flovyn_batch_requests_count"), 5.0);
    assert_eq!(moved("flovyn_batch_requests_sum"), 5.0);
    assert_eq!(moved("flovyn_batch_requests_bucket{le=\"1\"}"), 5.0);
    assert_eq!(moved("flovyn_store_commits_total"), 5.0);
    assert_eq!(moved("flovyn_requests_decided_total"), 5.0);
}

async fn requests(world: World) {
    let count = |endpoint: &str, status: u16| {
        format!(
            "flovyn_rest_request_duration_seconds_count{{endpoint=\"{endpoint}\",status_code=\"{status}\"}}"
        )
    };
    let trigger = "POST /api/tenants/{tenant}/workflows/{name}/trigger";
    world.start_order().await;
    world.call(&world.admin, "POST", "/api/orgs/one/workflows/order/trigger", "{}").await.ok(201);
    world.post(PATH, &json!({ "input": 1, "nonsense": 2 })).await.refused(400, "FLV0001");
    world
        .call("nobody", "POST", "/api/tenants/one/workflows/order/trigger", "{}")
        .await
        .refused(401, "FLV0080");
    world.get("/no-such-thing/at-all").await.refused(404, "FLV0082");
    App::of(&world.server).start().await;
    let after = scrape(&world).await;
    assert_eq!(after.get(&count(trigger, 201)), 2.0);
    assert_eq!(after.get(&count(trigger, 400)), 1.0);
    assert_eq!(after.get(&count(trigger, 401)), 1.0);
    assert_eq!(after.get(&count("other", 404)), 1.0);
    let started =
        "flovyn_grpc_requests_total{method=\"/flovyn.v1.WorkflowDispatch/StartWorkflow\",code=\"0\"}";
    assert_eq!(after.get(started), 1.0);
}

/// Removes work from the ready table without the engine.
struct Lose(Option<Ready>);

impl Decider for Lose {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        if loaded.is_none() {
            return Step::Load(Arc::default());
        }
        let lost = self.0.take().map(|row| Change::Delete { row, expected_version: None });
        let mutations = Mutations { ready: lost.into_iter().collect(), ..Mutations::default() };
        Step::Commit(Box::new(mutations))
    }
}

async fn orphans(world: World) {
    let service = world.server.server.api().service().clone();
    let (found, checked) = ("flovyn_orphans_found_total", "flovyn_orphans_checked_total");
    world.start_order().await;
    let lost: Uuid = world.start_order().await.parse().unwrap();
    world.post("/tasks", &json!({ "task_type": "t" })).await.ok(201);
    let whole_round = async || {
        let mut search = OrphanLoop::new(service.clone(), &Options::default());
        let mut orphans = 0;
        // Tenant one has executions, then tasks; then the round is complete.
        for _ in 0..3 {
            orphans += search.tick().await.unwrap();
        }
        orphans
    };
    assert_eq!(whole_round().await, 0);
    let before = scrape(&world).await;
    assert_eq!((before.get(found), before.get(checked)), (0.0, 3.0));
    let row = service.store().execution_get(TENANT, lost).await.unwrap().unwrap();
    let lose = Arc::new(Mutex::new(Lose(Some(row.ready()))));
    let options = TransactOptions { batch_id: Uuid::from_u128(1), wait_for_locks: false };
    service.store().transact(lose, options).await.unwrap();
    assert_eq!(whole_round().await, 1);
    let after = scrape(&world).await;
    assert_eq!((after.get(found), after.get(checked)), (1.0, 6.0));
}

async fn exported_is_what_the_catalog_says(world: World) {
    let first = world.post(PATH, &json!({ "idempotencyKey": "key" })).await.ok(201);
    world.post(PATH, &json!({ "idempotencyKey": "key" })).await.ok(200);
    let mut worker = Worker::connect(&world.server).await;
    let activation = worker.activation().await;
    let scheduled = schedule_task(Uuid::from_u128(7), 3);
    worker.submit(&activation, vec![scheduled, start_timer(1)], v1::WorkflowStatus::Suspended).await;
    let activation = worker.activation().await;
    let id = text(&first["workflowExecutionId"]);
    world.post(&format!("/workflow-executions/{id}/signal"), &json!({ "name": "late" })).await.ok(202);
    let ack = worker.submit(&activation, vec![complete("1")], v1::WorkflowStatus::Completed).await;
    assert_eq!(ack.code, "FLV0063");
    let again = worker.activation().await;
    let unread = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.clone(),
        commands: vec![complete("1")],
        status: v1::WorkflowStatus::Completed.into(),
        claim_token: Some(again.claim_token),
        base_sequence: again.events.last().map(|event| event.sequence_number.into()),
        activation_failure: None,
        unread_signals: 1,
        clean_up: None,
    };
    assert_eq!(worker.submit_raw(unread).await.code, "");
    let other = world.post(PATH, &json!({ "idempotencyKey": "other" })).await.ok(201);
    let id = text(&other["workflowExecutionId"]);
    let activation = worker.activation().await;
    let ack = worker.submit(&activation, vec![complete("{")], v1::WorkflowStatus::Completed).await;
    assert_eq!(ack.code, "FLV0001");
    world.post(&format!("/workflow-executions/{id}/terminate"), &json!({})).await.ok(200);
    world.post("/tasks", &json!({ "task_type": "unknown", "queue": "waits" })).await.ok(201);
    App::of(&world.server).start().await;
    let has_all = |found: &Scrape| {
        [
            "flovyn_queue_depth{",
            "flovyn_timer_lateness_seconds_count",
            "flovyn_schedule_to_start_seconds_count",
        ]
        .iter()
        .all(|name| found.text.contains(name))
    };
    let found = until(&world, "every kind of figure", has_all).await;
    let types = found.text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let exported: BTreeSet<String> = types.map(str::to_owned).collect();
    let kind = |kind: Kind| match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let file = world.server.config.database_url.0.starts_with("sqlite:");
    // A result is late once a lease has expired; only a database file is checked by the server.
    let is_here =
        |name: &str| name != "flovyn_late_results_total" && (file || name != "flovyn_database_checked");
    let all = || catalog::all().filter(|metric| is_here(metric.name));
    let known: BTreeSet<String> =
        all().map(|metric| format!("{} {}", metric.name, kind(metric.kind))).collect();
    assert_eq!(exported, known);
    for metric in all() {
        let help = format!("# HELP {} {}", metric.name, metric.help);
        assert!(found.text.contains(&help), "{help} is missing");
        let own = |line: &&str| {
            let rest = line.strip_prefix(metric.name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']) || rest.starts_with("_count"))
        };
        let line = found.text.lines().find(own).unwrap_or_else(|| panic!("no line of {}", metric.name));
        for label in metric.labels {
            assert!(line.contains(&format!("{label}=\"")), "{line} lacks {label}");
        }
    }
}
