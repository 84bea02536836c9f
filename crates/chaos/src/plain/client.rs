//! The calls of the public protocol. Calls without an answer are repeated; refusals are counted.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use flovyn_proto::v1::worker_lifecycle_client::WorkerLifecycleClient;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use super::Dialect;
use crate::outcomes::{Lost, Unexpected};
use crate::programs::STEP;

const QUEUE: &str = "default";
const POLL_SECONDS: i64 = 5;
/// A call to a frozen server must not wait without a limit.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// One report in this many is sent again although it was answered, as if the answer had been lost.
const SENT_TWICE: u64 = 8;
/// Refusals that a worker without tokens has to expect: its claim has ended or belongs to another worker, its workflow
/// has ended, it lacks a part of the history, or a signal arrived before the end.
const EXPECTED: [&str; 4] = ["FLV0050", "FLV0051", "FLV0054", "FLV0063"];

type Signed = InterceptedService<Channel, Credential>;

#[derive(Clone)]
pub(super) struct Credential(MetadataValue<Ascii>);

impl Interceptor for Credential {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// One connection, like that of a worker process.
pub(super) struct Client {
    workflows: WorkflowDispatchClient<Signed>,
    tasks: TaskExecutionClient<Signed>,
    workers: WorkerLifecycleClient<Signed>,
    reports: AtomicU64,
    refused: AtomicU64,
    unexpected: Unexpected,
    lost: Lost,
    dialect: Dialect,
}

/// The outcome of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Acknowledged,
    Refused,
    /// There was no answer, and the report is not repeated: it may have been carried out or not.
    Lost,
}

