//! Hostile names and payloads of workers are shown in a real browser, and nothing in them runs.

use serde_json::json;

use crate::browser::{turn, with_browser};
use crate::common::Database;
use crate::set_up::hostile::Hostile;
use crate::world::World;

/// Selects elements that the pages themselves do not create.
const FOREIGN: &str =
    "document.querySelectorAll('main script, main img, main [onmouseover], main [onerror]').length";
/// Finds marks that change the text direction, anywhere in readable text.
const TURNED: &str =
    "/[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.documentElement.innerText + document.title)";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_workers_send_runs() {
    let _turn = turn().await;
    let world = World::start(Database::Sqlite).await;
    let admin = world.admin.clone();
    let mut hostile = Hostile::start(&world).await;
    with_browser(&world, |browser| async move {
        browser.sign_in(&admin).await;
        let own = format!("/t/one/executions/{}", hostile.execution);
        let task = format!("{own}/tasks/{}", hostile.task);
        let pages = [
            "/t/one".to_owned(),
            "/t/one/executions".to_owned(),
            own.clone(),
            format!("/t/one/executions/{}", hostile.failed),
            format!("{own}/events/3"),
            "/t/one/tasks".to_owned(),
            format!("/t/one/tasks/{}", hostile.alone),
            "/t/one/queues".to_owned(),
            "/t/one/workers".to_owned(),
            "/t/one/audit".to_owned(),
            task.clone(),
        ];
        for path in &pages {
            browser.open(path).await;
            assert_eq!(browser.value("window.hacked === undefined").await, json!(true), "{path}");
            assert_eq!(browser.value(FOREIGN).await, json!(0), "{path}");
            assert_eq!(browser.value(TURNED).await, json!(false), "{path}");
            let wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
            assert_eq!(browser.value(wide).await, json!(false), "{path}");
        }
        // On the page of the task, swapped and streamed content is harmless too.
        browser.until_says("[data-part=log]", "line</title></code><script>").await;
        hostile.stream().await;
        browser.until_says("[data-streamed]", "datum</title></code><script>").await;
        browser.until_says("[data-streamed]", "\\u202etxt").await;
        hostile.worker.fail_task(&hostile.claimed, "</pre><script>window.hacked=4</script>\u{202e}").await;
        browser.until_says("[data-part=attempts]", "<script>window.hacked=4</script>\\u202e").await;
        assert_eq!(browser.value("window.hacked === undefined").await, json!(true));
        assert_eq!((browser.value(FOREIGN).await, browser.value(TURNED).await), (json!(0), json!(false)));
        // The same holds for the row of an event that is opened beside the log.
        browser.open(&own).await;
        browser.click(".log-row").await;
        browser.until_says("[data-log-detail]", "WORKFLOW_STARTED").await;
        assert_eq!(browser.value("window.hacked === undefined").await, json!(true));
    })
    .await;
}
