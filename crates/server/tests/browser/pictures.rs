//! Every page, light and dark, wide and narrow. With `UPDATE_SCREENSHOTS=1`, the screenshots replace the pictures of
//! the documentation.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::json;
use uuid::Uuid;

use crate::app::{command, complete};
use crate::browser::{Browser, turn, with_browser};
use crate::common::Database;
use crate::worker::{Worker, hello, signed};
use crate::world::{World, text};

/// Name, width, height.
const SCREENS: &[(&str, u32, u32)] = &[("wide", 1440, 900), ("narrow", 390, 844)];
const MOST_BYTES: usize = 200_000;

fn task(kind: &str, id: Uuid) -> v1::WorkflowCommand {
    let data = v1::ScheduleTaskCommand {
        kind: kind.into(),
        input: r#"{"order":"A-1042","amount":129.9}"#.into(),
        task_execution_id: id.to_string(),
        max_retries: Some(3),
        ..v1::ScheduleTaskCommand::default()
    };
    command(v1::CommandType::ScheduleTask, CommandData::ScheduleTask(data))
}

fn promise(name: &str) -> v1::WorkflowCommand {
    let data = v1::CreatePromiseCommand { promise_id: name.into(), ..v1::CreatePromiseCommand::default() };
    command(v1::CommandType::CreatePromise, CommandData::CreatePromise(data))
}

fn set_state(key: &str, value: &str) -> v1::WorkflowCommand {
    let data = v1::SetStateCommand { key: key.into(), value: value.to_owned().into() };
    command(v1::CommandType::SetState, CommandData::SetState(data))
}

fn child(name: &str, kind: &str) -> v1::WorkflowCommand {
    let data = v1::ScheduleChildWorkflowCommand {
        child_execution_name: name.into(),
        workflow_kind: Some(kind.into()),
        child_workflow_execution_id: Uuid::new_v4().to_string(),
        input: "{}".into(),
        ..v1::ScheduleChildWorkflowCommand::default()
    };
    command(v1::CommandType::ScheduleChildWorkflow, CommandData::ScheduleChildWorkflow(data))
}

fn timer(name: &str, duration_ms: i64) -> v1::WorkflowCommand {
    let data = v1::StartTimerCommand { timer_id: name.into(), duration_ms };
    command(v1::CommandType::StartTimer, CommandData::StartTimer(data))
}

fn is_updating() -> bool {
    std::env::var_os("UPDATE_SCREENSHOTS").is_some()
}

/// A minute of work in waves, so that the plots of the documentation show something.
async fn busy(world: &World, worker: &mut Worker) {
    let mut often = tokio::time::interval(Duration::from_millis(250));
    for step in 0..240_u32 {
        often.tick().await;
        let wave = (f64::from(step) / 30.0).sin();
        for number in 0..if wave > 0.6 {
            4
        } else if wave > -0.4 {
            2
        } else {
            1
        } {
            let body = json!({ "kind": "order", "input": { "order": format!("A-{}", 100 + step) } });
            world.post("/workflow-executions", &body).await.ok(201);
            let activation = worker.activation().await;
            let (end, status) = match step % 23 == 7 && number == 0 {
                true => (refused(), v1::WorkflowStatus::Failed),
                false => (complete("{\"ok\":true}"), v1::WorkflowStatus::Completed),
            };
            worker.submit(&activation, vec![end], status).await;
        }
        if wave > 0.0 || step % 3 == 0 {
            world.post("/tasks", &json!({ "task_type": "send-email" })).await.ok(201);
            let claimed = worker.task().await;
            worker.complete_task(&claimed, "{\"sent\":true}").await;
        }
    }
}

fn refused() -> v1::WorkflowCommand {
    let data = v1::FailWorkflowCommand {
        error: "payment refused: card expired".into(),
        ..v1::FailWorkflowCommand::default()
    };
    command(v1::CommandType::FailWorkflow, CommandData::FailWorkflow(data))
}

