//! Requests that are not sent completely, over real sockets; and requests that only wait.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use flovyn_proto::v1;
use flovyn_server::Server;
use flovyn_server::config::{ApiKeyConfig, Requests};
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use tempfile::{TempDir, tempdir};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::codegen::{Service, http};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

use crate::{TOKEN, config, start};

const KEY: &str = "flv_0123456789abcdef";
/// A test that waits longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(30);
const START: &str = "/api/tenants/default/workflows/order/trigger";

/// A server with short timeouts.
async fn hasty() -> (TempDir, Server) {
    let folder = tempdir().unwrap();
    let mut config = config(&folder);
    config.requests = Requests { body_silence_ms: 300, limit_ms: 1_000 };
    let hash = flovyn_auth::hash_api_key(KEY);
    config.auth.api_keys = vec![ApiKeyConfig {
        name: "test".into(),
        sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        tenants: vec!["default".into()],
        role: "operator".into(),
        expires_at: None,
    }];
    let server = start(config).await;
    (folder, server)
}

/// Sends these bytes and nothing more, and reads until the server closes the connection.
async fn until_closed(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let end =
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection was not closed");
    // Unread bytes may reset the connection, but the answer arrived before.
    end.ok();
    String::from_utf8(answer).unwrap()
}

fn head(path: &str, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n{more}\r\n")
}

#[tokio::test]
async fn bodies_that_were_sent_in_half_are_closed() {
    let (_folder, server) = hasty().await;
    let address = server.http_addr();
    let sized = head(START, "Content-Length: 100\r\n") + "{";
    let chunked = head(START, "Transfer-Encoding: chunked\r\n") + "1\r\n{\r\n";
    let all = (0..50).map(|n| until_closed(address, if n % 2 == 0 { &sized } else { &chunked }));
    for answer in join_all(all).await {
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("FLV0078"), "{answer}");
        assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    }
    // A caller without access is refused without waiting for the rest.
    let stranger = sized.replace(KEY, "flv_wrong");
    assert!(until_closed(address, &stranger).await.starts_with("HTTP/1.1 401 "));
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n";
    let answer = until_closed(address, &(head("/login", form) + "credential=")).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("FLV0078"), "{answer}");
    server.stop().await;
}

/// The body is never silent for long, and never ends.
#[tokio::test]
async fn a_body_that_drips_is_closed_when_the_whole_request_takes_too_long() {
    let (_folder, server) = hasty().await;
    let (mut reads, mut writes) = TcpStream::connect(server.http_addr()).await.unwrap().into_split();
    writes.write_all(head(START, "Content-Length: 100000\r\n").as_bytes()).await.unwrap();
    let drips = async {
        let mut often = tokio::time::interval(Duration::from_millis(50));
        let mut drops = 0;
        loop {
            often.tick().await;
            if writes.write_all(b" ").await.is_err() {
                return drops;
            }
            drops += 1;
        }
    };
    let mut answer = String::new();
    let (drops, read) =
        timeout(PATIENCE, async { tokio::join!(drips, reads.read_to_string(&mut answer)) }).await.unwrap();
    // Unread bytes may reset the connection, but the answer arrived before.
    read.ok();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("FLV0078"), "{answer}");
    assert!(drops > 6, "the request did not end because of silence: {drops}");
    server.stop().await;
}

#[tokio::test]
async fn callers_who_do_not_say_what_they_want_are_closed() {
    let (_folder, server) = hasty().await;
    let (http, grpc) = (server.http_addr(), server.grpc_addr());
    let preface = "PRI * HTTP/2.0\r\n\r\n";
    for bytes in ["", "P", "GET / HTTP/1.1\r\nHost: loc", preface] {
        until_closed(http, bytes).await;
    }
    for bytes in ["", "P", preface] {
        until_closed(grpc, bytes).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_request_with_two_lengths_is_refused() {
    let (_folder, server) = hasty().await;
    let body = "0\r\n\r\n";
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ] {
        let answer = until_closed(server.http_addr(), &(head(START, lengths) + body)).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("FLV0014"), "{answer}");
        // Also for a later request on the same connection.
        let first = head(START, "Content-Length: 2\r\n") + "{}";
        let both = until_closed(server.http_addr(), &(first + &head(START, lengths) + body)).await;
        assert!(both.contains("HTTP/1.1 400 ") && both.contains("FLV0014"), "{both}");
    }
    server.stop().await;
}

