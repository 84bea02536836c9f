//! Start, health, metrics and stop.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use flovyn_auth::hash_api_key;
use flovyn_server::config::{ApiKeyConfig, Jwt, Metrics, MetricsAccess};
use flovyn_server::{Server, ServerOptions, StartError};
use flovyn_store::StoreError;
use tempfile::tempdir;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::http::{get, send};
use crate::{TOKEN, config, start};

#[tokio::test]
async fn a_server_answers_and_stops() {
    let folder = tempdir().unwrap();
    let server = start(config(&folder)).await;
    let address = server.http_addr();
    for path in ["/_/health", "/_/health/live", "/_/health/ready"] {
        let answer = get(address, path).await;
        assert_eq!((answer.status, answer.json()["status"].as_str()), (200, Some("ok")), "{path}");
    }
    let missing = get(address, "/nothing").await;
    assert_eq!(missing.status, 404);
    let body = missing.json();
    assert!(
        body["error"] == "there is nothing at /nothing"
            && body["message"].is_string()
            && body["code"] == "FLV0082",
        "{body}"
    );
    assert_eq!(send(address, "POST", "/_/health", &[("Host", "localhost")], "").await.status, 405);

    server.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    // The lock on the file is released, too.
    start(config(&folder)).await.stop().await;
}

