//! Every example runs against a real server as its reader would run it: as a program of its own, in a directory with
//! credentials.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use flovyn_server::config::{TenantConfig, WorkerTokenConfig};
use flovyn_server::{Config, Server, ServerOptions};

const TOKEN: &str = "fwt_examples-0123456789abcdef0123456789ab";

async fn start(folder: &Path) -> Server {
    let mut config = Config::local(format!("sqlite:{}", folder.join("flovyn.db").display()));
    config.tenants = vec![TenantConfig {
        id: None,
        slug: "test".into(),
        name: None,
        retention_ms: None,
        worker_tokens: vec![WorkerTokenConfig { name: "test".into(), token: TOKEN.into() }],
    }];
    Server::start(ServerOptions::new(config)).await.unwrap()
}

fn execute(binary: &str, folder: &Path) -> Output {
    let mut command = Command::new(binary);
    command.current_dir(folder).env_remove("FLOVYN_GRPC_URL").env_remove("FLOVYN_WORKER_TOKEN");
    command.output().unwrap()
}

/// Runs it and requires success and these lines, in this order.
async fn runs(binary: &'static str, lines: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let credentials = serde_json::json!({
        "grpc_url": format!("http://{}", server.grpc_addr()),
        "worker_token": TOKEN,
    });
    std::fs::create_dir(folder.path().join(".flovyn")).unwrap();
    std::fs::write(folder.path().join(".flovyn/credentials.json"), credentials.to_string()).unwrap();
    let path = folder.path().to_owned();
    let output = tokio::task::spawn_blocking(move || execute(binary, &path)).await.unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{printed}\n{errors}", output.status);
    let mut rest = printed.lines();
    for line in lines {
        assert!(rest.any(|found| found == *line), "{line:?} is not, or not there, in:\n{printed}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hello() {
    let lines = ["result    Hello, Ada!", "history   1 WORKFLOW_STARTED"];
    runs(env!("CARGO_BIN_EXE_hello"), &lines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn order_saga() {
    let lines = [
        "result    a lamp is on its way to 1 Main Street",
        "undo      refund a chair",
        "undo      release a chair",
        "result    failed: nobody lives there",
        "undo      refund a table",
        "undo      release a table",
        "result    cancelled: changed my mind",
    ];
    runs(env!("CARGO_BIN_EXE_order_saga"), &lines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_out() {
    let lines = ["task      add [1, 2, 3, 4, 5, 6, 7, 8]", "result    36 words"];
    runs(env!("CARGO_BIN_EXE_fan_out"), &lines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn approval() {
    let lines = ["result    approved by Grace", "result    declined: nobody answered in time"];
    runs(env!("CARGO_BIN_EXE_approval"), &lines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reminder() {
    let lines = [
        "task      mail: Ada, this is reminder 2",
        "result    Ada has paid 250",
        "task      mail: Bob, this is reminder 3",
        "result    Bob does not pay: over to the lawyers",
    ];
    runs(env!("CARGO_BIN_EXE_reminder"), &lines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standalone_tasks() {
    let lines = ["task      image 3, attempt 2", "result    all 5 images are done"];
    runs(env!("CARGO_BIN_EXE_standalone_tasks"), &lines).await;
}

/// The worker of the guide, which runs until it is told to stop. What it does, the tests of the guide show.
#[tokio::test(flavor = "multi_thread")]
async fn shop() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path()).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
    command.current_dir(folder.path()).env("FLOVYN_GRPC_URL", format!("http://{}", server.grpc_addr()));
    command.env("FLOVYN_WORKER_TOKEN", TOKEN).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "working; press Ctrl-C to stop\n");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(ended.success(), "{ended}");
    server.stop().await;
}

#[test]
fn without_a_server_it_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = execute(env!("CARGO_BIN_EXE_hello"), folder.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("cannot read .flovyn/credentials.json"), "{errors}");
    assert!(errors.contains("cargo run --release -- dev"), "{errors}");
}
