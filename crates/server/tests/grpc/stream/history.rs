//! Histories far larger than one message.

use flovyn_proto::v1;
use flovyn_proto::v1::WorkflowStatus::{Completed, Suspended};
use flovyn_proto::v1::workflow_command::CommandData;
use uuid::Uuid;

use super::app::{App, command, complete};
use super::worker::{Worker, hello};
use crate::common::{TestServer, on_both};

on_both!(fifty_thousand_events_and_twenty_megabytes);

const STEPS: usize = 10;
const COMMANDS: usize = 5_000;
/// Fifty thousand of these are more than twenty megabytes.
const RESULT_BYTES: usize = 420;

fn operations() -> Vec<v1::WorkflowCommand> {
    let result = format!("\"{}\"", "x".repeat(RESULT_BYTES));
    let operation = |number: usize| {
        let data = v1::RecordOperationCommand {
            operation_name: format!("step-{number}"),
            result: result.clone().into(),
        };
        command(v1::CommandType::RecordOperation, CommandData::RecordOperation(data))
    };
    (0..COMMANDS).map(operation).collect()
}

/// The last event of a history of which an activation includes only the beginning.
async fn last_sequence(app: &mut App, id: &str) -> i64 {
    app.get(id).await.last_sequence
}

async fn fifty_thousand_events_and_twenty_megabytes(server: TestServer) {
    let (mut worker, mut app) = (Worker::connect(&server).await, App::of(&server));
    let id = app.start().await;
    for step in 0..STEPS {
        let activation = worker.activation().await;
        let submit = v1::SubmitWorkflowCommandsRequest {
            workflow_execution_id: id.clone(),
            commands: operations(),
            status: Suspended.into(),
            claim_token: Some(activation.claim_token),
            base_sequence: Some(last_sequence(&mut app, &id).await),
            activation_failure: None,
            unread_signals: 0,
            clean_up: None,
        };
        assert_eq!(worker.submit_raw(submit).await.code, "", "step {step}");
        app.signal(&id, "next", "null").await;
    }
    worker.goodbye().await;

    // A worker that has never seen the execution receives the beginning, and fetches the rest by pages.
    let mut cold = Worker::with(&server, hello(Uuid::new_v4()), 1, 0).await.unwrap();
    let activation = cold.activation().await;
    assert!(activation.more_events);
    let events = app.events(&id).await;
    assert_eq!(events.len(), 1 + STEPS * (COMMANDS + 1));
    let bytes: usize = events.iter().map(|event| event.event_data.len()).sum();
    assert!(bytes > 20 << 20, "{bytes}");
    let submit = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.clone(),
        commands: vec![complete("1")],
        status: Completed.into(),
        claim_token: Some(activation.claim_token),
        base_sequence: Some(last_sequence(&mut app, &id).await),
        activation_failure: None,
        unread_signals: 0,
        clean_up: None,
    };
    assert_eq!(cold.submit_raw(submit).await.code, "");
    assert_eq!(app.result(&id).await.status, "COMPLETED");
}
