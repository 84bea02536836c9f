//! Entities: executions with a workflow key. However many clients call an entity, and whenever it ends, each request
//! is answered once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flovyn_sdk::{Client, Error, ListOptions, Result, StartOptions, WorkflowContext, WorkflowHandle};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::common::{PATIENCE, TestServer, on_both};

on_both!(
    each_request_is_answered_by_one_entity,
    a_start_by_signal_takes_all_options,
    a_key_leads_to_its_last_execution
);

const CALLERS: u64 = 64;
const REQUESTS: u64 = 5;
/// After each round all entities end, so that the next round starts new ones.
const ROUNDS: u64 = 2;
const KEYS: u64 = 6;
/// An entity ends after this many answers.
const ANSWERS: usize = 5;

/// Answers requests up to its limit, and then all further requests that have arrived.
async fn entity(context: WorkflowContext, _: Value) -> Result<Value> {
    let mut answered: Vec<u64> = Vec::new();
    let mut open = true;
    while (open && answered.len() < ANSWERS) || context.has_signal("ask") {
        flovyn_sdk::select! {
            request = context.wait_for_signal("ask") => answered.push(request?),
            asked = context.wait_for_signal::<Value>("close") => {
                asked?;
                open = false;
            }
        }
    }
    Ok(json!(answered))
}

fn key(number: u64) -> String {
    format!("entity/{}", number % KEYS)
}

/// Retries until the signal is acknowledged: an entity that is about to end may refuse signals for a moment.
async fn ask(client: &Client, number: u64) {
    loop {
        let options = StartOptions::default();
        let sent = client
            .signal_with_start_raw("entity", &key(number), json!(null), "ask", json!(number), options)
            .await;
        match sent {
            Ok(_) => return,
            Err(Error::Server { code, .. }) if code == "FLV0023" => tokio::task::yield_now().await,
            Err(error) => panic!("{number}: {error}"),
        }
    }
}

/// Ends the entity with this key, unless it has ended already.
async fn close(client: &Client, key: &str) {
    let last: WorkflowHandle<Value> = client.handle_by_key(key).await.unwrap();
    match last.signal("close", &json!(null)).await {
        Ok(()) => {}
        Err(Error::Server { code, .. }) if code == "FLV0051" => {}
        Err(error) => panic!("{error}"),
    }
    last.result(PATIENCE).await.unwrap();
}

async fn of_key(client: &Client, key: String) -> Vec<flovyn_sdk::client::Execution> {
    let options = ListOptions { key: Some(key), limit: 1_000, ..ListOptions::default() };
    client.list_with_options(options).await.unwrap()
}

async fn each_request_is_answered_by_one_entity(server: TestServer) {
    let worker = server.worker().workflow_fn("entity", entity).max_workflows(16).build().unwrap().start();
    let client = server.client();
    for round in 0..ROUNDS {
        let caller = |caller: u64| {
            let client = &client;
            async move {
                for request in 0..REQUESTS {
                    ask(client, (round * CALLERS + caller) * REQUESTS + request).await;
                }
            }
        };
        futures::stream::iter(0..CALLERS).for_each_concurrent(None, caller).await;
        for number in 0..KEYS {
            close(&client, &key(number)).await;
        }
    }
    let mut answered: BTreeMap<u64, usize> = BTreeMap::new();
    let mut entities = 0;
    for number in 0..KEYS {
        for execution in of_key(&client, key(number)).await {
            entities += 1;
            let output: Vec<u64> = client.handle(execution.id).result(PATIENCE).await.unwrap();
            for request in output {
                *answered.entry(request).or_default() += 1;
            }
        }
    }
    let twice: Vec<_> = answered.iter().filter(|(_, count)| **count > 1).collect();
    let lost: Vec<_> =
        (0..ROUNDS * CALLERS * REQUESTS).filter(|number| !answered.contains_key(number)).collect();
    assert!(twice.is_empty() && lost.is_empty(), "answered twice: {twice:?}, not answered: {lost:?}");
    assert!(entities >= ROUNDS * KEYS, "{entities} entities of {KEYS} keys");
    worker.stop().await;
}

async fn a_start_by_signal_takes_all_options(server: TestServer) {
    let client = server.client();
    let options = StartOptions {
        queue: Some("slow".into()),
        version: Some("7".into()),
        labels: [("customer".to_owned(), "ada".to_owned())].into(),
        priority_seconds: -5,
        execution_timeout: Some(PATIENCE),
        cancel_grace: Some(Duration::from_secs(7)),
        idempotency_key: None,
        idempotency_key_ttl: Some(Duration::from_secs(70)),
        scheduled_at_ms: Some(1_000),
    };
    let send = |options: StartOptions| {
        client.signal_with_start_raw("entity", "ada/1", json!({ "a": 1 }), "ask", json!(1), options)
    };
    let handle = send(options.clone()).await.unwrap();
    let by_label = ListOptions {
        label: Some(("customer".into(), "ada".into())),
        key: Some("ada/1".into()),
        queue: Some("slow".into()),
        ..ListOptions::default()
    };
    let listed = client.list_with_options(by_label.clone()).await.unwrap();
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), [handle.id()]);
    assert_eq!(listed[0].key.as_deref(), Some("ada/1"));
    let other = ListOptions { key: Some("ada".into()), ..by_label };
    assert_eq!(client.list_with_options(other).await.unwrap(), []);
    let row = server.execution(handle.id()).await;
    assert_eq!((row.workflow_version.as_deref(), row.priority_seconds), (Some("7"), -5));
    assert!(row.deadline_ms.is_some_and(|at| at > row.created_ms));
    assert_eq!((row.cancel_grace_ms, row.scheduled_ms), (Some(7_000), Some(1_000)));
    // A moment that has not come: nobody is handed it before.
    let later = StartOptions { scheduled_at_ms: Some(row.created_ms + 3_600_000), ..StartOptions::default() };
    let sent = client.signal_with_start_raw("entity", "later", json!(1), "ask", json!(1), later).await;
    assert!(server.execution(sent.unwrap().id()).await.not_before_ms.is_some());
    let doubled = StartOptions { idempotency_key: Some("other".into()), ..options };
    let refused = send(doubled).await.unwrap_err().to_string();
    assert!(refused.contains("\"other\""), "{refused}");
}

async fn a_key_leads_to_its_last_execution(server: TestServer) {
    let client = server.client();
    let missing = client.handle_by_key::<Value>("ada").await.unwrap_err();
    assert!(matches!(&missing, Error::Server { code, .. } if code == "FLV0031"), "{missing}");
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let options = StartOptions::default();
        let sent = client.signal_with_start_raw("entity", "ada", json!(1), "ask", json!(1), options).await;
        let id = sent.unwrap().id();
        assert!(seen.insert(id), "the one before has ended");
        let found: WorkflowHandle<Value> = client.handle_by_key("ada").await.unwrap();
        assert_eq!(found.id(), id);
        found.terminate("enough").await.unwrap();
        assert_eq!(client.handle_by_key::<Value>("ada").await.unwrap().id(), id);
    }
    assert_eq!(of_key(&client, "ada".to_owned()).await.len(), 3);
}
