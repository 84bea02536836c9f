//! Processes that share one worker name, as clients do by default: each receives only the kinds that it has registered.

use serde_json::json;
use tonic::Code;
use uuid::Uuid;

use super::client::{Plain, QUEUE, start_request};
use super::commands::schedule;
use super::messages::StartWorkflowRequest;
use crate::common::{TestServer, on_both};

on_both!(
    workflows_in_one_and_tasks_in_the_other,
    two_processes_with_different_kinds,
    by_name_a_process_gets_what_it_registered_and_a_stranger_what_all_did,
    a_process_that_registers_again_replaces_itself,
    another_spelling_of_an_id_is_a_name,
    a_client_that_names_a_slug_or_nothing_is_told_what_is_wanted,
);

const NAME: &str = "worker-default";
const HOST: &str = "host";

async fn workflows_in_one_and_tasks_in_the_other(server: TestServer) {
    let (flows, steps) = (Plain::of(&server), Plain::of(&server));
    let flows_id = flows.register_process((NAME, HOST, "1"), &["order"], &[]).await;
    let steps_id = steps.register_process((NAME, HOST, "2"), &[], &["charge"]).await;
    assert_ne!(flows_id, steps_id);
    let id = flows.start("order", json!(null)).await;
    // Each process polls for both classes. A poll for a class without registered kinds returns nothing.
    assert!(steps.poll_workflow_as(&steps_id, QUEUE, 0).await.is_none());
    assert_eq!(flows.poll_workflow_as(&flows_id, QUEUE, 20).await.unwrap().id, id);
    let task_id = Uuid::new_v4();
    flows.suspend(&id, vec![schedule(task_id, "charge", json!(1))]).await;
    assert!(flows.poll_task_as(&flows_id, QUEUE, 0).await.is_none());
    let task = steps.poll_task_as(&steps_id, QUEUE, 20).await.unwrap();
    assert_eq!(task.task_execution_id, task_id.to_string());
    steps.complete_task(task_id, json!(1)).await.unwrap();
    assert_eq!(flows.poll_workflow_as(&flows_id, QUEUE, 20).await.unwrap().id, id);
    flows.complete(&id, json!(1)).await;
}

async fn two_processes_with_different_kinds(server: TestServer) {
    let (one, two) = (Plain::of(&server), Plain::of(&server));
    let one_id = one.register_process((NAME, HOST, "1"), &["a"], &[]).await;
    let two_id = two.register_process((NAME, HOST, "2"), &["b"], &[]).await;
    let (a, b) = (one.start("a", json!(null)).await, one.start("b", json!(null)).await);
    assert_eq!(two.poll_workflow_as(&two_id, QUEUE, 20).await.unwrap().id, b);
    assert!(two.poll_workflow_as(&two_id, QUEUE, 0).await.is_none());
    assert_eq!(one.poll_workflow_as(&one_id, QUEUE, 20).await.unwrap().id, a);
}

async fn by_name_a_process_gets_what_it_registered_and_a_stranger_what_all_did(server: TestServer) {
    let (one, two, unknown) = (Plain::of(&server), Plain::of(&server), Plain::of(&server));
    one.register_process((NAME, HOST, "1"), &["a"], &[]).await;
    two.register_process((NAME, HOST, "2"), &["b"], &[]).await;
    for _ in 0..2 {
        one.start("a", json!(null)).await;
        one.start("b", json!(null)).await;
    }
    // On the connection that it registered on, the server knows which process polls.
    assert_eq!(two.poll_workflow_as(NAME, QUEUE, 20).await.unwrap().kind, "b");
    assert_eq!(one.poll_workflow_as(NAME, QUEUE, 20).await.unwrap().kind, "a");
    // On a new connection it does not.
    let mut kinds = Vec::new();
    for _ in 0..2 {
        kinds.push(unknown.poll_workflow_as(NAME, QUEUE, 20).await.unwrap().kind);
    }
    kinds.sort();
    assert_eq!(kinds, ["a", "b"]);
    assert!(unknown.poll_task_as(NAME, QUEUE, 0).await.is_none());
}

/// Reports compare ids as text, so a poll must not accept what a report does not.
async fn another_spelling_of_an_id_is_a_name(server: TestServer) {
    let (client, other) = (Plain::of(&server), Plain::of(&server));
    let id = client.register_process((NAME, HOST, "1"), &["a"], &[]).await;
    client.start("b", json!(null)).await;
    // The process runs only `a`; a worker of an unknown name is given everything.
    assert!(other.poll_workflow_as(&id, QUEUE, 0).await.is_none());
    let simple = id.replace('-', "");
    assert_eq!(other.poll_workflow_as(&simple, QUEUE, 20).await.unwrap().kind, "b");
}

async fn a_process_that_registers_again_replaces_itself(server: TestServer) {
    let client = Plain::of(&server);
    let before = client.register_process((NAME, HOST, "1"), &["a"], &["t"]).await;
    // A registration without task types keeps the registered task types.
    let after = client.register_process((NAME, HOST, "1"), &["b"], &[]).await;
    assert_eq!(before, after);
    client.start("a", json!(null)).await;
    let b = client.start("b", json!(null)).await;
    assert_eq!(client.poll_workflow_as(&after, QUEUE, 20).await.unwrap().id, b);
    assert!(client.poll_workflow_as(&after, QUEUE, 0).await.is_none());
    let task_id = client.submit_task("t").await;
    assert_eq!(client.poll_task_as(&after, QUEUE, 20).await.unwrap().task_execution_id, task_id);
}

/// Some clients send the nil UUID when they are configured with a slug.
async fn a_client_that_names_a_slug_or_nothing_is_told_what_is_wanted(server: TestServer) {
    let client = Plain::of(&server);
    let nil = Uuid::nil().to_string();
    for (named, word) in [("acme", "'acme'"), (nil.as_str(), "nil UUID"), (&Uuid::max().to_string(), "ffff")]
    {
        let request = StartWorkflowRequest { org_id: named.into(), ..start_request("order", json!(1)) };
        let refused = client.start_with(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        for expected in
            ["FLV0081", word, "tenant's UUID", "flovyn tenant show", "tenant_id in .flovyn/credentials.json"]
        {
            assert!(refused.message().contains(expected), "{expected}: {}", refused.message());
        }
    }
}