#[tokio::test]
async fn a_server_that_drains_is_alive_but_not_ready() {
    let folder = tempdir().unwrap();
    let server = start(config(&folder)).await;
    server.drain();
    server.api().drains().await;
    let ready = get(server.http_addr(), "/_/health/ready").await;
    assert_eq!((ready.status, ready.json()["reason"].as_str()), (503, Some("draining")));
    assert_eq!(get(server.http_addr(), "/_/health").await.status, 503);
    assert_eq!(get(server.http_addr(), "/_/health/live").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn metrics_take_the_scrape_token_of_a_file() {
    let folder = tempdir().unwrap();
    let mut config = config(&folder);
    let (file, scrape_token) = (folder.path().join("scrape"), "0123456789abcdef0123456789abcdef");
    config.metrics.token_file = Some(file.clone());
    let error = Server::start(ServerOptions::new(config.clone())).await.unwrap_err();
    assert!(error.to_string().contains("metrics.token_file"), "{error}");
    std::fs::write(&file, "short\n").unwrap();
    let error = Server::start(ServerOptions::new(config.clone())).await.unwrap_err();
    assert!(error.to_string().contains("metrics.token_file: use 32 to 512"), "{error}");
    std::fs::write(&file, format!("{scrape_token}\n")).unwrap();
    let server = start(config).await;
    let ask = async |credential: &str| {
        let headers = [("Host", "localhost"), ("Authorization", credential)];
        send(server.http_addr(), "GET", "/_/metrics", &headers, "").await
    };
    assert_eq!(get(server.http_addr(), "/_/metrics").await.status, 401);
    assert_eq!(ask("Bearer fwt_wrong").await.status, 401);
    assert_eq!(ask("Basic abc").await.status, 401);
    // A worker of one tenant may not see the metrics of others.
    assert_eq!(ask(&format!("Bearer {TOKEN}")).await.status, 403);
    let answer = ask(&format!("Bearer {scrape_token}")).await;
    assert_eq!(answer.status, 200);
    for name in ["flovyn_store_commits_total 2", "flovyn_pollers_waiting 0", "flovyn_build_info{version="] {
        assert!(answer.body.contains(name), "{name} is not in {}", answer.body);
    }
    server.stop().await;
}

#[tokio::test]
async fn grpc_requests_are_counted_by_method_and_code() {
    let folder = tempdir().unwrap();
    let mut config = config(&folder);
    config.metrics = Metrics { access: MetricsAccess::Loopback, ..Metrics::default() };
    let server = start(config).await;
    let channel =
        Endpoint::from_shared(format!("http://{}", server.grpc_addr())).unwrap().connect().await.unwrap();
    HealthClient::new(channel).check(HealthCheckRequest::default()).await.unwrap();
    let text = get(server.http_addr(), "/_/metrics").await.body;
    let counted = |line: &str| {
        line.starts_with("flovyn_grpc_requests_total{")
            && line.contains("method=\"/grpc.health.v1.Health/Check\"")
            && line.contains("code=\"0\"")
    };
    assert!(text.lines().any(counted), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn a_development_server_refuses_foreign_pages() {
    let folder = tempdir().unwrap();
    let options = ServerOptions { local_only: true, ..ServerOptions::new(config(&folder)) };
    let server = Server::start(options).await.unwrap();
    let address = server.http_addr();
    assert_eq!(get(address, "/_/health").await.status, 200);
    assert_eq!(send(address, "GET", "/_/health", &[("Host", "evil.example")], "").await.status, 403);
    let foreign = [("Host", "localhost"), ("Origin", "https://evil.example")];
    assert_eq!(send(address, "GET", "/_/health", &foreign, "").await.status, 403);
    server.stop().await;
}

#[tokio::test]
async fn a_broken_authenticator_stops_the_start() {
    let folder = tempdir().unwrap();
    let mut config = config(&folder);
    let secret = folder.path().join("secret");
    config.auth.jwt = Some(Jwt::with_secret_file(&secret, "i", "a"));
    for content in [None, Some("too short")] {
        if let Some(content) = content {
            std::fs::write(&secret, content).unwrap();
        }
        let error = Server::start(ServerOptions::new(config.clone())).await.unwrap_err();
        assert!(matches!(error, StartError::Config(_)), "{error}");
        assert!(error.to_string().contains("auth.jwt.secret_file"), "{error}");
    }
}

#[tokio::test]
async fn an_address_in_use_and_a_locked_database_are_named() {
    let (folder, other) = (tempdir().unwrap(), tempdir().unwrap());
    let server = start(config(&folder)).await;
    let mut taken = config(&other);
    taken.http.address = server.http_addr();
    let error = Server::start(ServerOptions::new(taken)).await.unwrap_err();
    assert!(error.to_string().contains(&server.http_addr().to_string()), "{error}");
    let error = Server::start(ServerOptions::new(config(&folder))).await.unwrap_err();
    assert!(error.to_string().contains("locked"), "{error}");
    server.stop().await;
}

/// The file is overwritten while it is served. A read finds the damage; no batch does.
#[tokio::test]
async fn a_server_that_reads_a_damaged_page_is_not_ready_and_must_end() {
    const PAGE: usize = 4_096;
    const KEY: &str = "flv_0123456789abcdef";
    let folder = tempdir().unwrap();
    let path = folder.path().join("flovyn.db");
    let mut config = config(&folder);
    config.auth.api_keys = vec![ApiKeyConfig {
        name: "reader".to_owned(),
        sha256: hash_api_key(KEY).iter().map(|byte| format!("{byte:02x}")).collect(),
        tenants: vec!["*".to_owned()],
        role: "admin".to_owned(),
        expires_at: None,
    }];
    // The data is in the file and not in its write-ahead log.
    start(config.clone()).await.stop().await;
    let server = start(config.clone()).await;
    let credential = format!("Bearer {KEY}");
    let headers = [("Host", "localhost"), ("Authorization", credential.as_str())];
    let ask = async |place: &str| {
        let path = format!("/api/tenants/default{place}");
        send(server.http_addr(), "GET", &path, &headers, "").await
    };
    // The server remembers the caller from now on.
    assert_eq!(ask("").await.status, 200);
    let pages = std::fs::metadata(&path).unwrap().len() / PAGE as u64;
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    for page in 1..pages {
        file.write_all_at(&[0xA5; PAGE], page * PAGE as u64).unwrap();
    }
    let mut answers = Vec::new();
    // Some pages are still in memory.
    for place in ["/workflow-executions", "/tasks", "/workers", "/audit-log"] {
        let answer = ask(place).await;
        answers.push((place, answer.status, answer.json()["code"].clone()));
    }
    assert!(answers.iter().any(|(_, status, code)| *status == 503 && code == "FLV0079"), "{answers:?}");
    let reason = tokio::time::timeout(Duration::from_secs(60), server.fatal()).await.unwrap();
    assert!(reason.contains("the database is damaged"), "{reason}");
    let ready = get(server.http_addr(), "/_/health/ready").await;
    assert_eq!((ready.status, ready.json()["reason"].as_str()), (503, Some("storageFailed")));
    server.stop().await;
    let error = Server::start(ServerOptions::new(config)).await.unwrap_err();
    assert!(matches!(error, StartError::Store(StoreError::Damaged(_))), "{error}");
}
