//! State of workflows, read by queries, and state of tasks, read and set by rpcs.

use serde_json::json;
use tonic::Code;
use uuid::Uuid;

use super::client::{Plain, event, json_bytes, parsed};
use super::commands::{clear_state, schedule, set_state};
use super::messages::{
    GetStateKeysResponse, GetStateResponse, QueryWorkflowRequest, QueryWorkflowResponse, SetStateRequest,
    StateKeyRequest, TaskRequest,
};
use crate::common::{TestServer, on_both};

on_both!(workflow_state_can_be_queried, status_and_waiting_can_be_queried, task_state);

async fn workflow_state_can_be_queried(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let commands = vec![
        set_state("step", json!("packing")),
        set_state("count", json!({"n": 1})),
        set_state("count", json!({"n": 2})),
        clear_state("step"),
    ];
    client.suspend(&id, commands).await;
    assert_eq!(client.query(&id, "count").await, json!({"n": 2}));
    for missing in ["step", "never set"] {
        let reply = client.query_reply(&id, missing).await;
        assert!(reply.error.is_some() && reply.result.is_empty(), "{reply:?}");
    }
    let expected = [
        event("STATE_SET", json!({"key": "step", "value": "packing"})),
        event("STATE_SET", json!({"key": "count", "value": {"n": 1}})),
        event("STATE_SET", json!({"key": "count", "value": {"n": 2}})),
        event("STATE_CLEARED", json!({"key": "step"})),
    ];
    assert_eq!(client.events(&id).await[1..], expected);

    let request = QueryWorkflowRequest {
        workflow_execution_id: Uuid::new_v4().to_string(),
        query_name: "count".into(),
        ..QueryWorkflowRequest::default()
    };
    let unknown = client.call::<_, QueryWorkflowResponse>("WorkflowQuery/QueryWorkflow", request).await;
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
}

async fn status_and_waiting_can_be_queried(server: TestServer) {
    let client = Plain::of(&server);
    let status =
        |status: &str, last: i64| json!({"status": status, "cancelRequested": false, "lastSequence": last});
    let id = client.start("order", json!(null)).await;
    assert_eq!(client.query(&id, "__status").await, status("PENDING", 1));
    assert_eq!(client.query(&id, "__waiting").await[0]["kind"], "NO_WORKER");
    client.claim(&id).await;
    assert_eq!(client.query(&id, "__status").await, status("RUNNING", 1));
    assert_eq!(client.query(&id, "__waiting").await[0]["kind"], "RUNNING");

    let task_id = Uuid::new_v4();
    client.suspend(&id, vec![schedule(task_id, "charge", json!(1))]).await;
    assert_eq!(client.query(&id, "__status").await, status("WAITING", 2));
    let waiting = client.query(&id, "__waiting").await;
    assert_eq!((&waiting[0]["kind"], &waiting[0]["id"]), (&json!("TASK"), &json!(task_id.to_string())));

    client.poll_task().await;
    client.complete_task(task_id, json!(1)).await.unwrap();
    client.claim(&id).await;
    client.suspend(&id, vec![]).await;
    assert_eq!(client.query(&id, "__waiting").await[0]["kind"], "SIGNAL");
    client.signal(&id, "go", json!(null)).await.unwrap();
    client.claim(&id).await;
    client.complete(&id, json!(1)).await;
    assert_eq!(client.query(&id, "__status").await, status("COMPLETED", 5));
    assert_eq!(client.query(&id, "__waiting").await[0]["kind"], "NOTHING");
}

async fn task_state(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let task_id = Uuid::new_v4().to_string();
    client.suspend(&id, vec![schedule(task_id.parse().unwrap(), "charge", json!(1))]).await;
    client.poll_task().await;

    let set = async |key: &str, value| {
        let (task_execution_id, value) = (task_id.clone(), json_bytes(value));
        let request = SetStateRequest { task_execution_id, key: key.into(), value };
        client.call::<_, ()>("TaskExecution/SetState", request).await.unwrap();
    };
    let key = |key: &str| StateKeyRequest { task_execution_id: task_id.clone(), key: key.into() };
    let get = async |name: &str| -> GetStateResponse {
        client.call("TaskExecution/GetState", key(name)).await.unwrap()
    };
    let keys = async || {
        let request = TaskRequest { task_execution_id: task_id.clone() };
        let reply: GetStateKeysResponse = client.call("TaskExecution/GetStateKeys", request).await.unwrap();
        let mut keys = reply.keys;
        keys.sort();
        keys
    };
    assert!(!get("cursor").await.found);
    set("cursor", json!({"page": 1})).await;
    set("cursor", json!({"page": 2})).await;
    set("b", json!(true)).await;
    set("c", json!(null)).await;
    let found = get("cursor").await;
    assert!(found.found);
    assert_eq!(parsed(&found.value), json!({"page": 2}));
    assert!(get("c").await.found);
    assert_eq!(keys().await, ["b", "c", "cursor"]);
    client.call::<_, ()>("TaskExecution/ClearState", key("b")).await.unwrap();
    assert!(!get("b").await.found);
    assert_eq!(keys().await, ["c", "cursor"]);

    // State is kept across attempts.
    client.fail_task(&task_id, "try again").await.unwrap();
    assert_eq!(client.poll_task().await.execution_count, 2);
    assert_eq!(parsed(&get("cursor").await.value), json!({"page": 2}));
    let all = TaskRequest { task_execution_id: task_id.clone() };
    client.call::<_, ()>("TaskExecution/ClearAllState", all).await.unwrap();
    assert!(keys().await.is_empty());
}
