//! Bulk requests: none, too many, and one bad item among good ones.

use flovyn_proto::v1;
use tonic::Code;

use super::spoil::assert_goes_on;
use super::wire::send;
use crate::common::{Database, OTHER_TENANT, TOKEN, TestServer};

const LIMIT: usize = 1_000;

fn starts(count: usize) -> v1::StartWorkflowsRequest {
    let item = v1::StartWorkflowRequest { workflow_kind: "bulk".into(), ..Default::default() };
    v1::StartWorkflowsRequest { items: vec![item; count] }
}

fn tasks(count: usize) -> v1::SubmitTasksRequest {
    let item = v1::SubmitTaskRequest { kind: "bulk".into(), ..Default::default() };
    v1::SubmitTasksRequest { items: vec![item; count] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_request_has_from_one_to_a_thousand_items() {
    let server = TestServer::start(Database::Sqlite).await;
    for count in [0, LIMIT + 1] {
        let outcome = send(&server, "WorkflowClient/StartWorkflows", &starts(count), TOKEN).await;
        assert!(outcome.is(Code::InvalidArgument, "FLV0008"), "{count}: {outcome:?}");
        let outcome = send(&server, "WorkflowClient/SubmitTasks", &tasks(count), TOKEN).await;
        assert!(outcome.is(Code::InvalidArgument, "FLV0008"), "{count}: {outcome:?}");
    }
    let started = send(&server, "WorkflowClient/StartWorkflows", &starts(LIMIT), TOKEN).await;
    assert_eq!(started.reply::<v1::StartWorkflowsResponse>().items.len(), LIMIT);
    let created = send(&server, "WorkflowClient/SubmitTasks", &tasks(LIMIT), TOKEN).await;
    assert_eq!(created.reply::<v1::SubmitTasksResponse>().items.len(), LIMIT);
    assert_goes_on(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_item_refuses_all_and_is_named() {
    let server = TestServer::start(Database::Sqlite).await;
    let mut some = starts(3);
    some.items[2].workflow_kind.clear();
    let outcome = send(&server, "WorkflowClient/StartWorkflows", &some, TOKEN).await;
    assert!(outcome.is(Code::InvalidArgument, "FLV0003"), "{outcome:?}");
    assert!(outcome.contains("item 2"), "{outcome:?}");
    let mut some = tasks(3);
    some.items[1].org_id = OTHER_TENANT.to_string();
    let outcome = send(&server, "WorkflowClient/SubmitTasks", &some, TOKEN).await;
    assert!(outcome.is(Code::PermissionDenied, "FLV0081"), "{outcome:?}");
    let snapshot = server.server.api().service().store().snapshot().await.unwrap();
    assert!(snapshot.executions.is_empty() && snapshot.tasks.is_empty());
    assert_goes_on(&server).await;
}
