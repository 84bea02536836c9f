//! The client: starts workflows and communicates with them.

mod entity;
mod execute;
mod handle;
mod task;
mod wait;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

pub use self::entity::ListOptions;
use self::execute::{Executed, Executor};
pub(crate) use self::handle::pages;
pub use self::handle::{Execution, HistoryEvent, WorkflowHandle};
pub use self::task::TaskHandle;
use crate::definition::{TaskDefinition, WorkflowDefinition};
use crate::error::{Error, Result};
use crate::replay::TaskOptions;
use crate::tls::Tls;
use crate::wire::{Channel, json_bytes, milliseconds, refused, retry_policy};

/// A connection to a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    executor: Executor,
}

/// Options of a start. Every field has a default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StartOptions {
    /// Workers of this queue run it. `None`: `default`.
    pub queue: Option<String>,
    /// A second start with the same key returns the first execution, until the key expires. `None`: every start
    /// creates a new execution.
    pub idempotency_key: Option<String>,
    /// Lifetime of the idempotency key, counted from the start. For signal-with-start it is counted from the end of
    /// the execution. `None`: one day.
    pub idempotency_key_ttl: Option<Duration>,
    /// Only this version of the workflow runs the execution, now and later. `None`: the version of the definition for
    /// a typed start, and any version that the worker has for a start by name.
    pub version: Option<String>,
    /// Labels to search by.
    pub labels: HashMap<String, String>,
    /// Shifts the execution in its queue, as if it had arrived that much later. A negative value runs sooner.
    pub priority_seconds: i32,
    /// Earliest start time, in milliseconds since the Unix epoch. `None` and past times: immediately.
    pub scheduled_at_ms: Option<i64>,
    /// Time limit of the whole execution. `None`: no limit.
    pub execution_timeout: Option<Duration>,
    /// Total time for clean-up after a cancel request. Zero: no clean-up. `None`: the value of the workflow's
    /// definition. If that is also `None`, clean-up has no limit while it makes progress.
    pub cancel_grace: Option<Duration>,
}

impl Client {
    /// Creates a client. It connects on first use, and reconnects if the connection breaks. A URL with `https://`
    /// uses TLS and trusts the system's CAs; see [`Tls`].
    ///
    /// # Errors
    /// Fails if the URL or the token is not valid.
    pub fn new(url: &str, token: &str) -> Result<Self> {
        Self::connect(url, token, None)
    }

    /// [`new`](Self::new) with TLS settings, such as a private CA or a client certificate. Without special settings,
    /// a URL with `https://` is enough.
    ///
    /// # Errors
    /// Fails if the URL, the token or a certificate cannot be used.
    pub fn with_tls(url: &str, token: &str, tls: Tls) -> Result<Self> {
        Self::connect(url, token, Some(&tls))
    }

    fn connect(url: &str, token: &str, tls: Option<&Tls>) -> Result<Self> {
        Ok(Self { channel: Channel::lazy(url, token, tls)?, executor: Executor::default() })
    }

    fn dispatch(&self) -> WorkflowDispatchClient<tonic::transport::Channel> {
        WorkflowDispatchClient::new(self.channel.transport())
    }

    /// Starts a workflow. When this returns, the start is durable.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached.
    pub async fn start<W: WorkflowDefinition>(&self, input: W::Input) -> Result<WorkflowHandle<W::Output>> {
        self.start_with_options::<W>(input, StartOptions::default()).await
    }

    /// Starts a workflow with options. When this returns, the start is durable.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached.
    pub async fn start_with_options<W: WorkflowDefinition>(
        &self,
        input: W::Input,
        options: StartOptions,
    ) -> Result<WorkflowHandle<W::Output>> {
        let id = self.start_any(W::KIND, serde_json::to_value(input)?, named::<W>(options)).await?;
        Ok(self.handle(id))
    }

