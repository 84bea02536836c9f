//! Runs one attempt of a task.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flovyn_proto::v1;
use flovyn_proto::v1::task_result::Result as Sent;
use futures::FutureExt;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::ahead;
use super::cache::Cache;
use super::desk::{Desk, Finished};
use super::{Setup, WorkerEvent};
use crate::error::{Error, Result};
use crate::replay::panicked;
use crate::task::{Attempt, ServerLink, TaskContext};
use crate::wire::{json, json_bytes, task_failure};

pub(super) async fn run(
    setup: Arc<Setup>,
    cache: Arc<Cache>,
    desk: Arc<Desk>,
    task: v1::TaskExecutionInfo,
    cancelled: watch::Receiver<bool>,
) {
    setup.metrics.tasks.fetch_add(1, Ordering::Relaxed);
    let (id, token) = (task.task_execution_id.clone(), task.claim_token);
    let (execution_id, task_type) = (task.workflow_execution_id.clone(), task.kind.clone());
    let link = {
        let desk = desk.clone();
        Arc::new(ServerLink::new(setup.channel.clone(), move |heartbeat| desk.heartbeat_task(heartbeat)))
    };
    let result = attempt(&setup, task, cancelled, link).await;
    let (mut ahead, mut next) = (None, None);
    let limits = setup.limits.get();
    let result = result.map(|output| json_bytes(&output));
    // An output that is too large is not sent: the task fails with the code that the server would give.
    let result = result.and_then(|output| match limits.refuse_output(&output) {
        None => Ok(output),
        Some((code, message)) => {
            refusal(&setup, &id, task_type.clone(), code.to_owned(), message.clone());
            Err(Error::application(code, format!("{code}: {message}")).retryable(false).into())
        }
    });
    let result = match result {
        Ok(output) => {
            let complete =
                v1::CompleteTaskRequest { task_execution_id: id.clone(), output, claim_token: Some(token) };
            (ahead, next) = ahead::step(&setup, &cache, &complete, &execution_id).unzip();
            Sent::Complete(complete)
        }
        Err(error) => {
            setup.metrics.tasks_failed.fetch_add(1, Ordering::Relaxed);
            let mut failure = task_failure(id.clone(), token, &error);
            limits.cut(&mut failure.error);
            Sent::Fail(failure)
        }
    };
    desk.settle(id.clone(), token, Finished::Task(result, next), move |ack| {
        if let Some(ahead) = ahead {
            ahead.settled(&setup, &cache, &ack);
        }
        if ack.code.is_empty() {
            setup.metrics.tasks_acknowledged.fetch_add(1, Ordering::Relaxed);
            if let (Some(hook), Ok(id)) = (&setup.ack_hook, Uuid::try_parse(&id)) {
                // Call the hook last, because it may panic.
                hook(id, token);
            }
        } else {
            setup.metrics.tasks_refused.fetch_add(1, Ordering::Relaxed);
            refusal(&setup, &id, task_type, ack.code, ack.message);
        }
    });
}

fn refusal(setup: &Setup, id: &str, task_type: String, code: String, message: String) {
    tracing::warn!(task = id, task_type, code, message, "the server refused the result of a task");
    let task_id = Uuid::try_parse(id).unwrap_or_default();
    setup.tell(&WorkerEvent::TaskRefused { task_id, task_type, code, message });
}

/// Runs user code and turns a panic into an error.
async fn attempt(
    setup: &Setup,
    task: v1::TaskExecutionInfo,
    cancelled: watch::Receiver<bool>,
    link: Arc<ServerLink>,
) -> Result<Value> {
    if *cancelled.borrow() {
        // Cancelled before it began: the claim has ended, or cancellation was requested.
        return Err(Error::Cancelled("before the attempt began".to_owned()));
    }
    let missing = || Error::failed(format!("this worker has no task {:?}", task.kind));
    let definition = setup.registry.tasks.get(&task.kind).ok_or_else(missing)?.definition.clone();
    let input = json(&task.input)?;
    let limit = task.timeout_ms.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
    let context = TaskContext::new(read(task)?, cancelled, link, setup.extensions.clone());
    let running = AssertUnwindSafe(definition.start(context, input)).catch_unwind();
    let ended = match limit {
        None => running.await,
        Some(limit) => {
            // In a task of its own, so that the time limit works even if user code blocks its thread.
            let mut running = JoinSet::from_iter([running]);
            let ended = tokio::time::timeout(limit, running.join_next()).await;
            let ended = ended.map_err(|_| Error::Timeout(Some(limit)))?;
            ended.ok_or_else(|| Error::failed("the attempt never began"))?.map_err(Error::failed)?
        }
    };
    ended.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::worker::Worker;

    /// Runs an attempt of a task that counts its runs.
    async fn begun(told_to_stop: bool) -> (u64, Result<Value>) {
        let begun = Arc::new(AtomicU64::new(0));
        let counts = begun.clone();
        let task = move |_: TaskContext, input: Value| {
            counts.fetch_add(1, Ordering::SeqCst);
            async move { Ok(input) }
        };
        let worker = Worker::builder("http://127.0.0.1:1", "token").task_fn("t", task).build().unwrap();
        let info = v1::TaskExecutionInfo {
            task_execution_id: Uuid::from_u128(1).to_string(),
            kind: "t".to_owned(),
            claim_token: 1,
            ..v1::TaskExecutionInfo::default()
        };
        let (_sender, cancelled) = watch::channel(told_to_stop);
        let link = Arc::new(ServerLink::new(worker.setup.channel.clone(), |_| {}));
        let result = attempt(&worker.setup, info, cancelled, link).await;
        (begun.load(Ordering::SeqCst), result)
    }

    #[tokio::test]
    async fn an_attempt_that_was_told_to_stop_does_not_begin() {
        assert_eq!(begun(false).await, (1, Ok(Value::Null)));
        let (times, result) = begun(true).await;
        assert_eq!(times, 0);
        assert!(result.unwrap_err().is_cancelled());
    }
}
