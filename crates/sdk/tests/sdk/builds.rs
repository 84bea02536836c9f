//! Two builds of a worker, connected at the same time: executions that fail on the old build go to the new build.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flovyn_sdk::worker::WorkerEvent;
use flovyn_sdk::{Result, StartOptions, WorkflowContext};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(another_build_gets_what_is_held_back);

const RUNS: usize = 8;

async fn fits(context: WorkflowContext, _: Value) -> Result<Value> {
    context.set_state("begun", &true)?;
    context.wait_for_signal("go").await
}

/// It starts a timer where the histories have a state event.
async fn changed(context: WorkflowContext, _: Value) -> Result<Value> {
    context.sleep(Duration::from_secs(1)).await?;
    context.wait_for_signal("go").await
}

async fn another_build_gets_what_is_held_back(server: TestServer) {
    let first = server.worker().build_id("first").workflow_fn("order", fits).build().unwrap().start();
    let client = server.client();
    let mut handles = Vec::new();
    for _ in 0..RUNS {
        let handle = client.start_raw("order", json!(null), StartOptions::default()).await.unwrap();
        while handle.describe().await.unwrap().status != "WAITING" {
            tokio::task::yield_now().await;
        }
        handles.push(handle);
    }
    first.stop().await;

    let failures: Arc<Mutex<HashMap<Uuid, Vec<String>>>> = Arc::default();
    let seen = failures.clone();
    let old = server.worker().build_id("old").workflow_fn("order", changed).on_event(move |event| {
        if let WorkerEvent::ActivationFailed { execution_id, message, .. } = event {
            seen.lock().unwrap().entry(*execution_id).or_default().push(message.clone());
        }
    });
    let old = old.build().unwrap().start();
    let new = server.worker().build_id("new").workflow_fn("order", fits).paused().build().unwrap().start();
    for handle in &handles {
        handle.signal("go", &"now").await.unwrap();
    }
    // Wait until the delay is long enough for the other worker to connect within it.
    let failed_thrice = || {
        let failures = failures.lock().unwrap();
        failures.len() == RUNS && failures.values().all(|messages| messages.len() >= 3)
    };
    while !failed_thrice() {
        tokio::task::yield_now().await;
    }
    let before = failures.lock().unwrap().clone();
    let expected = "the history has set state \"begun\", which the workflow code no longer requests: \
                    it requested timer \"timer-1\" instead";
    assert!(before.values().flatten().all(|message| message == expected), "{before:?}");
    new.resume();
    for handle in &handles {
        assert_eq!(handle.result(PATIENCE).await.unwrap(), "now");
    }
    assert_eq!(*failures.lock().unwrap(), before, "the old build has not had them again");
    new.stop().await;
    old.stop().await;
}
