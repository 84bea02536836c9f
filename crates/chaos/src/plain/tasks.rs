//! One attempt of a task.

use std::time::Duration;

use bytes::Bytes;
use flovyn_proto::v1;
use serde_json::Value;

use super::client::Answer;
use super::{Dialect, Worker};
use crate::outcomes::Content;
use crate::programs::{self, Attempt};

pub(super) async fn run(worker: &Worker, task: &v1::TaskExecutionInfo) {
    let Ok(id) = task.task_execution_id.parse() else { return };
    let input: Value = serde_json::from_slice(&task.input).unwrap_or_default();
    // Recorded, but never sent to the server.
    let token = task.claim_token;
    if worker.runs.record(id, token).is_err() {
        return;
    }
    let half = Duration::from_millis(input["work_ms"].as_u64().unwrap_or_default() / 2);
    tokio::time::sleep(half).await;
    if worker.dialect != Dialect::Nameless {
        worker.client.heartbeat(&task.task_execution_id).await;
    }
    tokio::time::sleep(half).await;
    let attempt = Attempt { number: task.execution_count.unsigned_abs(), token };
    let task_execution_id = task.task_execution_id.clone();
    let (content, answer) = match programs::outcome(&input, attempt) {
        Ok(output) => {
            let output = Bytes::from(output.to_string());
            let request =
                v1::CompleteTaskRequest { task_execution_id, output, ..v1::CompleteTaskRequest::default() };
            (Content::Success, worker.client.complete(request).await)
        }
        Err(error) => {
            let request = v1::FailTaskRequest { task_execution_id, error, ..v1::FailTaskRequest::default() };
            (Content::Failure, worker.client.fail(request).await)
        }
    };
    if answer == Answer::Acknowledged {
        // If the process cannot write any more, the outcome is not checked; that causes no false finding.
        let _ = worker.outcomes.record(id, token, content);
    }
}
