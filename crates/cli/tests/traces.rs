//! Traces are exported to a collector, with the caller's span as parent.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

use std::process::Stdio;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use flovyn_proto::v1;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;

const TOKEN: &str = "fwt_traces-0123456789abcdef0123456789abcdef";
const TRACE_ID: [u8; 16] =
    [0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36];
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const PATIENCE: Duration = Duration::from_secs(30);

/// A collector that accepts all requests.
async fn collector() -> (String, mpsc::UnboundedReceiver<Bytes>) {
    let (sender, received) = mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let take = move |body: Bytes| {
        let sender = sender.clone();
        async move {
            // The test may have ended.
            let _ = sender.send(body);
            ([("content-type", "application/grpc"), ("grpc-status", "0")], "")
        }
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(take)).await.unwrap() });
    (url, received)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_traced_under_its_callers_trace() {
    let (collector, mut received) = collector().await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("flovyn.toml");
    let database = folder.path().join("flovyn.db");
    let text = format!(
        "database_url = \"sqlite:{}\"\n[grpc]\naddress = \"127.0.0.1:0\"\n[http]\naddress = \"127.0.0.1:0\"\n\
         [telemetry]\nlog_format = \"json\"\n[[tenants]]\nslug = \"default\"\nworker_tokens = [{{ name = \"t\", token = \"{TOKEN}\" }}]\n",
        database.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_flovyn"))
        .args(["server", "--config", config.to_str().unwrap()])
        .env("FLOVYN_TELEMETRY_OTLP_ENDPOINT", &collector)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next_line().await.unwrap().expect("the server serves");
        if let Some((_, rest)) = line.split_once("\"grpc_addr\":\"") {
            break rest.split('"').next().unwrap().to_owned();
        }
    };
    let channel =
        tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    let start =
        v1::StartWorkflowRequest { workflow_kind: "order".into(), ..v1::StartWorkflowRequest::default() };
    let mut request = tonic::Request::new(start);
    request.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    request.metadata_mut().insert("traceparent", PARENT.parse().unwrap());
    WorkflowDispatchClient::new(channel).start_workflow(request).await.unwrap();

    // Stopping the server flushes pending spans.
    let id = server.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
    loop {
        let body = tokio::time::timeout(PATIENCE, received.recv()).await.expect("a trace in time").unwrap();
        if contains(&body, &TRACE_ID) && contains(&body, b"grpc.request") {
            break;
        }
    }
}
