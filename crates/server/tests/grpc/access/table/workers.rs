//! `TaskExecution`, `WorkerLifecycle` and `WorkerStream`.

use flovyn_proto::v1;
use flovyn_proto::v1::task_result::Result as TaskOutcome;
use prost::Message;
use tonic::Code;

use super::super::wire::CONNECT;
use super::super::world::{Ids, secret};
use super::{Entry, Foreign, rpc, submit};

pub(super) fn entries() -> Vec<Entry> {
    let mut all = tasks();
    all.extend(state());
    all.extend(workers());
    all
}

pub(super) fn task(execution: &str, org: &str) -> v1::SubmitTaskRequest {
    v1::SubmitTaskRequest {
        workflow_execution_id: execution.into(),
        org_id: org.into(),
        kind: "submitted".into(),
        input: secret(),
        ..v1::SubmitTaskRequest::default()
    }
}

fn complete(ids: &Ids) -> v1::CompleteTaskRequest {
    v1::CompleteTaskRequest {
        task_execution_id: ids.task.clone(),
        output: "1".into(),
        claim_token: Some(ids.task_token),
    }
}

fn fail(ids: &Ids) -> v1::FailTaskRequest {
    v1::FailTaskRequest {
        task_execution_id: ids.task.clone(),
        error: "no".into(),
        claim_token: Some(ids.task_token),
        ..v1::FailTaskRequest::default()
    }
}

fn tasks() -> Vec<Entry> {
    vec![
        rpc!("TaskExecution/SubmitTask", Missing, |ids| task(&ids.execution, &ids.org)),
        rpc!("TaskExecution/SubmitTask", Own, |ids| task("", &ids.org)),
        rpc!("TaskExecution/PollTask", Own, |ids| v1::PollTaskRequest {
            worker_id: ids.worker.clone(),
            org_id: ids.org.clone(),
            queue: "default".into(),
            task_types: vec!["pending".into()],
            ..v1::PollTaskRequest::default()
        }),
        rpc!("TaskExecution/CompleteTask", Missing, |ids| complete(ids)),
        // Clients of the public protocol send no token, but this claim has one.
        rpc!("TaskExecution/CompleteTask", Missing, FailedPrecondition, |ids| v1::CompleteTaskRequest {
            claim_token: None,
            ..complete(ids)
        }),
        rpc!("TaskExecution/FailTask", Missing, |ids| fail(ids)),
        rpc!("TaskExecution/FailTask", Missing, FailedPrecondition, |ids| v1::FailTaskRequest {
            claim_token: None,
            ..fail(ids)
        }),
        rpc!("TaskExecution/ReportProgress", Missing, |ids| v1::ReportProgressRequest {
            task_execution_id: ids.task.clone(),
            progress: 0.5,
            details: "half".into(),
            claim_token: Some(ids.task_token),
        }),
        rpc!("TaskExecution/Heartbeat", Missing, |ids| v1::HeartbeatRequest {
            task_execution_id: ids.task.clone(),
            claim_token: Some(ids.task_token),
            details: Some("1".into()),
        }),
        rpc!("TaskExecution/CancelTask", Missing, |ids| v1::CancelTaskRequest {
            task_execution_id: ids.task.clone(),
        }),
        rpc!("TaskExecution/LogMessage", Missing, |ids| v1::LogMessageRequest {
            task_execution_id: ids.task.clone(),
            level: "INFO".into(),
            message: "a line".into(),
            claim_token: Some(ids.task_token),
        }),
        rpc!("TaskExecution/StreamTaskData", Missing, |ids| v1::StreamTaskDataRequest {
            task_execution_id: ids.task.clone(),
            workflow_execution_id: ids.execution.clone(),
            r#type: v1::StreamEventType::Data.into(),
            payload: "1".into(),
            claim_token: Some(ids.task_token),
            ..v1::StreamTaskDataRequest::default()
        }),
    ]
}

