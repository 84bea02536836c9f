//! `WorkflowDispatch`, `WorkflowQuery` and `WorkflowClient`.

use flovyn_proto::v1;
use flovyn_proto::v1::execute_item::What;
use flovyn_proto::v1::start_child_workflow_request::WorkflowExecutionIdentifier;

use super::super::world::secret;
use super::{Entry, rpc, submit};

pub(super) fn entries() -> Vec<Entry> {
    [dispatch(), promises(), client()].into_iter().flatten().collect()
}

fn start(org: &str, parent: &str) -> v1::StartWorkflowRequest {
    v1::StartWorkflowRequest {
        org_id: org.into(),
        workflow_kind: "started".into(),
        input: secret(),
        parent_workflow_execution_id: Some(parent.into()),
        ..v1::StartWorkflowRequest::default()
    }
}

fn dispatch() -> Vec<Entry> {
    vec![
        rpc!("WorkflowDispatch/PollWorkflow", Own, |ids| v1::PollRequest {
            worker_id: ids.worker.clone(),
            org_id: ids.org.clone(),
            queue: "default".into(),
            workflow_capabilities: vec!["child".into()],
            ..v1::PollRequest::default()
        }),
        rpc!("WorkflowDispatch/SubscribeToNotifications", Own, |ids| v1::SubscriptionRequest {
            worker_id: ids.worker.clone(),
            org_id: ids.org.clone(),
            queue: "default".into(),
        }),
        rpc!("WorkflowDispatch/StartWorkflow", Missing, |ids| start(&ids.org, &ids.execution)),
        rpc!("WorkflowDispatch/StartWorkflow", Own, |ids| start(&ids.org, "")),
        rpc!("WorkflowDispatch/GetVisualWorkflowDefinitionById", Own, Unimplemented, |ids| {
            v1::GetVisualWorkflowDefinitionByIdRequest { workflow_definition_id: ids.execution.clone() }
        }),
        rpc!("WorkflowDispatch/StartChildWorkflow", Missing, |ids| v1::StartChildWorkflowRequest {
            parent_workflow_execution_id: ids.execution.clone(),
            child_execution_name: "named".into(),
            org_id: ids.org.clone(),
            workflow_execution_identifier: Some(WorkflowExecutionIdentifier::WorkflowKind("child".into())),
            input: secret(),
            ..v1::StartChildWorkflowRequest::default()
        }),
        // With a queue, the parent's queue is not read.
        rpc!("WorkflowDispatch/StartChildWorkflow", Missing, |ids| v1::StartChildWorkflowRequest {
            parent_workflow_execution_id: ids.execution.clone(),
            child_execution_name: "named".into(),
            org_id: ids.org.clone(),
            workflow_execution_identifier: Some(WorkflowExecutionIdentifier::WorkflowKind("child".into())),
            queue: "default".into(),
            ..v1::StartChildWorkflowRequest::default()
        }),
        // In another tenant, the key of this tenant's execution belongs to another execution, or to none.
        rpc!("WorkflowDispatch/SignalWithStartWorkflow", Own, |ids| v1::SignalWithStartWorkflowRequest {
            org_id: ids.org.clone(),
            workflow_id: "order-1".into(),
            workflow_kind: "order".into(),
            workflow_input: "1".into(),
            signal_name: "signal".into(),
            signal_value: "2".into(),
            ..v1::SignalWithStartWorkflowRequest::default()
        }),
        rpc!("WorkflowDispatch/SignalWorkflow", Missing, |ids| v1::SignalWorkflowRequest {
            org_id: ids.org.clone(),
            workflow_execution_id: ids.execution.clone(),
            signal_name: "signal".into(),
            signal_value: "2".into(),
        }),
        rpc!("WorkflowDispatch/GetEvents", Missing, |ids| v1::GetEventsRequest {
            workflow_execution_id: ids.execution.clone(),
            ..v1::GetEventsRequest::default()
        }),
        rpc!("WorkflowDispatch/GetEvents", Missing, |ids| v1::GetEventsRequest {
            workflow_execution_id: ids.execution.clone(),
            after_sequence: 1,
            page_size: Some(2),
        }),
        rpc!("WorkflowDispatch/SubmitWorkflowCommands", Missing, |ids| submit(ids)),
        rpc!("WorkflowDispatch/ReportExecutionSpans", Own, |ids| v1::ReportExecutionSpansRequest {
            sdk_info: Some(v1::SdkInfo { language: "rust".into(), ..v1::SdkInfo::default() }),
            spans: vec![v1::ExecutionSpan {
                workflow_id: ids.execution.clone(),
                task_id: Some(ids.task.clone()),
                ..v1::ExecutionSpan::default()
            }],
        }),
        rpc!("WorkflowQuery/QueryWorkflow", Missing, |ids| v1::QueryWorkflowRequest {
            workflow_execution_id: ids.execution.clone(),
            query_name: "state".into(),
            ..v1::QueryWorkflowRequest::default()
        }),
    ]
}

