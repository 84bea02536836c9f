//! A history of 50,000 events: its page appears at once, and its log can be scrolled from end to end.

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::json;

use crate::app::command;
use crate::browser::{turn, with_browser};
use crate::common::Database;
use crate::worker::Worker;
use crate::world::World;

const EVENTS: i64 = 50_000;
const PER_ACTIVATION: i64 = 5_000;

/// An execution that has recorded `EVENTS` operations.
async fn long_history(world: &World, worker: &mut Worker) -> String {
    let id = world.start_order().await;
    let mut written = 1;
    while written < EVENTS {
        let activation = worker.activation().await;
        // A signal wakes the workflow for the next round, and is an event too.
        let count = PER_ACTIVATION.min(EVENTS - written);
        let record = |number: i64| {
            let data = v1::RecordOperationCommand {
                operation_name: format!("step-{number}"),
                result: number.to_string().into_bytes().into(),
            };
            command(v1::CommandType::RecordOperation, CommandData::RecordOperation(data))
        };
        let commands = (written..written + count).map(record).collect();
        let ack = worker.submit(&activation, commands, v1::WorkflowStatus::Suspended).await;
        assert_eq!(ack.code, "");
        written += count;
        if written < EVENTS {
            let path = format!("/workflow-executions/{id}/signal");
            world.post(&path, &json!({ "name": "go" })).await.ok(202);
            written += 1;
        }
    }
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_thousand_events() {
    let _turn = turn().await;
    let world = World::start(Database::Sqlite).await;
    let admin = world.admin.clone();
    let mut worker = Worker::connect(&world.server).await;
    let id = long_history(&world, &mut worker).await;
    let signal = format!("/api/tenants/one/workflow-executions/{id}/signal");
    let (http, bearer) = (world.http.clone(), format!("Bearer {admin}"));
    with_browser(&world, |browser| async move {
        browser.sign_in(&admin).await;
        browser.open(&format!("/t/one/executions/{id}")).await;
        let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
        browser.until(paint).await;
        println!("first paint of {EVENTS} events: {} ms after the click", browser.value(paint).await);
        // The newest events appear at once, with no more rows than are visible.
        let visible = |sequence: i64| {
            format!(
                "(() => {{ const row = document.querySelector('.log-row[data-sequence=\"{sequence}\"]'); if (!row) return false; \
                 const log = document.querySelector('.log').getBoundingClientRect(), box = row.getBoundingClientRect(); \
                 return box.top >= log.top - 1 && box.bottom <= log.bottom + 1; }})()"
            )
        };
        browser.until(&visible(EVENTS)).await;
        let rows = "document.querySelectorAll('.log-row').length <= 500";
        assert_eq!(browser.value(rows).await, json!(true));
        // Go to the start with the button, and back with a key.
        browser.click("[data-log-start]").await;
        browser.until(&visible(1)).await;
        browser.until_says(".log", "Workflow started").await;
        assert_eq!(browser.value(rows).await, json!(true));
        browser.value("document.querySelector('.log').focus()").await;
        browser.press("\u{e010}").await;
        browser.until(&visible(EVENTS)).await;
        // Go to the middle, as with the scroll bar.
        browser.value("document.querySelector('.log').scrollTop = document.querySelector('.log').scrollHeight / 2").await;
        browser.until("document.querySelector('.log-row[data-sequence=\"25000\"]')").await;
        // New events appear at the end, if the visitor is there.
        browser.click("[data-log-end]").await;
        let answer = http.send("POST", &signal, &[("authorization", &bearer)], r#"{"name":"late"}"#).await;
        answer.ok(202);
        browser.until(&visible(EVENTS + 1)).await;
        browser.until_says(".log", "late").await;
    })
    .await;
}
