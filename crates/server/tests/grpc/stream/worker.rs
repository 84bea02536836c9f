//! A minimal worker on the stream: it sends frames, and sorts received frames by their content.

use std::collections::VecDeque;
use std::time::Duration;

use flovyn_proto::v1;
use flovyn_proto::v1::worker_stream_client::WorkerStreamClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};
use uuid::Uuid;

use crate::common::{TOKEN, TestServer};

/// Longer than anything in these tests takes. A test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const KIND: &str = "order";
pub(crate) const TASK: &str = "charge";

pub(crate) struct Worker {
    outbound: mpsc::Sender<v1::WorkerFrame>,
    inbound: Streaming<v1::ServerFrame>,
    pub(crate) welcome: v1::StreamWelcome,
    activations: VecDeque<v1::WorkflowExecution>,
    tasks: VecDeque<v1::TaskExecutionInfo>,
    acks: VecDeque<v1::ResultAck>,
    cancels: VecDeque<v1::CancelNotice>,
    refused_heartbeats: VecDeque<v1::HeartbeatRefused>,
    drained: bool,
    next_ref: u64,
}

/// A message with the tenant's worker token.
pub(crate) fn signed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    request
}

pub(crate) fn hello(session: Uuid) -> v1::StreamHello {
    v1::StreamHello {
        session_id: session.to_string(),
        worker_name: format!("worker-{session}"),
        queue: "default".into(),
        build_id: "build-1".into(),
        host_name: "localhost".into(),
        process_id: "1".into(),
        workflows: vec![v1::StreamWorkflowKind {
            kind: KIND.into(),
            versions: Vec::new(),
            ..v1::StreamWorkflowKind::default()
        }],
        tasks: vec![v1::StreamTaskType {
            task_type: TASK.into(),
            timeout_ms: None,
            ..v1::StreamTaskType::default()
        }],
        held: Vec::new(),
        provisional: false,
    }
}

impl Worker {
    /// Connects with ten slots of each kind.
    pub(crate) async fn connect(server: &TestServer) -> Self {
        Self::with(server, hello(Uuid::new_v4()), 10, 10).await.unwrap()
    }

    pub(crate) async fn with(
        server: &TestServer,
        hello: v1::StreamHello,
        workflow_credits: u32,
        task_credits: u32,
    ) -> Result<Self, Status> {
        let (outbound, frames) = mpsc::channel(16);
        let first = v1::WorkerFrame {
            hello: Some(hello),
            workflow_credits,
            task_credits,
            ..v1::WorkerFrame::default()
        };
        outbound.send(first).await.unwrap();
        let mut client = WorkerStreamClient::new(server.channel());
        let mut inbound = client.connect(signed(ReceiverStream::new(frames))).await?.into_inner();
        let welcome = tokio::time::timeout(PATIENCE, inbound.message()).await.expect("a welcome")?;
        Ok(Self {
            outbound,
            inbound,
            welcome: welcome.and_then(|frame| frame.welcome).expect("the first frame is a welcome"),
            activations: VecDeque::new(),
            tasks: VecDeque::new(),
            acks: VecDeque::new(),
            cancels: VecDeque::new(),
            refused_heartbeats: VecDeque::new(),
            drained: false,
            next_ref: 0,
        })
    }

    pub(crate) async fn send(&self, frame: v1::WorkerFrame) {
        self.outbound.send(frame).await.expect("the stream is open");
    }

    pub(crate) async fn grant(&self, workflow_credits: u32, task_credits: u32) {
        self.send(v1::WorkerFrame { workflow_credits, task_credits, ..v1::WorkerFrame::default() }).await;
    }

    pub(crate) async fn goodbye(self) {
        self.send(v1::WorkerFrame { goodbye: true, ..v1::WorkerFrame::default() }).await;
        let Self { mut inbound, .. } = self;
        while let Ok(Some(_)) = inbound.message().await {}
    }

    /// Reads one frame. `false`: the stream has ended.
    pub(crate) async fn read(&mut self) -> bool {
        let frame = tokio::time::timeout(PATIENCE, self.inbound.message()).await.expect("a frame in time");
        let Ok(Some(frame)) = frame else { return false };
        self.activations.extend(frame.activations);
        self.tasks.extend(frame.tasks);
        self.acks.extend(frame.acks);
        self.cancels.extend(frame.cancels);
        self.refused_heartbeats.extend(frame.refused_heartbeats);
        self.drained |= frame.drain;
        true
    }

    pub(crate) async fn activation(&mut self) -> v1::WorkflowExecution {
        loop {
            if let Some(found) = self.activations.pop_front() {
                return found;
            }
            assert!(self.read().await, "the stream ended before an activation");
        }
    }

    pub(crate) async fn task(&mut self) -> v1::TaskExecutionInfo {
        loop {
            if let Some(found) = self.tasks.pop_front() {
                return found;
            }
            assert!(self.read().await, "the stream ended before a task");
        }
    }

