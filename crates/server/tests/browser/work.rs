//! The usual actions: start, watch, cancel, answer, read an error, filter. No test reloads a page.

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::json;
use uuid::Uuid;

use crate::app::{command, schedule_task};
use crate::browser::{turn, with_browser};
use crate::common::Database;
use crate::worker::{Worker, signed};
use crate::world::{World, complete_next, fail_next, text};

async fn world() -> World {
    World::start(Database::Sqlite).await
}

/// A mark on the page, which is lost if the page is reloaded.
const MARK: &str = "(window.kept = true)";
const KEPT: &str = "window.kept === true";

#[tokio::test(flavor = "multi_thread")]
async fn start_a_workflow_and_watch_it_finish() {
    let _turn = turn().await;
    let world = world().await;
    let admin = world.admin.clone();
    let mut worker = Worker::connect(&world.server).await;
    with_browser(&world, |browser| async move {
        browser.sign_in(&admin).await;
        browser.open("/t/one/executions").await;
        browser.click("[popovertarget=start]").await;
        // A mistake is reported where it was made, and the typed text is kept.
        browser.write("#start input[name=kind]", "order").await;
        browser.write("#start textarea", "{\"order\": ").await;
        browser.click("#start .primary").await;
        browser.until_says("#start .problem", "input is not JSON").await;
        browser.write("#start textarea", "{\"order\": 42}").await;
        browser.click("#start .primary").await;
        browser.until("location.pathname.startsWith('/t/one/executions/') && document.documentElement.dataset.ready").await;
        browser.until_says("[data-part=payloads]", "42").await;
        browser.value(MARK).await;

        let activation = worker.activation().await;
        browser.until_says("[data-part=head] .status", "Running").await;
        let task = Uuid::new_v4();
        worker.submit(&activation, vec![schedule_task(task, 3)], v1::WorkflowStatus::Suspended).await;
        browser.until_says("[data-part=waiting]", "charge").await;
        let claimed = worker.task().await;
        worker.complete_task(&claimed, "7").await;
        complete_next(&mut worker, "{\"total\": 99}").await;
        browser.until_says("[data-part=head] .status", "Completed").await;
        browser.until_says("[data-part=payloads]", "99").await;
        browser.until_says(".log", "Workflow completed").await;
        browser.until_says("[data-part=timeline]", "charge").await;
        assert_eq!(browser.value(KEPT).await, json!(true), "the page was not reloaded");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_one_and_resolve_a_promise() {
    let _turn = turn().await;
    let world = world().await;
    let admin = world.admin.clone();
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let lonely = world.post("/workflow-executions", &json!({ "kind": "lonely" })).await.ok(201);
    let lonely = text(&lonely["workflowExecutionId"]);
    let activation = worker.activation().await;
    let data =
        v1::CreatePromiseCommand { promise_id: "approval".into(), ..v1::CreatePromiseCommand::default() };
    let promise = command(v1::CommandType::CreatePromise, CommandData::CreatePromise(data));
    worker.submit(&activation, vec![promise], v1::WorkflowStatus::Suspended).await;
    with_browser(&world, |browser| async move {
        browser.sign_in(&admin).await;
        browser.open(&format!("/t/one/executions/{id}")).await;
        browser.value(MARK).await;
        browser.until_says("[data-part=waiting]", "promise approval is open").await;
        browser.click("[popovertarget^=resolve]").await;
        browser.write(".dialog:popover-open textarea", "{\"by\": \"ada\"}").await;
        browser.click(".dialog:popover-open .primary").await;
        browser.until_says(".log", "Promise resolved").await;
        let next = worker.activation().await;
        worker.submit(&next, vec![], v1::WorkflowStatus::Suspended).await;
        browser.until_says("[data-part=waiting]", "waiting for a signal").await;
        assert_eq!(browser.value(KEPT).await, json!(true), "the page was not reloaded");
        // An execution without a worker for its kind.
        browser.open(&format!("/t/one/executions/{lonely}")).await;
        browser.value(MARK).await;
        browser.until_says("[data-part=waiting]", "no live worker has lonely").await;
        browser.click("[popovertarget=cancel]").await;
        browser.write("#cancel input[name=reason]", "not needed").await;
        browser.click("#cancel .primary").await;
        browser.until_says("[data-part=head] .status", "Cancelled").await;
        browser.until_says("[data-part=payloads]", "not needed").await;
        browser.until("document.querySelector('[popovertarget=retry]')?.checkVisibility()").await;
        assert_eq!(browser.value(KEPT).await, json!(true), "the page was not reloaded");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_the_error_of_an_attempt_and_retry() {
    let _turn = turn().await;
    let world = world().await;
    let admin = world.admin.clone();
    let mut worker = Worker::connect(&world.server).await;
    let body = json!({ "task_type": "charge", "max_retries": 2 });
    let id = text(&world.post("/tasks", &body).await.ok(201)["id"]);
    for error in ["the card was declined", "the bank is closed"] {
        let claimed = worker.task().await;
        worker.fail_task(&claimed, error).await;
    }
    let channel = world.server.channel();
    with_browser(&world, |browser| async move {
        browser.sign_in(&admin).await;
        browser.open("/t/one/tasks?status=FAILED").await;
        browser.click("[data-rows] .row-link").await;
        browser.until_says("[data-part=attempts]", "the card was declined").await;
        browser.until_says("[data-part=attempts]", "the bank is closed").await;
        browser.value(MARK).await;
        browser.click("[data-part=head] .primary").await;
        let claimed = worker.task().await;
        browser.until_says("[data-part=head] .status", "Running").await;
        // Progress of the task is shown while it runs.
        let mut tasks = TaskExecutionClient::new(channel);
        let progress = v1::ReportProgressRequest {
            task_execution_id: id.clone(),
            progress: 0.4,
            details: "2 of 5".into(),
            claim_token: Some(claimed.claim_token),
        };
        tasks.report_progress(signed(progress)).await.unwrap();
        let line = v1::LogMessageRequest {
            task_execution_id: id.clone(),
            level: "WARN".into(),
            message: "slow bank".into(),
            claim_token: Some(claimed.claim_token),
        };
        tasks.log_message(signed(line)).await.unwrap();
        browser.until_says("[data-part=head] .progress", "40 %").await;
        browser.until_says("[data-part=head] .progress", "2 of 5").await;
        browser.until_says("[data-part=log]", "slow bank").await;
        let datum = v1::StreamTaskDataRequest {
            task_execution_id: id,
            sequence: 1,
            payload: "{\"token\":\"hello\"}".into(),
            claim_token: Some(claimed.claim_token),
            ..v1::StreamTaskDataRequest::default()
        };
        tasks.stream_task_data(signed(datum)).await.unwrap();
        browser.until_says("[data-streamed]", "hello").await;
        worker.complete_task(&claimed, "7").await;
        browser.until_says("[data-part=head] .status", "Completed").await;
        assert_eq!(browser.value(KEPT).await, json!(true), "the page was not reloaded");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filter_executions_and_go_by_keys() {
    let _turn = turn().await;
    let world = world().await;
    let admin = world.admin.clone();
    let mut worker = Worker::connect(&world.server).await;
    let failed = world.start_order().await;
    fail_next(&mut worker).await;
    let other = json!({ "kind": "refund", "labels": { "team": "shop" } });
    let other = text(&world.post("/workflow-executions", &other).await.ok(201)["workflowExecutionId"]);
    with_browser(&world, |browser| async move {
        const ROWS: &str = "[...document.querySelectorAll('[data-part=list] .row-link')].map((row) => row.pathname.split('/').at(-1))";
        browser.sign_in(&admin).await;
        browser.open("/t/one/executions").await;
        assert_eq!(browser.value(ROWS).await, json!([other, failed]));
        browser.click(".chips a[href*=FAILED]").await;
        browser.until("location.search === '?status=FAILED' && document.documentElement.dataset.ready").await;
        assert_eq!(browser.value(ROWS).await, json!([failed]));
        browser.open("/t/one/executions").await;
        // With keys: search, go down to the row, open it.
        browser.press("/").await;
        browser.press("team:shop\u{e007}").await;
        browser.until("location.search === '?q=team%3Ashop' && document.documentElement.dataset.ready").await;
        assert_eq!(browser.value(ROWS).await, json!([other]));
        browser.press("j").await;
        browser.press("\u{e007}").await;
        browser.until(&format!("location.pathname.endsWith('{other}') && document.documentElement.dataset.ready")).await;
        browser.press("?").await;
        browser.until("document.querySelector('#help').matches(':popover-open')").await;
        browser.press("\u{e00c}").await;
        browser.until("!document.querySelector('#help').matches(':popover-open')").await;
        browser.press("d").await;
        let theme = browser.value("document.documentElement.dataset.theme").await;
        browser.press("g").await;
        browser.press("q").await;
        browser.until("location.pathname === '/t/one/queues' && document.documentElement.dataset.ready").await;
        assert_eq!(browser.value("document.documentElement.dataset.theme").await, theme, "the choice is kept");
        // A new execution appears in the list by itself.
        browser.open("/t/one/executions").await;
        browser.value(MARK).await;
        let newest = text(&world_start(&browser.server, &admin).await);
        browser.until(&format!("({ROWS})[0] === '{newest}'")).await;
        assert_eq!(browser.value(KEPT).await, json!(true));
    })
    .await;
}

/// Starts an execution over REST, as another user would.
async fn world_start(server: &str, token: &str) -> serde_json::Value {
    let http = crate::http::Http::new(server.strip_prefix("http://").unwrap().parse().unwrap());
    let bearer = format!("Bearer {token}");
    let path = "/api/tenants/one/workflows/late/trigger";
    let answer = http.send("POST", path, &[("authorization", &bearer)], "{}").await;
    answer.ok(201)["workflowExecutionId"].take()
}