/// Fills a shop with one of everything. Returns the execution and the task to look at.
async fn shop(world: &World) -> (String, String) {
    let types = ["charge-card", "reserve-stock", "send-email", "render-report"];
    let mut greeting = hello(Uuid::new_v4());
    greeting.worker_name = "shop-worker-1".into();
    greeting.workflows[0].kind = "order".into();
    greeting.tasks = types
        .map(|name| v1::StreamTaskType { task_type: name.into(), ..v1::StreamTaskType::default() })
        .to_vec();
    let mut worker = Worker::with(&world.server, greeting, 10, 10).await.unwrap();
    if is_updating() {
        busy(world, &mut worker).await;
    }
    for number in 0..6 {
        let body = json!({ "kind": "order", "input": { "order": format!("A-{}", 1030 + number) } });
        world.post("/workflow-executions", &body).await.ok(201);
        let activation = worker.activation().await;
        if number == 3 {
            worker.submit(&activation, vec![refused()], v1::WorkflowStatus::Failed).await;
        } else {
            worker.submit(&activation, vec![complete("{\"ok\":true}")], v1::WorkflowStatus::Completed).await;
        }
    }
    let body = json!({
        "kind": "order", "labels": { "team": "shop", "region": "eu" }, "idempotencyKey": "order-A-1042",
        "input": { "order": "A-1042", "customer": { "name": "Ada Lovelace", "vip": true }, "items": [
            { "sku": "TEA-250", "count": 2, "price": 12.5 }, { "sku": "MUG-01", "count": 1, "price": 104.9 } ] },
    });
    let id = text(&world.post("/workflow-executions", &body).await.ok(201)["workflowExecutionId"]);
    let activation = worker.activation().await;
    let commands = vec![
        set_state("stage", "\"payment\""),
        task("reserve-stock", Uuid::new_v4()),
        task("charge-card", Uuid::new_v4()),
        child("invoice", "invoice"),
        timer("reminder", 3_600_000),
    ];
    worker.submit(&activation, commands, v1::WorkflowStatus::Suspended).await;
    let (mut has_failed, mut left) = (false, 2);
    while left > 0 {
        let claimed = worker.task().await;
        if claimed.kind == "charge-card" && !has_failed {
            has_failed = true;
            worker.fail_task(&claimed, "the bank did not answer within 5 s").await;
            continue;
        }
        left -= 1;
        worker.complete_task(&claimed, "{\"receipt\":\"R-77\"}").await;
        let activation = worker.activation().await;
        let last = vec![set_state("stage", "\"approval\""), promise("manager-approval")];
        let commands = if left == 0 { last } else { vec![] };
        worker.submit(&activation, commands, v1::WorkflowStatus::Suspended).await;
    }
    world
        .post("/tasks", &json!({ "task_type": "send-email", "input": { "to": "ada@example.com" } }))
        .await
        .ok(201);
    let claimed = worker.task().await;
    worker.complete_task(&claimed, "{\"sent\":true}").await;
    world.post("/tasks", &json!({ "task_type": "resize-image", "queue": "media" })).await.ok(201);
    let body = json!({ "task_type": "render-report", "input": { "month": "2025-01" }, "max_retries": 3 });
    let report = text(&world.post("/tasks", &body).await.ok(201)["id"]);
    let claimed = worker.task().await;
    worker.fail_task(&claimed, "out of memory while rendering page 12").await;
    let running = worker.task().await;
    let mut tasks = TaskExecutionClient::new(world.server.channel());
    let lines = [
        ("INFO", "reading 12,480 rows"),
        ("INFO", "page 4 of 6"),
        ("WARN", "a chart has no data, left blank"),
    ];
    for (level, message) in lines {
        let line = v1::LogMessageRequest {
            task_execution_id: report.clone(),
            level: level.into(),
            message: message.into(),
            claim_token: Some(running.claim_token),
        };
        tasks.log_message(signed(line)).await.unwrap();
    }
    let progress = v1::ReportProgressRequest {
        task_execution_id: report.clone(),
        progress: 0.66,
        details: "page 4 of 6".into(),
        claim_token: Some(running.claim_token),
    };
    tasks.report_progress(signed(progress)).await.unwrap();
    world.post("/queues/media/pause", &json!({})).await;
    world.post("/worker-tokens", &json!({ "name": "shop-worker" })).await.ok(201);
    // The worker stays connected and sends heartbeats until the screenshots are taken.
    tokio::spawn(async move {
        let mut often = tokio::time::interval(Duration::from_secs(5));
        loop {
            often.tick().await;
            worker.send(v1::WorkerFrame { heartbeat: true, ..v1::WorkerFrame::default() }).await;
        }
    });
    (id, report)
}

async fn take(browser: &Browser, name: &str, scheme: &str, screen: &str) {
    let png = STANDARD.decode(browser.picture().await).unwrap();
    let wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
    assert_eq!(browser.value(wide).await, json!(false), "{name} {screen} must be scrolled sideways");
    let name = format!("ui-{name}-{scheme}-{screen}.png");
    assert!(png.len() < MOST_BYTES, "{name} has {} bytes", png.len());
    if is_updating() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), png).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_fits_every_screen() {
    let _turn = turn().await;
    let world = World::start(Database::Sqlite).await;
    let admin = world.admin.clone();
    let (execution, task) = shop(&world).await;
    let pages = [
        ("overview", "/t/one".to_owned()),
        ("executions", "/t/one/executions".to_owned()),
        ("execution", format!("/t/one/executions/{execution}")),
        ("event", format!("/t/one/executions/{execution}/events/1")),
        ("tasks", "/t/one/tasks".to_owned()),
        ("task", format!("/t/one/tasks/{task}")),
        ("queues", "/t/one/queues".to_owned()),
        ("workers", "/t/one/workers".to_owned()),
        ("access", "/t/one/access".to_owned()),
        ("audit", "/t/one/audit".to_owned()),
    ];
    with_browser(&world, |browser| async move {
        for (screen, width, height) in SCREENS {
            for scheme in ["light", "dark"] {
                browser.look_like(*width, *height, scheme).await;
                browser.open("/login").await;
                take(&browser, "login", scheme, screen).await;
            }
        }
        browser.look_like(1440, 900, "light").await;
        browser.sign_in(&admin).await;
        // The plots need one or two samples.
        browser.until("document.querySelector('.plot-line')?.getAttribute('d')").await;
        for (screen, width, height) in SCREENS {
            for scheme in ["light", "dark"] {
                browser.look_like(*width, *height, scheme).await;
                for (name, path) in &pages {
                    browser.open(path).await;
                    take(&browser, name, scheme, screen).await;
                }
            }
        }
    })
    .await;
}
