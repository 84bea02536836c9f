//! The handle of an execution, for clients.

use std::marker::PhantomData;
use std::time::Duration;

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use flovyn_proto::v1::workflow_query_client::WorkflowQueryClient;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::id;
use super::wait::{Ending, until_ended};
use crate::error::{Error, Failure, Result};
use crate::wire::{Channel, failure, json, json_bytes, refused};

const PAGE: i32 = 1_000;
/// The beginning of the server's answer for a key that is not set. The protocol has no field for it.
const NO_STATE: &str = "no state has the key";

/// A handle to an execution: wait for its result, signal it, cancel it, read its state and history.
#[derive(Debug, Clone)]
pub struct WorkflowHandle<T> {
    channel: Channel,
    id: Uuid,
    output: PhantomData<fn() -> T>,
}

/// An execution, as the server reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub id: Uuid,
    pub kind: String,
    /// PENDING, RUNNING, WAITING, COMPLETED, FAILED or CANCELLED.
    pub status: String,
    pub queue: String,
    /// The workflow key or idempotency key of the start.
    pub key: Option<String>,
    pub created_at_ms: i64,
    pub output: Option<Value>,
    pub error: Option<String>,
    /// Kind and details of the failure. Empty in lists, and if nothing failed.
    pub failure: Failure,
    /// What the execution waits for, in words.
    pub waiting_on: Vec<String>,
}

/// One event of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEvent {
    pub sequence: i64,
    pub kind: String,
    pub time_ms: i64,
    pub data: Value,
}

impl<T> WorkflowHandle<T> {
    pub(super) fn new(channel: Channel, id: Uuid) -> Self {
        Self { channel, id, output: PhantomData }
    }

    pub fn id(&self) -> Uuid {
        self.id
    }

    fn client(&self) -> WorkflowClientClient<tonic::transport::Channel> {
        WorkflowClientClient::new(self.channel.transport())
    }

    /// Waits for the execution to finish and returns its output. The server holds the request, so nothing is polled.
    /// If the server cannot be reached for a while, the request is retried.
    ///
    /// # Errors
    /// Fails if the workflow failed or was cancelled, or did not finish in time ([`Error::Timeout`]).
    pub async fn result(&self, timeout: Duration) -> Result<T>
    where
        T: DeserializeOwned,
    {
        let wait = |timeout_ms| async move {
            let wait = v1::WaitForResultRequest { workflow_execution_id: self.id.to_string(), timeout_ms };
            let info = self.client().wait_for_result(self.channel.signed(wait)).await?.into_inner();
            let failure = failure(info.failure_type, &info.failure_details);
            let v1::ExecutionInfo { status, output, error, .. } = info;
            Ok(Ending { status, output, error, failure, task_type: None })
        };
        until_ended(timeout, wait).await
    }

    /// The current state: status, input, output, error and what the execution waits for.
    ///
    /// # Errors
    /// Fails if the execution does not exist, or the server cannot be reached.
    pub async fn describe(&self) -> Result<Execution> {
        let workflow_execution_id = self.id.to_string();
        let get = v1::GetExecutionRequest { workflow_execution_id, ..v1::GetExecutionRequest::default() };
        execution(self.client().get_execution(self.channel.signed(get)).await.map_err(refused)?.into_inner())
    }

    /// # Errors
    /// Fails if the execution has finished, or the server cannot be reached.
    pub async fn signal<S: Serialize + ?Sized>(&self, name: &str, value: &S) -> Result<()> {
        let signal = v1::SignalWorkflowRequest {
            workflow_execution_id: self.id.to_string(),
            signal_name: name.to_owned(),
            signal_value: json_bytes(&serde_json::to_value(value)?),
            ..v1::SignalWorkflowRequest::default()
        };
        let mut dispatch = WorkflowDispatchClient::new(self.channel.transport());
        dispatch.signal_workflow(self.channel.signed(signal)).await.map_err(refused)?;
        Ok(())
    }

    /// Requests cancellation: the workflow may clean up first.
    ///
    /// # Errors
    /// Fails if the execution has finished, or the server cannot be reached.
    pub async fn cancel(&self, reason: &str) -> Result<()> {
        let cancel = v1::CancelExecutionRequest {
            workflow_execution_id: self.id.to_string(),
            reason: reason.to_owned(),
            cascade: true,
        };
        self.client().cancel_execution(self.channel.signed(cancel)).await.map_err(refused)?;
        Ok(())
    }

    /// Force-stops the execution immediately, without clean-up.
    ///
    /// # Errors
    /// Fails if the execution has finished, or the server cannot be reached.
    pub async fn terminate(&self, reason: &str) -> Result<()> {
        let terminate = v1::TerminateExecutionRequest {
            workflow_execution_id: self.id.to_string(),
            reason: reason.to_owned(),
        };
        self.client().terminate_execution(self.channel.signed(terminate)).await.map_err(refused)?;
        Ok(())
    }

    /// Reads a value of the execution's state. `None`: the key is not set.
    ///
    /// # Errors
    /// Fails if the execution does not exist, the value cannot be deserialized as `Q`, or the server cannot be
    /// reached.
    pub async fn query<Q: DeserializeOwned>(&self, key: &str) -> Result<Option<Q>> {
        let query = v1::QueryWorkflowRequest {
            workflow_execution_id: self.id.to_string(),
            query_name: key.to_owned(),
            params: bytes::Bytes::new(),
        };
        let mut client = WorkflowQueryClient::new(self.channel.transport());
        let answer = client.query_workflow(self.channel.signed(query)).await.map_err(refused)?.into_inner();
        match answer.error {
            Some(error) if error.starts_with(NO_STATE) => Ok(None),
            Some(error) => Err(Error::Failed(error)),
            None => Ok(Some(serde_json::from_value(json(&answer.result)?)?)),
        }
    }

    /// The complete history of the execution.
    ///
    /// # Errors
    /// Fails if the execution does not exist, or the server cannot be reached.
    pub async fn history(&self) -> Result<Vec<HistoryEvent>> {
        let events = pages(&self.channel, self.id, 0).await?;
        let read = |event: &v1::WorkflowEvent| {
            Ok(HistoryEvent {
                sequence: event.sequence_number.into(),
                kind: event.event_type.clone(),
                time_ms: event.timestamp_ms,
                data: json(&event.event_data)?,
            })
        };
        events.iter().map(read).collect()
    }
}

/// All events after a sequence.
pub(crate) async fn pages(channel: &Channel, id: Uuid, after: i64) -> Result<Vec<v1::WorkflowEvent>> {
    let mut dispatch = WorkflowDispatchClient::new(channel.transport());
    let mut events = Vec::new();
    let mut after_sequence = after;
    loop {
        let get = v1::GetEventsRequest {
            workflow_execution_id: id.to_string(),
            after_sequence,
            page_size: Some(PAGE),
        };
        let page = dispatch.get_events(channel.signed(get)).await.map_err(refused)?.into_inner();
        events.extend(page.events);
        match page.next_sequence {
            0 => return Ok(events),
            next => after_sequence = next,
        }
    }
}

pub(super) fn execution(info: v1::ExecutionInfo) -> Result<Execution> {
    Ok(Execution {
        id: id(&info.id)?,
        kind: info.kind,
        status: info.status,
        queue: info.queue,
        key: info.idempotency_key,
        created_at_ms: info.created_at_ms,
        output: info.output.as_deref().map(json).transpose()?,
        error: info.error,
        failure: failure(info.failure_type, &info.failure_details),
        waiting_on: info.waiting_on.into_iter().map(|item| item.message).collect(),
    })
}
