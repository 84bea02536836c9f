//! One attempt of a task.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flovyn_proto::v1;
use flovyn_proto::v1::task_result::Result as Sent;
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use super::Setup;
use super::desk::{Desk, Finished};
use crate::error::{Error, Result};
use crate::replay::panic_message;
use crate::task::{Attempt, ServerLink, TaskContext};
use crate::wire::{json, json_bytes};

pub(super) async fn run(
    setup: Arc<Setup>,
    desk: Arc<Desk>,
    task: v1::TaskExecutionInfo,
    cancelled: watch::Receiver<bool>,
) {
    setup.metrics.tasks.fetch_add(1, Ordering::Relaxed);
    let (id, token) = (task.task_execution_id.clone(), task.claim_token);
    let link = {
        let desk = desk.clone();
        Arc::new(ServerLink::new(setup.channel.clone(), move |heartbeat| desk.heartbeat_task(heartbeat)))
    };
    let result = attempt(&setup, task, cancelled, link).await;
    let result = match result {
        Ok(output) => Sent::Complete(v1::CompleteTaskRequest {
            task_execution_id: id.clone(),
            output: json_bytes(&output),
            claim_token: Some(token),
        }),
        Err(error) => {
            setup.metrics.tasks_failed.fetch_add(1, Ordering::Relaxed);
            Sent::Fail(v1::FailTaskRequest {
                task_execution_id: id.clone(),
                error: error.to_string(),
                claim_token: Some(token),
                non_retryable: matches!(error, Error::NonRetryable(_)),
                next_retry_delay_ms: None,
            })
        }
    };
    match desk.settle(&id, token, Finished::Task(result)).await {
        Some(ack) if ack.code.is_empty() => {
            setup.metrics.tasks_acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Some(ack) => {
            setup.metrics.tasks_refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(task = id, code = ack.code, message = ack.message, "a task's result was refused");
        }
        None => {}
    }
}

/// Runs user code on a task of its own, so that a panic hurts nobody else.
async fn attempt(
    setup: &Setup,
    task: v1::TaskExecutionInfo,
    cancelled: watch::Receiver<bool>,
    link: Arc<ServerLink>,
) -> Result<Value> {
    let missing = || Error::failed(format!("this worker has no task {:?}", task.kind));
    let definition = setup.tasks.get(&task.kind).ok_or_else(missing)?.definition.clone();
    let input = json(&task.input)?;
    let limit = task.timeout_ms.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
    let context = TaskContext::new(read(task)?, cancelled, link);
    let mut running = tokio::spawn(definition.start(context, input));
    let ended = match limit {
        None => running.await,
        Some(limit) => match tokio::time::timeout(limit, &mut running).await {
            Ok(ended) => ended,
            Err(_) => {
                running.abort();
                return Err(Error::Timeout(Some(limit)));
            }
        },
    };
    match ended {
        Ok(result) => result,
        Err(error) => Err(match error.try_into_panic() {
            Ok(panic) => Error::failed(format!("panicked: {}", panic_message(panic.as_ref()))),
            Err(error) => Error::failed(error),
        }),
    }
}

fn read(task: v1::TaskExecutionInfo) -> Result<Attempt> {
    Ok(Attempt {
        task_id: crate::client::id(&task.task_execution_id)?,
        task_type: task.kind,
        execution_id: Uuid::try_parse(&task.workflow_execution_id).ok(),
        number: task.execution_count.unsigned_abs(),
        queue: task.queue,
        token: task.claim_token,
        key: task.attempt_chain_key,
        traceparent: task.traceparent,
        last_details: task.heartbeat_details.as_deref().map(json).transpose()?,
    })
}
