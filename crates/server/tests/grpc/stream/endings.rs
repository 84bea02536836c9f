//! A workflow does not end while there is a signal that it has not seen.

use flovyn_proto::v1;
use flovyn_proto::v1::WorkflowStatus::Completed;
use serde_json::json;

use super::app::{App, complete, data, schedule_task};
use super::worker::{Worker, signed};
use crate::common::{TestServer, on_both};

on_both!(the_worker_decides_anew, signals_that_never_stop_are_refused_in_the_end);

const DEFERRED: &str = "FLV0063";

async fn the_worker_decides_anew(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let first = worker.activation().await;
    app.signal(&id, "add", "1").await;
    let commands = vec![schedule_task(uuid::Uuid::new_v4(), 3), complete("0")];
    let ack = worker.submit(&first, commands, Completed).await;
    assert_eq!((ack.code.as_str(), ack.retryable), (DEFERRED, false), "{}", ack.message);
    let second = worker.activation().await;
    let kinds: Vec<&str> = second.events.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(kinds, ["WORKFLOW_STARTED", "SIGNAL_RECEIVED", "WORKFLOW_SUSPENDED"]);
    assert_eq!(data(&second.events[2])["seenThrough"], json!(1));
    assert!(second.claim_token > first.claim_token);
    // The first end is sent once more, under its old claim.
    let late = worker.submit(&first, vec![complete("0")], Completed).await;
    assert_eq!(late.code, "FLV0050");
    let submit = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.clone(),
        commands: vec![complete("1")],
        status: Completed.into(),
        claim_token: Some(second.claim_token),
        base_sequence: Some(3),
        activation_failure: None,
        unread_signals: 1,
        clean_up: None,
    };
    assert_eq!(worker.submit_raw(submit).await.code, "");
    let ended = app.result(&id).await;
    assert_eq!((ended.status.as_str(), ended.output.as_deref()), ("COMPLETED", Some(&b"1"[..])));
    assert_eq!(app.get(&id).await.unread_signals, 1);
    let events = app.events(&id).await;
    assert_eq!(data(events.last().unwrap()), json!({ "output": 1, "unreadSignals": 1 }));
}

/// A signal arrives each time the workflow is about to return.
async fn signals_that_never_stop_are_refused_in_the_end(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    let mut client = v1::workflow_dispatch_client::WorkflowDispatchClient::new(server.channel());
    let mut accepted = 0;
    loop {
        let activation = worker.activation().await;
        let signal = v1::SignalWorkflowRequest {
            org_id: crate::common::TENANT.to_string(),
            workflow_execution_id: id.clone(),
            signal_name: "add".into(),
            signal_value: "1".into(),
        };
        let answer = client.signal_workflow(signed(signal)).await;
        let ack = worker.submit(&activation, vec![complete("0")], Completed).await;
        match answer {
            Ok(_) => assert_eq!(ack.code, DEFERRED),
            Err(refused) => {
                assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
                assert!(refused.message().contains("signals are refused while"), "{}", refused.message());
                assert_eq!(ack.code, "", "{}", ack.message);
                break;
            }
        }
        accepted += 1;
        assert!(accepted <= 20, "the bound");
    }
    assert_eq!(accepted, 20);
    assert_eq!(app.result(&id).await.status, "COMPLETED");
}
