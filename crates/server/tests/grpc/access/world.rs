//! A tenant with one of everything, all in use, so that any change by another caller is visible.

use bytes::Bytes;
use flovyn_engine::for_each_table;
use flovyn_proto::v1;
use flovyn_proto::v1::worker_stream_client::WorkerStreamClient;
use flovyn_proto::v1::workflow_command::CommandData;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Streaming};

use super::table::{command, new_id};
use super::wire::send;
use crate::common::{Database, OTHER_TENANT, TENANT, TOKEN, TestServer};

/// Contained in every payload of the tenant. No other caller may see it.
pub(super) const SECRET: &str = "secret-of-tenant-one";

/// The ids that a request can name.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids {
    pub(super) org: String,
    /// An execution that runs, claimed by the session.
    pub(super) execution: String,
    pub(super) execution_token: i64,
    /// A task of the execution that runs, claimed by the session.
    pub(super) task: String,
    pub(super) task_token: i64,
    pub(super) promise: String,
    pub(super) child: String,
    /// The id of a worker that polls.
    pub(super) worker: String,
    pub(super) session: String,
}

pub(super) struct World {
    pub(super) server: TestServer,
    pub(super) ids: Ids,
    // The session lives as long as its connection.
    _stream: (mpsc::Sender<v1::WorkerFrame>, Streaming<v1::ServerFrame>),
}

pub(super) fn secret() -> Bytes {
    Bytes::from(format!("\"{SECRET}\""))
}

impl World {
    pub(super) async fn new() -> Self {
        Self::on(TestServer::start(Database::Sqlite).await).await
    }

    pub(super) async fn on(server: TestServer) -> Self {
        let mut ids = Ids { org: TENANT.to_string(), ..Ids::default() };
        ids.worker = register(&server).await;
        start_and_suspend(&server, &mut ids).await;
        let stream = hold(&server, &mut ids).await;
        Self { server, ids, _stream: stream }
    }

    /// All rows except those of the other tenant.
    pub(super) async fn rows(&self) -> Vec<String> {
        let snapshot = self.server.server.api().service().store().snapshot().await.unwrap();
        let mut rows: Vec<String> = Vec::new();
        macro_rules! add {
            ($($field:ident: $row:ident,)*) => {
                $(rows.extend(snapshot.$field.iter().map(|row| format!("{row:?}")));)*
            };
        }
        for_each_table!(add);
        let (own, other) = (TENANT.to_string(), OTHER_TENANT.to_string());
        rows.retain(|row| row.contains(&own) || !row.contains(&other));
        rows
    }
}

async fn register(server: &TestServer) -> String {
    let message = v1::WorkerRegistrationRequest {
        worker_name: "poller".into(),
        org_id: TENANT.to_string(),
        ..v1::WorkerRegistrationRequest::default()
    };
    let outcome = send(server, "WorkerLifecycle/RegisterWorker", &message, TOKEN).await;
    outcome.reply::<v1::WorkerRegistrationResponse>().worker_id
}

/// An execution with a promise, two tasks (one stays pending), a child and a state; ready to run again.
async fn start_and_suspend(server: &TestServer, ids: &mut Ids) {
    let start = v1::StartWorkflowRequest {
        workflow_kind: "order".into(),
        input: secret(),
        idempotency_key: Some("order-1".into()),
        ..v1::StartWorkflowRequest::default()
    };
    let started = send(server, "WorkflowDispatch/StartWorkflow", &start, TOKEN).await;
    ids.execution = started.reply::<v1::StartWorkflowResponse>().workflow_execution_id;
    let poll = v1::PollRequest {
        worker_id: "fixture".into(),
        workflow_capabilities: vec!["order".into()],
        ..v1::PollRequest::default()
    };
    let polled = send(server, "WorkflowDispatch/PollWorkflow", &poll, TOKEN).await;
    let claim_token = polled.reply::<v1::PollResponse>().workflow_execution.unwrap().claim_token;
    (ids.task, ids.child) = (new_id(), new_id());
    let task = |kind: &str, id: &str| {
        command(CommandData::ScheduleTask(v1::ScheduleTaskCommand {
            kind: kind.into(),
            task_execution_id: id.into(),
            input: secret(),
            ..v1::ScheduleTaskCommand::default()
        }))
    };
    let submit = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: ids.execution.clone(),
        commands: vec![
            command(CommandData::CreatePromise(v1::CreatePromiseCommand {
                promise_id: "approval".into(),
                idempotency_key: Some("approval-1".into()),
                ..v1::CreatePromiseCommand::default()
            })),
            task("charge", &ids.task),
            task("pending", &new_id()),
            command(CommandData::ScheduleChildWorkflow(v1::ScheduleChildWorkflowCommand {
                child_execution_name: "child".into(),
                workflow_kind: Some("child".into()),
                child_workflow_execution_id: ids.child.clone(),
                input: secret(),
                ..v1::ScheduleChildWorkflowCommand::default()
            })),
            command(CommandData::SetState(v1::SetStateCommand { key: "state".into(), value: secret() })),
        ],
        status: v1::WorkflowStatus::Suspended.into(),
        claim_token: Some(claim_token),
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    send(server, "WorkflowDispatch/SubmitWorkflowCommands", &submit, TOKEN).await.reply::<()>();
    let promises = server.server.api().service().store().snapshot().await.unwrap().promises;
    ids.promise = promises[0].id.to_string();
    let signal = v1::SignalWorkflowRequest {
        workflow_execution_id: ids.execution.clone(),
        signal_name: "go".into(),
        ..v1::SignalWorkflowRequest::default()
    };
    let signalled = send(server, "WorkflowDispatch/SignalWorkflow", &signal, TOKEN).await;
    signalled.reply::<v1::SignalWorkflowResponse>();
}

/// A session that claims the execution and its task.
async fn hold(
    server: &TestServer,
    ids: &mut Ids,
) -> (mpsc::Sender<v1::WorkerFrame>, Streaming<v1::ServerFrame>) {
    ids.session = new_id();
    let (sender, frames) = mpsc::channel(4);
    let hello = super::table::hello(ids);
    let first =
        v1::WorkerFrame { hello: Some(hello), workflow_credits: 1, task_credits: 1, ..Default::default() };
    sender.send(first).await.unwrap();
    let mut request = Request::new(ReceiverStream::new(frames));
    request.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    let mut client = WorkerStreamClient::new(server.channel());
    let mut inbound = client.connect(request).await.unwrap().into_inner();
    while ids.execution_token == 0 || ids.task_token == 0 {
        let frame = inbound.message().await.unwrap().unwrap();
        for activation in frame.activations {
            assert_eq!(activation.id, ids.execution);
            ids.execution_token = activation.claim_token;
        }
        for task in frame.tasks {
            assert_eq!(task.task_execution_id, ids.task);
            ids.task_token = task.claim_token;
        }
    }
    (sender, inbound)
}
