//! Payloads that are not JSON or too large, in every payload field of every rpc.

use flovyn_proto::v1;
use tonic::Code;

use super::messages::Kind;
use super::spoil::{Expect, spoil};
use super::wire::send;
use crate::common::{Database, TOKEN, TestServer};

/// One byte over the limit.
const TOO_LARGE: usize = (1 << 20) + 1;

fn expect(field: &str, refused: Expect) -> Expect {
    match field {
        // A heartbeat on the stream has no answer of its own.
        "Connect:task_heartbeats.details" => Expect::Fine,
        // The key already has an execution with its own input. The input of a new execution is checked below.
        "SignalWithStartWorkflow:workflow_input" => Expect::Fine,
        _ => refused,
    }
}

fn not_json(field: &str) -> Expect {
    expect(field, Expect::Refused(Code::InvalidArgument, "FLV0001"))
}

fn too_large(field: &str) -> Expect {
    expect(field, Expect::Refused(Code::ResourceExhausted, "FLV0020"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_json_is_refused_in_every_payload() {
    spoil(Database::Sqlite, |place| place.kind == Kind::Bytes, b"{\"open\": ", not_json).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_not_even_text_are_refused_in_every_payload() {
    spoil(Database::Sqlite, |place| place.kind == Kind::Bytes, b"\xff\xfe\x00", not_json).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_a_mebibyte_is_refused_in_every_payload() {
    let mut content = vec![b'x'; TOO_LARGE];
    (content[0], content[TOO_LARGE - 1]) = (b'"', b'"');
    spoil(Database::Sqlite, |place| place.kind == Kind::Bytes, &content, too_large).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_input_of_a_start_by_signal_is_checked() {
    let server = TestServer::start(Database::Sqlite).await;
    let message = v1::SignalWithStartWorkflowRequest {
        workflow_id: "new".into(),
        workflow_kind: "kind".into(),
        workflow_input: "{".into(),
        signal_name: "signal".into(),
        ..v1::SignalWithStartWorkflowRequest::default()
    };
    let outcome = send(&server, "WorkflowDispatch/SignalWithStartWorkflow", &message, TOKEN).await;
    assert!(outcome.is(Code::InvalidArgument, "FLV0001"), "{outcome:?}");
    assert!(server.server.api().service().store().snapshot().await.unwrap().executions.is_empty());
}