impl Client {
    pub(super) fn new(url: &str, token: &str, folder: &Path, dialect: Dialect) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| error.to_string())?;
        let channel = endpoint.connect_lazy();
        let credential = format!("Bearer {token}").parse();
        let credential = Credential(credential.map_err(|_| "the token has characters that no token has")?);
        Ok(Self {
            workflows: WorkflowDispatchClient::with_interceptor(channel.clone(), credential.clone()),
            tasks: TaskExecutionClient::with_interceptor(channel.clone(), credential.clone()),
            workers: WorkerLifecycleClient::with_interceptor(channel, credential),
            reports: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unexpected: Unexpected::create(folder)?,
            lost: Lost::create(folder)?,
            dialect,
        })
    }

    /// How many results the server refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Registers the worker. Returns the id under which it may poll.
    pub(super) async fn register(&self, name: &str, process: &str) -> String {
        let workflow = |kind: String| v1::WorkflowCapability { kind, ..v1::WorkflowCapability::default() };
        let request = v1::WorkerRegistrationRequest {
            worker_name: name.to_owned(),
            worker_type: "unified".to_owned(),
            host_name: "chaos".to_owned(),
            process_id: process.to_owned(),
            workflows: self.dialect.kinds().into_iter().map(workflow).collect(),
            tasks: vec![v1::TaskCapability { kind: STEP.to_owned(), ..v1::TaskCapability::default() }],
            ..v1::WorkerRegistrationRequest::default()
        };
        loop {
            let mut workers = self.workers.clone();
            if let Some(Ok(registered)) = within(workers.register_worker(request.clone())).await {
                return registered.worker_id;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    pub(super) async fn beat(&self, worker_id: &str) {
        let request = v1::WorkerHeartbeatRequest {
            worker_id: worker_id.to_owned(),
            ..v1::WorkerHeartbeatRequest::default()
        };
        // A lost heartbeat does no harm: the next one follows soon.
        let _ = within(self.workers.clone().send_heartbeat(request)).await;
    }

    /// `None`: no work in time.
    pub(super) async fn poll_workflow(&self, worker_id: &str) -> Option<v1::WorkflowExecution> {
        let request = v1::PollRequest {
            worker_id: worker_id.to_owned(),
            queue: QUEUE.to_owned(),
            timeout_seconds: POLL_SECONDS,
            workflow_capabilities: match self.dialect {
                // It receives what has been registered.
                Dialect::Nameless => Vec::new(),
                Dialect::Registered | Dialect::Unknown => self.dialect.kinds(),
            },
            ..v1::PollRequest::default()
        };
        let polled = self.polled(within(self.workflows.clone().poll_workflow(request)).await).await;
        polled.and_then(|response| response.workflow_execution)
    }

    /// `None`: no work in time.
    pub(super) async fn poll_task(&self, worker_id: &str) -> Option<v1::TaskExecutionInfo> {
        let request = v1::PollTaskRequest {
            worker_id: worker_id.to_owned(),
            queue: QUEUE.to_owned(),
            timeout_seconds: POLL_SECONDS,
            ..v1::PollTaskRequest::default()
        };
        let polled = self.polled(within(self.tasks.clone().poll_task(request)).await).await;
        polled.and_then(|response| response.task)
    }

    /// The result of a poll. After a failed poll, waits before the next one.
    async fn polled<T>(&self, answer: Option<Result<T, Status>>) -> Option<T> {
        match answer {
            Some(Ok(response)) => return Some(response),
            Some(Err(status)) if !may_pass(&status) => self.unexpected.record("a poll", &status),
            _ => {}
        }
        tokio::time::sleep(AGAIN_AFTER).await;
        None
    }

    /// The whole history. `None`: the server refuses it.
    pub(super) async fn history(&self, execution_id: &str) -> Option<Vec<v1::WorkflowEvent>> {
        loop {
            let workflow_execution_id = execution_id.to_owned();
            let request = v1::GetEventsRequest { workflow_execution_id, ..v1::GetEventsRequest::default() };
            match within(self.workflows.clone().get_events(request)).await {
                Some(Ok(response)) => return Some(response.events),
                Some(Err(status)) if !may_pass(&status) => {
                    self.unexpected.record("the history", &status);
                    return None;
                }
                _ => tokio::time::sleep(AGAIN_AFTER).await,
            }
        }
    }

    pub(super) async fn submit(&self, request: v1::SubmitWorkflowCommandsRequest) -> Answer {
        let submit = || {
            let (mut workflows, request) = (self.workflows.clone(), request.clone());
            async move { workflows.submit_workflow_commands(request).await }
        };
        self.report("an activation", true, submit).await
    }

    pub(super) async fn complete(&self, request: v1::CompleteTaskRequest) -> Answer {
        let complete = || {
            let (mut tasks, request) = (self.tasks.clone(), request.clone());
            async move { tasks.complete_task(request).await }
        };
        self.report("a result", true, complete).await
    }

    /// Reports a failure. It is not sent again after an answer: the same worker may run the next attempt, which may
    /// fail with an equal error.
    pub(super) async fn fail(&self, request: v1::FailTaskRequest) -> Answer {
        let fail = || {
            let (mut tasks, request) = (self.tasks.clone(), request.clone());
            async move { tasks.fail_task(request).await }
        };
        self.report("a failure", false, fail).await
    }

    /// Sends a heartbeat and ignores the answer: a lost claim shows when the result is reported.
    pub(super) async fn heartbeat(&self, task_execution_id: &str) {
        let task_execution_id = task_execution_id.to_owned();
        let request = v1::HeartbeatRequest { task_execution_id, ..v1::HeartbeatRequest::default() };
        let _ = within(self.tasks.clone().heartbeat(request)).await;
    }

    /// Sends a report until there is an answer, and sometimes once more. The nameless send it once.
    async fn report<R>(&self, what: &str, repeatable: bool, send: impl Fn() -> R) -> Answer
    where
        R: Future<Output = Result<Response<()>, Status>>,
    {
        let twice = self.reports.fetch_add(1, Ordering::Relaxed).is_multiple_of(SENT_TWICE);
        let first = self.report_once(what, &send).await;
        if twice && repeatable && self.dialect != Dialect::Nameless && first == Answer::Acknowledged {
            // The repeat must have no effect and its answer does not matter: another client may have continued.
            self.report_once(what, &send).await;
        }
        first
    }

    async fn report_once<R>(&self, what: &str, send: impl Fn() -> R) -> Answer
    where
        R: Future<Output = Result<Response<()>, Status>>,
    {
        loop {
            match within(send()).await {
                Some(Ok(())) => return Answer::Acknowledged,
                Some(Err(status)) if !may_pass(&status) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    let code = status.metadata().get("flovyn-error-code");
                    let code = code.and_then(|code| code.to_str().ok()).unwrap_or_default();
                    if !EXPECTED.contains(&code) {
                        self.unexpected.record(what, &status);
                    }
                    return Answer::Refused;
                }
                // No answer: the report may have been carried out anyway.
                _ if self.dialect == Dialect::Nameless => {
                    self.lost.record(what);
                    return Answer::Lost;
                }
                _ => tokio::time::sleep(AGAIN_AFTER).await,
            }
        }
    }
}

/// The answer. `None`: there was none in time.
async fn within<T>(call: impl Future<Output = Result<Response<T>, Status>>) -> Option<Result<T, Status>> {
    let answer = tokio::time::timeout(ANSWER_WITHIN, call).await.ok()?;
    Some(answer.map(Response::into_inner))
}

/// Whether the call may be repeated. A broken connection can have several codes.
fn may_pass(status: &Status) -> bool {
    let known = status.metadata().contains_key("flovyn-error-code");
    match status.code() {
        Code::Unavailable | Code::Aborted | Code::DeadlineExceeded => true,
        Code::Unknown | Code::Internal | Code::Cancelled => !known,
        _ => false,
    }
}
