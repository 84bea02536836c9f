//! Invalid ids, in every id field of every rpc.

use tonic::Code;

use super::messages::is_id;
use super::spoil::{Expect, assert_goes_on, spoil};
use super::wire::send;
use crate::common::{Database, TOKEN, TestServer};
use flovyn_proto::v1;

fn expect(field: &str) -> Expect {
    match field {
        // A tenant may be named by its slug, and an unknown tenant looks like another caller's tenant.
        _ if field.ends_with("org_id") => Expect::Refused(Code::PermissionDenied, "FLV0081"),
        // Pollers may use a name instead of an id.
        "PollWorkflow:worker_id" | "PollTask:worker_id" | "SubscribeToNotifications:worker_id" => {
            Expect::Fine
        }
        // This field is an idempotency key.
        "SignalWithStartWorkflow:workflow_id" => Expect::Fine,
        // Spans are only logged.
        "ReportExecutionSpans:spans.workflow_id" | "ReportExecutionSpans:spans.task_id" => Expect::Fine,
        // A heartbeat on the stream has no answer, and an unknown id is ignored.
        "Connect:task_heartbeats.task_execution_id" => Expect::Fine,
        _ => Expect::Refused(Code::InvalidArgument, "FLV0004"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_is_no_id_is_refused_in_every_id_field() {
    spoil(Database::Sqlite, |place| is_id(&place.path), b"not-a-uuid", expect).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nil_id_is_refused_in_every_id_field() {
    let nil = b"00000000-0000-0000-0000-000000000000";
    spoil(Database::Sqlite, |place| is_id(&place.path), nil, expect).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_spelling_of_an_id_is_refused_in_every_id_field() {
    for other in [
        "0190AAAA-0000-7000-8000-0000000000FF",
        "0190aaaa00007000800000000000000f",
        "{0190aaaa-0000-7000-8000-00000000000f}",
        "urn:uuid:0190aaaa-0000-7000-8000-00000000000f",
    ] {
        spoil(Database::Sqlite, |place| is_id(&place.path), other.as_bytes(), expect).await;
    }
}

/// The error message quotes what the caller sent, and is transferred as a header.
#[tokio::test(flavor = "multi_thread")]
async fn a_very_long_id_is_refused_like_any_other() {
    let server = TestServer::start(Database::Sqlite).await;
    for length in [10_000, 100_000, 3 << 20] {
        let message = v1::GetExecutionRequest {
            workflow_execution_id: "\u{e9}".repeat(length / 2),
            ..v1::GetExecutionRequest::default()
        };
        let outcome = send(&server, "WorkflowClient/GetExecution", &message, TOKEN).await;
        assert!(outcome.is(Code::InvalidArgument, "FLV0004"), "{length}: {:?} {}", outcome.grpc, outcome.flv);
        assert!(outcome.message.len() < 2_000, "{}", outcome.message.len());
    }
    assert_goes_on(&server).await;
}