    /// Starts a workflow by the name of its kind, with JSON values as input and output.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached.
    pub async fn start_raw(
        &self,
        kind: &str,
        input: Value,
        options: StartOptions,
    ) -> Result<WorkflowHandle<Value>> {
        let id = self.start_any(kind, input, options).await?;
        Ok(self.handle(id))
    }

    /// Starts a workflow and waits for its output. Concurrent calls share one stream, which makes this the fastest
    /// way to run many short workflows.
    ///
    /// If a start without an idempotency key is not answered before the connection breaks, it is unknown whether the
    /// workflow was started. Then the error has the code `OUTCOME_UNKNOWN`.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached, or if the workflow fails, is cancelled or takes
    /// too long.
    pub async fn execute<W: WorkflowDefinition>(
        &self,
        input: W::Input,
        options: StartOptions,
        timeout: Duration,
    ) -> Result<W::Output> {
        let start = start_request(W::KIND, &serde_json::to_value(input)?, named::<W>(options));
        self.execute_any(start, timeout).await
    }

    /// [`execute`](Self::execute) by the name of the kind, with JSON values as input and output.
    ///
    /// # Errors
    /// Fails like [`execute`](Self::execute).
    pub async fn execute_raw(
        &self,
        kind: &str,
        input: Value,
        options: StartOptions,
        timeout: Duration,
    ) -> Result<Value> {
        self.execute_any(start_request(kind, &input, options), timeout).await
    }

    async fn execute_any<T: DeserializeOwned>(
        &self,
        start: v1::StartWorkflowRequest,
        timeout: Duration,
    ) -> Result<T> {
        let until = Instant::now() + timeout;
        let executed = tokio::time::timeout(timeout, self.executor.execute(&self.channel, start)).await;
        match executed.map_err(|_| Error::Timeout(Some(timeout)))?? {
            Executed::Ended(ending) => ending.into_result()?.ok_or(Error::Timeout(Some(timeout))),
            Executed::Runs(id) => {
                self.handle(id).result(until.saturating_duration_since(Instant::now())).await
            }
        }
    }

    async fn start_any(&self, kind: &str, input: Value, options: StartOptions) -> Result<Uuid> {
        let start = start_request(kind, &input, options);
        let started = self.dispatch().start_workflow(self.channel.signed(start)).await.map_err(refused)?;
        id(&started.into_inner().workflow_execution_id)
    }

    /// A handle to an existing execution.
    pub fn handle<T>(&self, execution_id: Uuid) -> WorkflowHandle<T> {
        WorkflowHandle::new(self.channel.clone(), execution_id)
    }

    /// Resolves a promise, given its id, or `key:` followed by its key.
    ///
    /// # Errors
    /// Fails if the promise does not exist or is closed.
    pub async fn resolve_promise<T: Serialize + ?Sized>(&self, promise: &str, value: &T) -> Result<()> {
        let value = json_bytes(&serde_json::to_value(value)?);
        let resolve = v1::ResolvePromiseRequest { promise_id: promise.to_owned(), value };
        self.dispatch().resolve_promise(self.channel.signed(resolve)).await.map_err(refused)?;
        Ok(())
    }

    /// Rejects a promise, given its id, or `key:` followed by its key.
    ///
    /// # Errors
    /// Fails if the promise does not exist or is closed.
    pub async fn reject_promise(&self, promise: &str, error: &str) -> Result<()> {
        let reject = v1::RejectPromiseRequest { promise_id: promise.to_owned(), error: error.to_owned() };
        self.dispatch().reject_promise(self.channel.signed(reject)).await.map_err(refused)?;
        Ok(())
    }

    /// Submits a standalone task and returns its id.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached.
    pub async fn submit_task<T: TaskDefinition>(&self, input: T::Input) -> Result<Uuid> {
        self.submit_task_raw(T::KIND, serde_json::to_value(input)?, T::options()).await
    }

