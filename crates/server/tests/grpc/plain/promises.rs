//! Promises: named by the workflow, with an id from the server, answered from outside.

use serde_json::{Value, json};
use tonic::{Code, Status};
use uuid::Uuid;

use super::client::{Plain, event, json_bytes};
use super::commands::promise;
use super::messages::{RejectPromiseRequest, ResolvePromiseRequest};
use crate::common::{TestServer, on_both};

on_both!(resolved, resolved_by_workflow_and_name, rejected, timed_out);

async fn resolve(client: &Plain, promise_id: &str, value: Value) -> Result<(), Status> {
    let request = ResolvePromiseRequest { promise_id: promise_id.into(), value: json_bytes(value) };
    client.call("WorkflowDispatch/ResolvePromise", request).await
}

async fn reject(client: &Plain, promise_id: &str, error: &str) -> Result<(), Status> {
    let request = RejectPromiseRequest { promise_id: promise_id.into(), error: error.into() };
    client.call("WorkflowDispatch/RejectPromise", request).await
}

/// A workflow that waits for the promise "approval". Returns both ids.
async fn waiting(client: &Plain, timeout_ms: Option<i64>) -> (String, String) {
    let id = client.start("approve", json!(null)).await;
    client.claim(&id).await;
    client.suspend(&id, vec![promise("approval", timeout_ms)]).await;
    let created = client.events(&id).await.remove(1);
    assert_eq!(created.kind, "PROMISE_CREATED");
    assert_eq!(created.data["promiseName"], "approval");
    let promise_id = created.data["promiseId"].as_str().unwrap().to_owned();
    (id, promise_id)
}

async fn resolved(server: TestServer) {
    let client = Plain::of(&server);
    let (id, promise_id) = waiting(&client, None).await;
    resolve(&client, &promise_id, json!({"by": "ann"})).await.unwrap();
    let events = client.claim(&id).await;
    let data = json!({"promiseId": promise_id, "promiseName": "approval", "value": {"by": "ann"}});
    assert_eq!(events[2..], [event("PROMISE_RESOLVED", data)]);

    // The first answer wins, also while the workflow runs and after it has finished.
    let late = reject(&client, &promise_id, "no").await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    client.complete(&id, json!(true)).await;
    let late = resolve(&client, &promise_id, json!(2)).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    assert_eq!(client.events(&id).await.len(), 4);

    let unknown = resolve(&client, &Uuid::new_v4().to_string(), json!(1)).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

/// The form that the documentation of the bindings uses.
async fn resolved_by_workflow_and_name(server: TestServer) {
    let client = Plain::of(&server);
    let (id, promise_id) = waiting(&client, None).await;
    let unknown = resolve(&client, &format!("{id}/other"), json!(1)).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    // A key that contains a slash is still a key.
    let unknown = resolve(&client, "key:orders/7", json!(1)).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    resolve(&client, &format!("{id}/approval"), json!(7)).await.unwrap();
    let events = client.claim(&id).await;
    let data = json!({"promiseId": promise_id, "promiseName": "approval", "value": 7});
    assert_eq!(events[2..], [event("PROMISE_RESOLVED", data)]);
}

async fn rejected(server: TestServer) {
    let client = Plain::of(&server);
    let (id, promise_id) = waiting(&client, Some(3_600_000)).await;
    reject(&client, &promise_id, "not today").await.unwrap();
    let events = client.claim(&id).await;
    let data = json!({"promiseId": promise_id, "promiseName": "approval", "error": "not today"});
    assert_eq!(events[2..], [event("PROMISE_REJECTED", data)]);
}

async fn timed_out(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("approve", json!(null)).await;
    client.claim(&id).await;
    client.suspend(&id, vec![promise("approval", Some(10))]).await;
    let events = client.claim(&id).await;
    let promise_id = events[1].data["promiseId"].as_str().unwrap();
    let data = json!({"promiseId": promise_id, "promiseName": "approval"});
    assert_eq!(events[2..], [event("PROMISE_TIMEOUT", data)]);
    let late = resolve(&client, promise_id, json!(1)).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
}
