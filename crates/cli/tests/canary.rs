//! Secrets are put into every place for credentials and for payloads. They must not appear in any log line, metric or
//! error, even at the most verbose log level.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

use std::time::Duration;

use flovyn_sdk::task::LogLevel;
use flovyn_sdk::{Client, Error, PromiseOptions, StartOptions, TaskOptions, Worker};
use flovyn_testkit::{ServerProcess, TestDatabase, fresh_database};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
/// A part of every secret: a text that contains it has leaked.
const CANARY: &str = "canary7Qx";

fn secret(place: &str) -> String {
    format!("{CANARY}-{place}-0123456789abcdef0123456789abcdef")
}

/// A server that logs everything about its own work.
async fn start(folder: &std::path::Path, database_url: &str) -> ServerProcess {
    let jwt = folder.join("jwt.secret");
    std::fs::write(&jwt, secret("jwt")).unwrap();
    let hash = flovyn_auth::hash_api_key(&secret("api-key"));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let settings = format!(
        "database_url = {database_url:?}\nmetrics.access = \"loopback\"\ntelemetry.log_filter = \"debug,flovyn=trace\"\n\
         [auth.jwt]\nsecret_file = {jwt:?}\nissuer = \"canary\"\naudience = \"canary\"\n\
         [[auth.api_keys]]\nname = \"test\"\nsha256 = \"{hash}\"\ntenants = [\"test\"]\nrole = \"operator\"\n\
         [[tenants]]\nslug = \"test\"\nworker_tokens = [{{ name = \"test\", token = {:?} }}]\n",
        secret("token")
    );
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_flovyn"));
    let mut server = ServerProcess::new(binary, folder, "server", &settings).unwrap();
    server.start().unwrap();
    server.ready(PATIENCE).await.unwrap();
    server
}

fn worker(url: &str) -> Worker {
    let builder = Worker::builder(url, secret("token"));
    let builder = builder.task_fn("leaky", |ctx, _: Value| async move {
        ctx.heartbeat(&secret("heartbeat"))?;
        ctx.report_progress(0.5, &secret("progress")).await;
        ctx.log(LogLevel::Info, &secret("log")).await;
        ctx.set_state("kept", &secret("task-state")).await?;
        match ctx.attempt() {
            1 => Err(Error::from(secret("task-error"))),
            _ => Ok(json!(secret("output"))),
        }
    });
    let builder = builder.workflow_fn("careless", |ctx, _: Value| async move {
        ctx.set_state("kept", &secret("state"))?;
        ctx.schedule_raw("leaky", json!(secret("task-input"))).await?;
        ctx.wait_for_signal::<Value>("go").await?;
        let options = PromiseOptions { key: Some("answer".into()), ..PromiseOptions::default() };
        ctx.promise_with_options::<Value>("answer", options).await?;
        ctx.run("step", || secret("operation")).await?;
        Ok(json!(secret("result")))
    });
    let builder = builder
        .workflow_fn("failing", |_, _: Value| async move { Err::<Value, _>(Error::from(secret("failure"))) });
    let builder =
        builder.workflow_fn("panicking", |_, _: Value| async move { panic!("{}", secret("panic")) });
    builder.build().unwrap()
}

/// Sends requests that are refused, and a few that are accepted. Returns the answers.
async fn answers(server: &ServerProcess) -> Vec<String> {
    let mut answers = Vec::new();
    let body = json!({ "input": secret("refused-input"), "labels": { "a": secret("label") }, "unknown": secret("field") });
    let bodies = [
        body.to_string(),
        format!("{{\"input\": {}", secret("malformed")),
        json!({ "input": 1 }).to_string(),
    ];
    let credentials =
        [secret("api-key"), secret("bearer"), format!("{0}.{0}.{0}", secret("forged")), secret("token")];
    for credential in &credentials {
        for body in &bodies {
            for path in ["/api/tenants/test/workflows/careless/trigger", "/api/tenants/test/tasks"] {
                let head = format!(
                    "POST {path} HTTP/1.1\r\nAuthorization: Bearer {credential}\r\nContent-Type: application/json\r\n\
                     Cookie: session={}\r\nIdempotency-Key: {}\r\nContent-Length: {}",
                    secret("cookie"),
                    secret("key"),
                    body.len()
                );
                answers.push(server.ask(&head, body).await.expect("an answer"));
            }
        }
    }
    let unknown = Client::new(&server.grpc_url, &secret("stranger")).unwrap();
    let input = json!(secret("stranger-input"));
    answers
        .push(unknown.start_raw("careless", input, StartOptions::default()).await.unwrap_err().to_string());
    answers
}

async fn nothing_leaks(database_url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path(), database_url).await;
    let worker = worker(&server.grpc_url).start();
    let client = Client::new(&server.grpc_url, &secret("token")).unwrap();
    let options = StartOptions { idempotency_key: Some(secret("workflow-key")), ..StartOptions::default() };
    let started = client.start_raw("careless", json!(secret("input")), options).await.unwrap();
    started.signal("go", &secret("signal")).await.unwrap();
    let answer = async {
        let mut moments = tokio::time::interval(Duration::from_millis(20));
        while client.resolve_promise("key:answer", &secret("answer")).await.is_err() {
            moments.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, answer).await.unwrap();
    let result: Value = started.result(PATIENCE).await.unwrap();
    // Make sure that the server really received the secrets.
    assert_eq!(result, json!(secret("result")));
    let failing = client.start_raw("failing", json!(secret("input")), StartOptions::default()).await.unwrap();
    let failure = failing.result(PATIENCE).await.unwrap_err().to_string();
    assert!(failure.contains(CANARY), "whoever may see the execution sees why it failed: {failure}");
    let once = TaskOptions { max_retries: Some(1), ..TaskOptions::default() };
    let task = client.submit_task_raw("leaky", json!(secret("standalone")), once).await.unwrap();
    client.task::<Value>(task).result(PATIENCE).await.unwrap_err();
    client.start_raw("panicking", json!(secret("input")), StartOptions::default()).await.unwrap();
    let mut leaked: Vec<String> = answers(&server).await;
    leaked.push(server.get("/_/metrics").await.expect("metrics"));
    worker.stop().await;
    server.kill().await;
    let log = server.log();
    assert!(log.lines().count() > 20, "the server said too little to leak anything:\n{log}");
    leaked.push(log);
    let leaks: Vec<&str> =
        leaked.iter().flat_map(|text| text.lines()).filter(|line| line.contains(CANARY)).collect();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leaks_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    nothing_leaks(&format!("sqlite:{}", folder.path().join("flovyn.db").display())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leaks_on_postgres() {
    let database: TestDatabase = fresh_database().await;
    let (before, after) = database.url.split_once('@').unwrap();
    let (scheme, user) = before.split_once("://").unwrap();
    let user = user.split(':').next().unwrap();
    // The throw-away cluster trusts local connections with any password.
    nothing_leaks(&format!("{scheme}://{user}:{}@{after}", secret("password"))).await;
}