    /// Submits a standalone task by the name of its type and returns its id.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached.
    pub async fn submit_task_raw(&self, task_type: &str, input: Value, options: TaskOptions) -> Result<Uuid> {
        let submit = submission(task_type, &input, &options);
        let mut tasks = TaskExecutionClient::new(self.channel.transport());
        let made = tasks.submit_task(self.channel.signed(submit)).await.map_err(refused)?;
        id(&made.into_inner().task_execution_id)
    }

    /// Submits many standalone tasks of one type, all or none, and returns their ids in the same order.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached.
    pub async fn submit_tasks_raw(
        &self,
        task_type: &str,
        inputs: Vec<Value>,
        options: TaskOptions,
    ) -> Result<Vec<Uuid>> {
        let items = inputs.iter().map(|input| submission(task_type, input, &options)).collect();
        let submit = v1::SubmitTasksRequest { items };
        let mut client = WorkflowClientClient::new(self.channel.transport());
        let made = client.submit_tasks(self.channel.signed(submit)).await.map_err(refused)?.into_inner();
        made.items.iter().map(|item| id(&item.task_execution_id)).collect()
    }

    /// A handle to an existing task.
    pub fn task<T>(&self, task_id: Uuid) -> TaskHandle<T> {
        TaskHandle::new(self.channel.clone(), task_id)
    }

    /// Lists the newest executions. `None`: any kind, any status.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached.
    pub async fn list(&self, kind: Option<&str>, status: Option<&str>, limit: u32) -> Result<Vec<Execution>> {
        let mut client = WorkflowClientClient::new(self.channel.transport());
        let list = v1::ListExecutionsRequest {
            kind: kind.unwrap_or_default().to_owned(),
            status: status.unwrap_or_default().to_owned(),
            page_size: i32::try_from(limit).unwrap_or(i32::MAX),
            ..v1::ListExecutionsRequest::default()
        };
        let page = client.list_executions(self.channel.signed(list)).await.map_err(refused)?.into_inner();
        page.executions.into_iter().map(handle::execution).collect()
    }
}

/// Adds the version of the definition, if the options set none.
fn named<W: WorkflowDefinition>(options: StartOptions) -> StartOptions {
    let version = options.version.or_else(|| W::VERSION.map(str::to_owned));
    StartOptions { version, ..options }
}

fn start_request(kind: &str, input: &Value, options: StartOptions) -> v1::StartWorkflowRequest {
    v1::StartWorkflowRequest {
        workflow_kind: kind.to_owned(),
        input: json_bytes(input),
        metadata: options.labels,
        queue: options.queue.unwrap_or_default(),
        priority_seconds: options.priority_seconds,
        workflow_version: options.version,
        idempotency_key: options.idempotency_key,
        idempotency_key_ttl_seconds: options.idempotency_key_ttl.map(seconds),
        scheduled_at_ms: options.scheduled_at_ms,
        execution_timeout_ms: options.execution_timeout.map(milliseconds),
        cancel_grace_ms: options.cancel_grace.map(milliseconds),
        ..v1::StartWorkflowRequest::default()
    }
}

fn submission(task_type: &str, input: &Value, options: &TaskOptions) -> v1::SubmitTaskRequest {
    v1::SubmitTaskRequest {
        kind: task_type.to_owned(),
        input: json_bytes(input),
        max_retries: options.max_retries.map_or(0, |count| i32::try_from(count).unwrap_or(i32::MAX)),
        timeout_ms: options.timeout.map_or(0, milliseconds),
        queue: options.queue.clone().unwrap_or_default(),
        priority_seconds: Some(options.priority_seconds),
        retry_policy: options.retry.map(retry_policy),
        schedule_to_start_ms: options.schedule_to_start.map(milliseconds),
        total_timeout_ms: options.total_timeout.map(milliseconds),
        heartbeat_timeout_ms: options.heartbeat_timeout.map(milliseconds),
        ..v1::SubmitTaskRequest::default()
    }
}

pub(crate) fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

pub(crate) fn id(text: &str) -> Result<Uuid> {
    Uuid::try_parse(text).map_err(|_| Error::failed(format!("the server sent an invalid id: {text:?}")))
}