#[tokio::test]
async fn whoever_waits_for_an_answer_is_not_cut() {
    let (_folder, server) = hasty().await;
    // Longer than other requests may take.
    let wait = head(&format!("{START}?wait=3s"), "Connection: close\r\nContent-Length: 2\r\n") + "{}";
    let answer = until_closed(server.http_addr(), &wait).await;
    assert!(answer.starts_with("HTTP/1.1 201 ") && answer.contains("\"execution\":"), "{answer}");
    let channel =
        Endpoint::from_shared(format!("http://{}", server.grpc_addr())).unwrap().connect().await.unwrap();
    let mut dispatch = v1::workflow_dispatch_client::WorkflowDispatchClient::new(channel);
    let mut poll = Request::new(v1::PollRequest {
        worker_id: "w".into(),
        queue: "nothing-here".into(),
        timeout_seconds: 3,
        ..v1::PollRequest::default()
    });
    poll.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    let polled = timeout(PATIENCE, dispatch.poll_workflow(poll)).await.expect("an answer").unwrap();
    assert!(polled.into_inner().workflow_execution.is_none());
    server.stop().await;
}

/// A message of which only a part arrives.
fn half() -> tonic::body::Body {
    // Uncompressed, 100 bytes long; only two of them are sent.
    let part = Ok::<_, Infallible>(Bytes::from_static(&[0, 0, 0, 0, 100, 1, 2]));
    tonic::body::Body::new(axum::body::Body::from_stream(stream::iter([part]).chain(stream::pending())))
}

#[tokio::test]
async fn messages_that_were_sent_in_half_end_their_calls() {
    let (_folder, server) = hasty().await;
    let channel =
        Endpoint::from_shared(format!("http://{}", server.grpc_addr())).unwrap().connect().await.unwrap();
    let calls = (0..50).map(|_| {
        let mut channel = channel.clone();
        async move {
            let request = http::Request::post("/flovyn.v1.WorkflowDispatch/StartWorkflow")
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .header("authorization", format!("Bearer {TOKEN}"))
                .body(half())
                .unwrap();
            poll_fn(|context| channel.poll_ready(context)).await.unwrap();
            timeout(PATIENCE, channel.call(request)).await.expect("the call was not ended").unwrap()
        }
    });
    for response in join_all(calls).await {
        let status = Status::from_header_map(response.headers()).expect("a status without a message");
        let code = status.metadata().get("flovyn-error-code").map(|code| code.to_str().unwrap().to_owned());
        assert_eq!((status.code(), code.as_deref()), (Code::Unavailable, Some("FLV0078")), "{status}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_message_that_never_comes_ends_its_call() {
    let (_folder, server) = hasty().await;
    let channel =
        Endpoint::from_shared(format!("http://{}", server.grpc_addr())).unwrap().connect().await.unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let mut request = Request::new(stream::pending::<v1::StartWorkflowRequest>());
    request.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    let codec = tonic_prost::ProstCodec::<_, v1::StartWorkflowResponse>::default();
    let path = "/flovyn.v1.WorkflowDispatch/StartWorkflow".parse().unwrap();
    let call = grpc.client_streaming(request, path, codec);
    let status = timeout(PATIENCE, call).await.expect("the call was not ended").unwrap_err();
    let code = status.metadata().get("flovyn-error-code").map(|code| code.to_str().unwrap().to_owned());
    assert_eq!((status.code(), code.as_deref()), (Code::Unavailable, Some("FLV0078")), "{status}");
    server.stop().await;
}
