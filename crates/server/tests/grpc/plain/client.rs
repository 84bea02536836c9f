//! The plain client: one generic call, and the actions of a worker and an application built on it.

use std::time::{Duration, Instant};

use serde_json::Value;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;
use uuid::Uuid;

use super::commands::{COMPLETED, SUSPENDED, SubmitRequest, WorkflowCommand, complete, suspend};
use super::messages::*;
use crate::common::{TENANT, TOKEN, TestServer};

/// Nothing in these tests takes this long.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);
const LONG_POLL_SECONDS: i64 = 25;
pub(super) const WORKER: &str = "plain-worker";
pub(super) const QUEUE: &str = "default";

#[derive(Debug, Clone)]
pub(super) struct Plain {
    channel: Channel,
}

/// An event as tests compare it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) data: Value,
}

pub(super) fn json_bytes(value: Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

pub(super) fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

impl Plain {
    pub(super) fn of(server: &TestServer) -> Self {
        Self { channel: server.channel() }
    }

    /// Any rpc, by `Service/Rpc`.
    pub(super) async fn call<Q, R>(&self, rpc: &str, message: Q) -> Result<R, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
        let path = PathAndQuery::try_from(format!("/flovyn.v1.{rpc}")).unwrap();
        let codec: ProstCodec<Q, R> = ProstCodec::default();
        Ok(grpc.unary(request, path, codec).await?.into_inner())
    }

    /// Registers a worker for these kinds. Returns the id that the server assigned.
    pub(super) async fn register(&self, name: &str, workflows: &[&str], tasks: &[&str]) -> String {
        self.register_process((name, "", ""), workflows, tasks).await
    }

    /// Registers a process by name, host and number.
    pub(super) async fn register_process(
        &self,
        (name, host, process): (&str, &str, &str),
        workflows: &[&str],
        tasks: &[&str],
    ) -> String {
        let workflow = |kind: &&str| WorkflowCapability {
            kind: (*kind).into(),
            version: "1.0.0".into(),
            ..WorkflowCapability::default()
        };
        let task = |kind: &&str| TaskCapability { kind: (*kind).into(), ..TaskCapability::default() };
        let request = WorkerRegistrationRequest {
            worker_name: name.into(),
            worker_version: "1.0.0".into(),
            worker_type: "UNIFIED".into(),
            org_id: TENANT.to_string(),
            host_name: host.into(),
            process_id: process.into(),
            workflows: workflows.iter().map(workflow).collect(),
            tasks: tasks.iter().map(task).collect(),
        };
        let reply: WorkerRegistrationResponse =
            self.call("WorkerLifecycle/RegisterWorker", request).await.unwrap();
        assert!(reply.success && !reply.worker_id.parse::<Uuid>().unwrap().is_nil());
        reply.worker_id
    }

    pub(super) async fn start(&self, kind: &str, input: Value) -> String {
        let request = start_request(kind, input);
        self.start_with(request).await.unwrap().workflow_execution_id
    }

    pub(super) async fn start_with(
        &self,
        request: StartWorkflowRequest,
    ) -> Result<StartWorkflowResponse, Status> {
        self.call("WorkflowDispatch/StartWorkflow", request).await
    }

    /// Polls for a workflow, which must arrive.
    pub(super) async fn poll_workflow(&self) -> WorkflowExecution {
        self.poll_workflow_as(WORKER, QUEUE, LONG_POLL_SECONDS).await.expect("no workflow came")
    }

    /// Polls for this long, as workers do: a poll without work is repeated.
    pub(super) async fn poll_workflow_as(
        &self,
        worker: &str,
        queue: &str,
        seconds: i64,
    ) -> Option<WorkflowExecution> {
        let until = Until::from_now(seconds);
        loop {
            let found = self.poll_workflow_once(worker, queue, until.seconds_left()).await;
            if found.is_some() || until.is_over() {
                return found;
            }
        }
    }

    pub(super) async fn poll_workflow_once(
        &self,
        worker: &str,
        queue: &str,
        timeout_seconds: i64,
    ) -> Option<WorkflowExecution> {
        let request = PollRequest {
            worker_id: worker.into(),
            org_id: TENANT.to_string(),
            queue: queue.into(),
            timeout_seconds,
            workflow_capabilities: Vec::new(),
        };
        let poll = self.call::<_, PollResponse>("WorkflowDispatch/PollWorkflow", request);
        tokio::time::timeout(DEADLINE, poll).await.unwrap().unwrap().workflow_execution
    }

    /// Claims this execution, which must be the next one. Returns its history.
    pub(super) async fn claim(&self, id: &str) -> Vec<Event> {
        let execution = self.poll_workflow().await;
        assert_eq!(execution.id, id);
        self.events(id).await
    }

    pub(super) async fn assert_no_workflow(&self) {
        let found = self.poll_workflow_as(WORKER, QUEUE, 0).await;
        assert!(found.is_none(), "{found:?}");
    }

    pub(super) async fn submit(
        &self,
        id: &str,
        commands: Vec<WorkflowCommand>,
        status: i32,
    ) -> Result<(), Status> {
        let request = SubmitRequest { workflow_execution_id: id.into(), commands, status };
        self.call("WorkflowDispatch/SubmitWorkflowCommands", request).await
    }

    /// Sends commands, then SUSPEND, as the Rust SDK ends a waiting activation.
    pub(super) async fn suspend(&self, id: &str, mut commands: Vec<WorkflowCommand>) {
        commands.push(suspend("Waiting for something"));
        self.submit(id, commands, SUSPENDED).await.unwrap();
    }

    /// Suspends without commands, like the previous activation. The server cannot distinguish it from a repeated
    /// request, so the execution is activated once more.
    pub(super) async fn suspend_again(&self, id: &str) {
        self.suspend(id, Vec::new()).await;
        self.claim(id).await;
        self.suspend(id, Vec::new()).await;
    }

    pub(super) async fn complete(&self, id: &str, output: Value) {
        self.submit(id, vec![complete(output)], COMPLETED).await.unwrap();
    }

    /// The whole history. The sequence numbers must be 1, 2, 3 ...
    pub(super) async fn events(&self, id: &str) -> Vec<Event> {
        let request = GetEventsRequest { workflow_execution_id: id.into() };
        let reply: GetEventsResponse = self.call("WorkflowDispatch/GetEvents", request).await.unwrap();
        for (number, event) in (1..).zip(&reply.events) {
            assert_eq!(event.sequence_number, number, "{:?}", reply.events);
        }
        let read = |event: WorkflowEvent| Event { kind: event.event_type, data: parsed(&event.event_data) };
        reply.events.into_iter().map(read).collect()
    }

    pub(super) async fn signal(&self, id: &str, name: &str, value: Value) -> Result<i64, Status> {
        let request = SignalWorkflowRequest {
            org_id: TENANT.to_string(),
            workflow_execution_id: id.into(),
            signal_name: name.into(),
            signal_value: json_bytes(value),
        };
        let reply: SignalWorkflowResponse = self.call("WorkflowDispatch/SignalWorkflow", request).await?;
        Ok(reply.signal_event_sequence)
    }

    /// Sends a query, which must be answered.
    pub(super) async fn query(&self, id: &str, name: &str) -> Value {
        let reply = self.query_reply(id, name).await;
        assert_eq!(reply.error, None);
        parsed(&reply.result)
    }

    pub(super) async fn query_reply(&self, id: &str, name: &str) -> QueryWorkflowResponse {
        let request = QueryWorkflowRequest {
            workflow_execution_id: id.into(),
            query_name: name.into(),
            ..QueryWorkflowRequest::default()
        };
        self.call("WorkflowQuery/QueryWorkflow", request).await.unwrap()
    }

    pub(super) async fn poll_task(&self) -> TaskExecutionInfo {
        self.poll_task_as(WORKER, QUEUE, LONG_POLL_SECONDS).await.expect("no task came")
    }

    pub(super) async fn poll_task_as(
        &self,
        worker: &str,
        queue: &str,
        seconds: i64,
    ) -> Option<TaskExecutionInfo> {
        let until = Until::from_now(seconds);
        loop {
            let found = self.poll_task_once(worker, queue, until.seconds_left()).await;
            if found.is_some() || until.is_over() {
                return found;
            }
        }
    }

    pub(super) async fn poll_task_once(
        &self,
        worker: &str,
        queue: &str,
        timeout_seconds: i64,
    ) -> Option<TaskExecutionInfo> {
        let request = PollTaskRequest {
            worker_id: worker.into(),
            org_id: TENANT.to_string(),
            timeout_seconds,
            queue: queue.into(),
        };
        let poll = self.call::<_, PollTaskResponse>("TaskExecution/PollTask", request);
        tokio::time::timeout(DEADLINE, poll).await.unwrap().unwrap().task
    }

    pub(super) async fn assert_no_task(&self) {
        let found = self.poll_task_as(WORKER, QUEUE, 0).await;
        assert!(found.is_none(), "{found:?}");
    }

    /// Creates a standalone task. Returns its id.
    pub(super) async fn submit_task(&self, kind: &str) -> String {
        let request = SubmitTaskRequest {
            org_id: TENANT.to_string(),
            kind: kind.into(),
            input: json_bytes(Value::Null),
            max_retries: 3,
            queue: QUEUE.into(),
            ..SubmitTaskRequest::default()
        };
        let reply: SubmitTaskResponse = self.call("TaskExecution/SubmitTask", request).await.unwrap();
        reply.task_execution_id
    }

    pub(super) async fn complete_task(&self, id: impl ToString, output: Value) -> Result<(), Status> {
        let request = CompleteTaskRequest { task_execution_id: id.to_string(), output: json_bytes(output) };
        self.call("TaskExecution/CompleteTask", request).await
    }

    pub(super) async fn fail_task(&self, id: impl ToString, error: &str) -> Result<(), Status> {
        let request = FailTaskRequest { task_execution_id: id.to_string(), error: error.into() };
        self.call("TaskExecution/FailTask", request).await
    }
}

/// The time until which to poll.
struct Until(Instant);

impl Until {
    fn from_now(seconds: i64) -> Self {
        Self(Instant::now() + Duration::from_secs(seconds.unsigned_abs()))
    }

    fn seconds_left(&self) -> i64 {
        i64::try_from(self.0.saturating_duration_since(Instant::now()).as_secs()).unwrap()
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }
}

pub(super) fn start_request(kind: &str, input: Value) -> StartWorkflowRequest {
    StartWorkflowRequest {
        org_id: TENANT.to_string(),
        workflow_kind: kind.into(),
        input: json_bytes(input),
        queue: QUEUE.into(),
        ..StartWorkflowRequest::default()
    }
}

/// An event with exactly this data.
pub(super) fn event(kind: &str, data: Value) -> Event {
    Event { kind: kind.into(), data }
}

pub(super) fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}
