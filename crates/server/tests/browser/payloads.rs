//! Payloads are shown and not run, and only the visitor's own tenant is visible.

use serde_json::json;

use crate::browser::{turn, with_browser};
use crate::common::Database;
use crate::world::{World, text};

#[tokio::test(flavor = "multi_thread")]
async fn payloads_are_shown_and_not_run() {
    let _turn = turn().await;
    let world = World::start(Database::Sqlite).await;
    let admin = world.admin.clone();
    let deep = "{\"a\":".repeat(60) + "1" + &"}".repeat(60);
    let input = json!({
        "<script>window.hacked = 1</script>": "<img src=x onerror='window.hacked = 2'>",
        "close": "</code></pre></main><script>window.hacked = 3</script>",
        "rtl": "مرحبا بالعالم",
        "turned": "report\u{202e}fdp.exe",
        "huge": "x".repeat(900_000),
        "deep": serde_json::from_str::<serde_json::Value>(&deep).unwrap(),
    });
    let kind = "<svg onload='window.hacked = 4'>";
    let body =
        json!({ "kind": kind, "input": input, "labels": { "<b>": "\"><script>window.hacked = 5</script>" } });
    let id = text(&world.post("/workflow-executions", &body).await.ok(201)["workflowExecutionId"]);
    with_browser(&world, |browser| async move {
        browser.sign_in(&admin).await;
        for path in [format!("/t/one/executions/{id}"), format!("/t/one/executions/{id}/events/1"), "/t/one/executions".into(), "/t/one".into()] {
            browser.open(&path).await;
            assert_eq!(browser.value("window.hacked === undefined").await, json!(true), "{path}");
            let foreign = "document.querySelectorAll('main script, main img, main svg[onload], main [style]:not(.log-page, .log-whole)').length";
            assert_eq!(browser.value(foreign).await, json!(0), "{path}");
            // Nothing is wider than the page.
            let wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
            assert_eq!(browser.value(wide).await, json!(false), "{path}");
        }
        browser.open(&format!("/t/one/executions/{id}")).await;
        let shown = browser.text("[data-part=payloads]").await;
        for word in ["<script>window.hacked = 1</script>", "مرحبا بالعالم", "\\u202e", "900,002 bytes"] {
            assert!(shown.contains(word), "{word} in {shown}");
        }
        assert_eq!(browser.text("h1").await, kind);
        // The row of an event opens beside the log, and is harmless too.
        browser.click(".log-row").await;
        browser.until_says("[data-log-detail]", "WORKFLOW_STARTED").await;
        assert_eq!(browser.value("window.hacked === undefined").await, json!(true));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_ones_own_tenant_is_there() {
    let _turn = turn().await;
    let world = World::start(Database::Sqlite).await;
    let id = world.start_order().await;
    let other = world.token(&["two"], "admin");
    with_browser(&world, |browser| async move {
        browser.sign_in(&other).await;
        assert_eq!(browser.value("location.pathname").await, json!("/t/two"));
        browser.open("/t/two/executions").await;
        browser.until_says("main", "No executions yet").await;
        for path in
            [format!("/t/one/executions/{id}"), format!("/t/two/executions/{id}"), "/t/one".to_owned()]
        {
            browser.open(&path).await;
            assert_eq!(browser.text(".lonely-status").await, "404", "{path}");
        }
        let links = browser
            .value("[...document.links].filter((link) => link.pathname.startsWith('/t/one')).length")
            .await;
        assert_eq!(links, json!(0));
    })
    .await;
}