/// A promise can be named in three ways.
fn promises() -> Vec<Entry> {
    fn resolve(promise_id: String) -> v1::ResolvePromiseRequest {
        v1::ResolvePromiseRequest { promise_id, value: "1".into() }
    }
    fn reject(promise_id: String) -> v1::RejectPromiseRequest {
        v1::RejectPromiseRequest { promise_id, error: "no".into() }
    }
    vec![
        rpc!("WorkflowDispatch/ResolvePromise", Missing, |ids| resolve(ids.promise.clone())),
        rpc!("WorkflowDispatch/ResolvePromise", Missing, |ids| {
            resolve(format!("{}/approval", ids.execution))
        }),
        rpc!("WorkflowDispatch/ResolvePromise", Missing, |_ids| resolve("key:approval-1".into())),
        rpc!("WorkflowDispatch/RejectPromise", Missing, |ids| reject(ids.promise.clone())),
        rpc!("WorkflowDispatch/RejectPromise", Missing, |ids| reject(format!("{}/approval", ids.execution))),
        rpc!("WorkflowDispatch/RejectPromise", Missing, |_ids| reject("key:approval-1".into())),
    ]
}

fn client() -> Vec<Entry> {
    vec![
        rpc!("WorkflowClient/GetExecution", Missing, |ids| v1::GetExecutionRequest {
            workflow_execution_id: ids.execution.clone(),
            ..v1::GetExecutionRequest::default()
        }),
        // In another tenant, the key of this tenant's execution belongs to another execution.
        rpc!("WorkflowClient/GetExecution", Own, |_ids| v1::GetExecutionRequest {
            key: "order-1".into(),
            ..v1::GetExecutionRequest::default()
        }),
        rpc!("WorkflowClient/ListExecutions", Own, |_ids| v1::ListExecutionsRequest {
            key: "order-1".into(),
            ..v1::ListExecutionsRequest::default()
        }),
        rpc!("WorkflowClient/ListExecutions", Own, |ids| v1::ListExecutionsRequest {
            parent_id: ids.execution.clone(),
            kind: "child".into(),
            ..v1::ListExecutionsRequest::default()
        }),
        // Every execution of the tenant comes after this cursor.
        rpc!("WorkflowClient/ListExecutions", Own, |ids| v1::ListExecutionsRequest {
            page_token: format!("{}.{}", i64::MAX, ids.execution),
            ..v1::ListExecutionsRequest::default()
        }),
        rpc!("WorkflowClient/CancelExecution", Missing, |ids| v1::CancelExecutionRequest {
            workflow_execution_id: ids.execution.clone(),
            reason: "why".into(),
            cascade: true,
        }),
        rpc!("WorkflowClient/TerminateExecution", Missing, |ids| v1::TerminateExecutionRequest {
            workflow_execution_id: ids.execution.clone(),
            reason: "why".into(),
        }),
        rpc!("WorkflowClient/WaitForResult", Missing, |ids| v1::WaitForResultRequest {
            workflow_execution_id: ids.execution.clone(),
            timeout_ms: 1,
        }),
        // Each item is refused separately, inside a reply.
        rpc!("WorkflowClient/Execute", Own, |ids| v1::ExecuteFrame {
            items: vec![
                v1::ExecuteItem { r#ref: 1, what: Some(What::WorkflowExecutionId(ids.execution.clone())) },
                v1::ExecuteItem { r#ref: 2, what: Some(What::Start(start(&ids.org, &ids.execution))) },
            ],
        }),
        rpc!("WorkflowClient/StartWorkflows", Missing, |ids| v1::StartWorkflowsRequest {
            items: vec![start(&ids.org, ""), start(&ids.org, &ids.execution)],
        }),
        rpc!("WorkflowClient/SubmitTasks", Missing, |ids| v1::SubmitTasksRequest {
            items: vec![super::workers::task("", &ids.org), super::workers::task(&ids.execution, &ids.org)],
        }),
        rpc!("WorkflowClient/GetTask", Missing, |ids| v1::GetTaskRequest {
            task_execution_id: ids.task.clone(),
        }),
        rpc!("WorkflowClient/WaitForTask", Missing, |ids| v1::WaitForTaskRequest {
            task_execution_id: ids.task.clone(),
            timeout_ms: 1,
        }),
    ]
}
