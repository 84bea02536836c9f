//! Worker streams with an invalid beginning.

use flovyn_proto::v1;
use prost::Message;
use tonic::Code;

use super::spoil::assert_goes_on;
use super::table::{hello, new_id};
use super::wire::{CONNECT, Outcome, call};
use super::world::Ids;
use crate::common::{Database, TOKEN, TestServer};

fn good() -> v1::StreamHello {
    hello(&Ids { session: new_id(), ..Ids::default() })
}

fn frame(hello: v1::StreamHello) -> v1::WorkerFrame {
    v1::WorkerFrame { hello: Some(hello), ..v1::WorkerFrame::default() }
}

async fn connect(server: &TestServer, frames: &[v1::WorkerFrame]) -> Outcome {
    call(server, CONNECT, frames.iter().map(Message::encode_to_vec).collect(), TOKEN).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_exactly_one_hello() {
    let server = TestServer::start(Database::Sqlite).await;
    let silent = connect(&server, &[v1::WorkerFrame { heartbeat: true, ..Default::default() }]).await;
    assert!(silent.is(Code::FailedPrecondition, "FLV0062"), "{silent:?}");
    let twice = connect(&server, &[frame(good()), frame(good())]).await;
    assert!(twice.is(Code::FailedPrecondition, "FLV0062"), "{twice:?}");
    let fine = connect(&server, &[frame(good())]).await;
    assert_eq!((fine.grpc, fine.frames.len()), (Code::Ok, 1), "{fine:?}");
    assert_goes_on(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_has_at_most_a_thousand_kinds() {
    let server = TestServer::start(Database::Sqlite).await;
    let workflow = |index| v1::StreamWorkflowKind {
        kind: format!("kind-{index}"),
        versions: Vec::new(),
        ..v1::StreamWorkflowKind::default()
    };
    let workflows = v1::StreamHello { workflows: (0..1_001).map(workflow).collect(), ..good() };
    let task = |index| v1::StreamTaskType {
        task_type: format!("type-{index}"),
        timeout_ms: None,
        ..v1::StreamTaskType::default()
    };
    let tasks = v1::StreamHello { tasks: (0..1_001).map(task).collect(), ..good() };
    let versions = (0..1_001).map(|index| index.to_string()).collect();
    let versions =
        vec![v1::StreamWorkflowKind { kind: "kind".into(), versions, ..v1::StreamWorkflowKind::default() }];
    let versions = v1::StreamHello { workflows: versions, ..good() };
    for hello in [workflows, tasks, versions] {
        let outcome = connect(&server, &[frame(hello)]).await;
        assert!(outcome.is(Code::InvalidArgument, "FLV0008"), "{outcome:?}");
    }
    let workers = server.server.api().service().store().snapshot().await.unwrap().workers;
    assert!(workers.is_empty(), "a refused hello registers no worker: {workers:?}");
    assert_goes_on(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_without_content_and_impossible_timeouts_are_refused() {
    let server = TestServer::start(Database::Sqlite).await;
    let task = v1::StreamTaskType {
        task_type: "charge".into(),
        timeout_ms: Some(-1),
        ..v1::StreamTaskType::default()
    };
    let outcome = connect(&server, &[frame(v1::StreamHello { tasks: vec![task], ..good() })]).await;
    assert!(outcome.is(Code::InvalidArgument, "FLV0006"), "{outcome:?}");
    let empty = v1::WorkerFrame {
        activations: vec![v1::ActivationResult { r#ref: 1, ..v1::ActivationResult::default() }],
        tasks: vec![v1::TaskResult { r#ref: 2, result: None, next: None }],
        ..frame(good())
    };
    let outcome = connect(&server, &[empty]).await;
    let acks = outcome.frames.iter().flat_map(|bytes| v1::ServerFrame::decode(&bytes[..]).unwrap().acks);
    let acks: Vec<(u64, String, bool)> = acks.map(|ack| (ack.r#ref, ack.code, ack.retryable)).collect();
    assert_eq!(acks, [(1, "FLV0009".into(), false), (2, "FLV0009".into(), false)]);
    // More credit than the maximum is capped and does not overflow.
    let greedy = v1::WorkerFrame { workflow_credits: u32::MAX, task_credits: u32::MAX, ..frame(good()) };
    let more =
        v1::WorkerFrame { workflow_credits: u32::MAX, task_credits: u32::MAX, ..v1::WorkerFrame::default() };
    assert_eq!(connect(&server, &[greedy, more]).await.grpc, Code::Ok);
    assert_goes_on(&server).await;
}