    pub(crate) async fn cancel(&mut self) -> v1::CancelNotice {
        loop {
            if let Some(found) = self.cancels.pop_front() {
                return found;
            }
            assert!(self.read().await, "the stream ended before a cancel notice");
        }
    }

    pub(crate) async fn refused_heartbeat(&mut self) -> v1::HeartbeatRefused {
        loop {
            if let Some(found) = self.refused_heartbeats.pop_front() {
                return found;
            }
            assert!(self.read().await, "the stream ended before a refused heartbeat");
        }
    }

    /// Reads until the server announces that it stops.
    pub(crate) async fn drain(&mut self) {
        while !self.drained {
            assert!(self.read().await, "the stream ended without a drain frame");
        }
    }

    /// The number of pushed workflows and tasks that the test has not taken.
    pub(crate) fn unread(&self) -> (usize, usize) {
        (self.activations.len(), self.tasks.len())
    }

    async fn ack(&mut self, number: u64) -> v1::ResultAck {
        loop {
            if let Some(index) = self.acks.iter().position(|ack| ack.r#ref == number) {
                return self.acks.remove(index).unwrap();
            }
            assert!(self.read().await, "the stream ended before an acknowledgement");
        }
    }

    /// Submits the result of an activation and waits for the acknowledgement. Frees the slot.
    pub(crate) async fn submit(
        &mut self,
        activation: &v1::WorkflowExecution,
        commands: Vec<v1::WorkflowCommand>,
        status: v1::WorkflowStatus,
    ) -> v1::ResultAck {
        let seen =
            activation.events.last().map_or(activation.events_after, |event| event.sequence_number.into());
        let submit = v1::SubmitWorkflowCommandsRequest {
            workflow_execution_id: activation.id.clone(),
            commands,
            status: status.into(),
            claim_token: Some(activation.claim_token),
            base_sequence: Some(seen),
            activation_failure: None,
            unread_signals: 0,
            clean_up: None,
        };
        self.submit_raw(submit).await
    }

    pub(crate) async fn submit_raw(&mut self, submit: v1::SubmitWorkflowCommandsRequest) -> v1::ResultAck {
        self.activation_result(Some(submit), None).await
    }

    /// Releases an activation that has to wait until its start is written.
    pub(crate) async fn give_back(&mut self, id: &str, claim_token: i64) -> v1::ResultAck {
        self.activation_result(None, Some(v1::HeldClaim { id: id.to_owned(), claim_token })).await
    }

    async fn activation_result(
        &mut self,
        submit: Option<v1::SubmitWorkflowCommandsRequest>,
        give_back: Option<v1::HeldClaim>,
    ) -> v1::ResultAck {
        self.next_ref += 1;
        let number = self.next_ref;
        let result = v1::ActivationResult { r#ref: number, submit, give_back };
        let frame =
            v1::WorkerFrame { activations: vec![result], workflow_credits: 1, ..v1::WorkerFrame::default() };
        self.send(frame).await;
        self.ack(number).await
    }

    pub(crate) async fn complete_task(
        &mut self,
        task: &v1::TaskExecutionInfo,
        output: &str,
    ) -> v1::ResultAck {
        self.complete_task_and(task, output, None).await
    }

    /// Completes a task, together with the next step of its workflow.
    pub(crate) async fn complete_task_and(
        &mut self,
        task: &v1::TaskExecutionInfo,
        output: &str,
        next: Option<v1::SubmitWorkflowCommandsRequest>,
    ) -> v1::ResultAck {
        let complete = v1::CompleteTaskRequest {
            task_execution_id: task.task_execution_id.clone(),
            output: output.to_owned().into(),
            claim_token: Some(task.claim_token),
        };
        self.task_result(v1::task_result::Result::Complete(complete), next).await
    }

    pub(crate) async fn fail_task(&mut self, task: &v1::TaskExecutionInfo, error: &str) -> v1::ResultAck {
        let fail = v1::FailTaskRequest {
            task_execution_id: task.task_execution_id.clone(),
            error: error.into(),
            claim_token: Some(task.claim_token),
            next_retry_delay_ms: Some(0),
            ..v1::FailTaskRequest::default()
        };
        self.task_result(v1::task_result::Result::Fail(fail), None).await
    }

    async fn task_result(
        &mut self,
        result: v1::task_result::Result,
        next: Option<v1::SubmitWorkflowCommandsRequest>,
    ) -> v1::ResultAck {
        self.next_ref += 1;
        let number = self.next_ref;
        let result = v1::TaskResult { r#ref: number, result: Some(result), next };
        self.send(v1::WorkerFrame { tasks: vec![result], task_credits: 1, ..v1::WorkerFrame::default() })
            .await;
        self.ack(number).await
    }
}
