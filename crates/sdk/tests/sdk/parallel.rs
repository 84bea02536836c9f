//! Parallel tasks during a server restart.

use std::sync::Arc;

use flovyn_sdk::{StartOptions, TaskContext, WorkflowContext, join_all};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Semaphore};

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(a_restart_in_the_middle_of_parallel_tasks,);

const TASKS: usize = 8;

async fn a_restart_in_the_middle_of_parallel_tasks(server: TestServer) {
    let (begun, go) = (Arc::new(Barrier::new(TASKS + 1)), Arc::new(Semaphore::new(0)));
    let (told, awaited) = (begun.clone(), go.clone());
    let task = move |context: TaskContext, input: Value| {
        let (told, awaited) = (told.clone(), awaited.clone());
        async move {
            told.wait().await;
            let _permit = awaited.acquire().await;
            Ok(json!([input, context.attempt()]))
        }
    };
    let workflow = |context: WorkflowContext, _: Value| async move {
        let tasks = join_all((0..TASKS).map(|n| context.schedule_raw("t", json!(n)))).await;
        Ok(json!(tasks.into_iter().collect::<flovyn_sdk::Result<Vec<_>>>()?))
    };
    let worker = server.worker().workflow_fn("w", workflow).task_fn("t", task).build().unwrap().start();
    let handle = server.client().start_raw("w", Value::Null, StartOptions::default()).await.unwrap();
    begun.wait().await;
    let server = server.restart().await;
    go.add_permits(TASKS);
    let handle = server.client().handle::<Value>(handle.id());
    let each_once: Vec<Value> = (0..TASKS).map(|n| json!([n, 1])).collect();
    assert_eq!(handle.result(PATIENCE).await.unwrap(), json!(each_once));
    worker.stop().await;
}