fn state() -> Vec<Entry> {
    vec![
        rpc!("TaskExecution/GetState", Missing, |ids| v1::GetStateRequest {
            task_execution_id: ids.task.clone(),
            key: "key".into(),
        }),
        rpc!("TaskExecution/SetState", Missing, |ids| v1::SetStateRequest {
            task_execution_id: ids.task.clone(),
            key: "key".into(),
            value: "1".into(),
            claim_token: Some(ids.task_token),
        }),
        rpc!("TaskExecution/ClearState", Missing, |ids| v1::ClearStateRequest {
            task_execution_id: ids.task.clone(),
            key: "key".into(),
            claim_token: Some(ids.task_token),
        }),
        rpc!("TaskExecution/ClearAllState", Missing, |ids| v1::ClearAllStateRequest {
            task_execution_id: ids.task.clone(),
            claim_token: Some(ids.task_token),
        }),
        rpc!("TaskExecution/GetStateKeys", Missing, |ids| v1::GetStateKeysRequest {
            task_execution_id: ids.task.clone(),
        }),
    ]
}

pub(in super::super) fn hello(ids: &Ids) -> v1::StreamHello {
    v1::StreamHello {
        session_id: ids.session.clone(),
        worker_name: "streamer".into(),
        workflows: vec![v1::StreamWorkflowKind {
            kind: "order".into(),
            versions: Vec::new(),
            ..v1::StreamWorkflowKind::default()
        }],
        tasks: vec![v1::StreamTaskType {
            task_type: "charge".into(),
            timeout_ms: None,
            ..v1::StreamTaskType::default()
        }],
        ..v1::StreamHello::default()
    }
}

/// The session reconnects, releases its claims and disconnects.
fn giving_back(ids: &Ids) -> Vec<Vec<u8>> {
    let claim = v1::HeldClaim { id: ids.execution.clone(), claim_token: ids.execution_token };
    let task = v1::HeldClaim { id: ids.task.clone(), claim_token: ids.task_token };
    let first = v1::WorkerFrame {
        hello: Some(v1::StreamHello { held: vec![claim.clone(), task], ..hello(ids) }),
        activations: vec![v1::ActivationResult { r#ref: 1, submit: None, give_back: Some(claim) }],
        goodbye: true,
        ..v1::WorkerFrame::default()
    };
    vec![first.encode_to_vec()]
}

/// The session reconnects, names its claims, sends results for them and disconnects.
fn frames(ids: &Ids) -> Vec<Vec<u8>> {
    let held = [(&ids.execution, ids.execution_token), (&ids.task, ids.task_token)];
    let held = held.map(|(id, claim_token)| v1::HeldClaim { id: id.clone(), claim_token }).to_vec();
    let first = v1::WorkerFrame {
        hello: Some(v1::StreamHello { held, ..hello(ids) }),
        workflow_credits: 9,
        task_credits: 9,
        heartbeat: true,
        task_heartbeats: vec![v1::TaskHeartbeat {
            task_execution_id: ids.task.clone(),
            claim_token: ids.task_token,
            details: Some("1".into()),
        }],
        ..v1::WorkerFrame::default()
    };
    let results = v1::WorkerFrame {
        activations: vec![v1::ActivationResult { r#ref: 1, submit: Some(submit(ids)), give_back: None }],
        tasks: vec![v1::TaskResult {
            r#ref: 2,
            result: Some(TaskOutcome::Complete(complete(ids))),
            next: Some(submit(ids)),
        }],
        ..v1::WorkerFrame::default()
    };
    let last = v1::WorkerFrame {
        tasks: vec![v1::TaskResult { r#ref: 3, result: Some(TaskOutcome::Fail(fail(ids))), next: None }],
        goodbye: true,
        ..v1::WorkerFrame::default()
    };
    vec![first.encode_to_vec(), results.encode_to_vec(), last.encode_to_vec()]
}

fn workers() -> Vec<Entry> {
    vec![
        // The worker registers in its own tenant.
        rpc!("WorkerLifecycle/RegisterWorker", Own, |ids| v1::WorkerRegistrationRequest {
            worker_name: "poller".into(),
            org_id: ids.org.clone(),
            workflows: vec![v1::WorkflowCapability { kind: "order".into(), ..Default::default() }],
            tasks: vec![v1::TaskCapability { kind: "charge".into(), ..Default::default() }],
            ..v1::WorkerRegistrationRequest::default()
        }),
        rpc!("WorkerLifecycle/SendHeartbeat", Missing, |ids| v1::WorkerHeartbeatRequest {
            worker_id: ids.worker.clone(),
            ..v1::WorkerHeartbeatRequest::default()
        }),
        // The outcomes of results are in the answers, not in the status of the stream.
        Entry { path: CONNECT, foreign: Foreign::Own, control: Code::Ok, frames },
        Entry { path: CONNECT, foreign: Foreign::Own, control: Code::Ok, frames: giving_back },
    ]
}
