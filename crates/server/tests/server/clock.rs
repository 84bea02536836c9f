//! The virtual clock of a development server.

use flovyn_engine::ids::Payload;
use flovyn_engine::request::{CreateTask, TaskSpec};
use flovyn_server::{Server, ServerOptions, StartError};
use serde_json::json;
use tempfile::tempdir;

use crate::http::send;
use crate::{TOKEN, config};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

#[tokio::test]
async fn time_moves_only_when_told_and_starts_what_is_due() {
    let folder = tempdir().unwrap();
    let options = ServerOptions { virtual_clock: true, ..ServerOptions::new(config(&folder)) };
    let server = Server::start(options).await.unwrap();
    let service = server.api().service();
    let tenant = service.store().tenant_by_slug("default").await.unwrap().unwrap();
    let began_ms = service.store().now().await.unwrap().ms;
    let mut task = CreateTask::standalone(TaskSpec::new("report", Payload::from_static(b"{}")));
    task.scheduled_ms = Some(began_ms + 2 * DAY_MS);
    service.call(tenant.id, task).await.unwrap();

    let advance = async |body: String| {
        let credential = format!("Bearer {TOKEN}");
        let headers = [("Host", "localhost"), ("Authorization", credential.as_str())];
        send(server.http_addr(), "POST", "/_/clock/advance", &headers, &body).await
    };
    let ready = async || {
        let depths = service.store().queue_depths(tenant.id, 10).await.unwrap();
        depths.iter().map(|depth| depth.ready).sum::<i64>()
    };
    for (days, expected) in [(1, 0), (3, 1)] {
        let answer = advance(json!({ "ms": days * DAY_MS }).to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(ready().await, expected, "after {days} more days");
    }
    let now = service.store().now().await.unwrap();
    assert_eq!(now.ms, began_ms + 4 * DAY_MS);
    assert!(now.lease_ms < began_ms + DAY_MS, "leases use real time");
    for wrong in ["", "{\"ms\": -1}", "{\"ms\": 1, \"s\": 2}", "{\"ms\": 9e18}"] {
        assert_eq!(advance(wrong.to_owned()).await.status, 400, "{wrong}");
    }
    let nobody =
        send(server.http_addr(), "POST", "/_/clock/advance", &[("Host", "localhost")], "{\"ms\": 1}").await;
    assert_eq!(nobody.status, 401);
    server.stop().await;
}

#[tokio::test]
async fn postgres_has_no_virtual_clock() {
    let folder = tempdir().unwrap();
    let mut config = config(&folder);
    config.database_url.0 = "postgres://127.0.0.1/none".to_owned();
    let options = ServerOptions { virtual_clock: true, ..ServerOptions::new(config) };
    let error = Server::start(options).await.unwrap_err();
    assert!(matches!(error, StartError::Config(_)), "{error}");
}
