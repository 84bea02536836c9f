//! Entities: executions identified by a workflow key instead of an id. At most one execution of a key is open.

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::handle::{self, Execution};
use super::{Client, StartOptions, WorkflowHandle, id, named, seconds};
use crate::definition::WorkflowDefinition;
use crate::error::{Error, Result};
use crate::wire::{json_bytes, milliseconds, refused};

/// The server's maximum page size.
const PAGE: u32 = 100;

/// Filters for a list of executions. All filters that are set must match; `None` does not filter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListOptions {
    pub kind: Option<String>,
    /// PENDING, RUNNING, WAITING, COMPLETED, FAILED or CANCELLED.
    pub status: Option<String>,
    pub queue: Option<String>,
    /// Name and value of a label.
    pub label: Option<(String, String)>,
    /// The workflow key or idempotency key of the start.
    pub key: Option<String>,
    /// Only children of this execution.
    pub parent: Option<Uuid>,
    /// Maximum number of executions. 0: the default of 50.
    pub limit: u32,
}

impl Client {
    /// Signal-with-start: sends a signal to the open execution that holds the key. If there is none, starts an
    /// execution and sends the signal to it. The execution holds the key until it ends, so at most one execution of a
    /// key is open.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached.
    pub async fn signal_with_start<W: WorkflowDefinition, S: Serialize>(
        &self,
        key: &str,
        input: W::Input,
        signal: &str,
        value: &S,
    ) -> Result<WorkflowHandle<W::Output>> {
        self.signal_with_start_with_options::<W, S>(key, input, signal, value, StartOptions::default()).await
    }

    /// [`signal_with_start`](Self::signal_with_start) with options for the start. They apply only if an execution is
    /// started. `idempotency_key_ttl` is how long the key is remembered after the end, for starts with the same
    /// idempotency key.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached, or if the options contain an idempotency key.
    /// The key is an argument.
    pub async fn signal_with_start_with_options<W: WorkflowDefinition, S: Serialize>(
        &self,
        key: &str,
        input: W::Input,
        signal: &str,
        value: &S,
        options: StartOptions,
    ) -> Result<WorkflowHandle<W::Output>> {
        let (input, value) = (serde_json::to_value(input)?, serde_json::to_value(value)?);
        let id = self.signal_or_start(W::KIND, key, &input, signal, &value, named::<W>(options)).await?;
        Ok(self.handle(id))
    }

    /// [`signal_with_start_with_options`](Self::signal_with_start_with_options) by the name of the kind, with JSON
    /// values.
    ///
    /// # Errors
    /// Fails like [`signal_with_start_with_options`](Self::signal_with_start_with_options).
    pub async fn signal_with_start_raw(
        &self,
        kind: &str,
        key: &str,
        input: Value,
        signal: &str,
        value: Value,
        options: StartOptions,
    ) -> Result<WorkflowHandle<Value>> {
        let id = self.signal_or_start(kind, key, &input, signal, &value, options).await?;
        Ok(self.handle(id))
    }

    async fn signal_or_start(
        &self,
        kind: &str,
        key: &str,
        input: &Value,
        signal: &str,
        value: &Value,
        options: StartOptions,
    ) -> Result<Uuid> {
        if let Some(other) = options.idempotency_key {
            return Err(Error::failed(format!(
                "signal_with_start takes its key as an argument ({key:?}), not as an option ({other:?})"
            )));
        }
        let request = v1::SignalWithStartWorkflowRequest {
            workflow_id: key.to_owned(),
            workflow_kind: kind.to_owned(),
            workflow_input: json_bytes(input),
            queue: options.queue.unwrap_or_default(),
            priority_seconds: options.priority_seconds,
            workflow_version: options.version,
            metadata: options.labels,
            signal_name: signal.to_owned(),
            signal_value: json_bytes(value),
            idempotency_key_ttl_seconds: options.idempotency_key_ttl.map(seconds),
            scheduled_at_ms: options.scheduled_at_ms,
            execution_timeout_ms: options.execution_timeout.map(milliseconds),
            cancel_grace_ms: options.cancel_grace.map(milliseconds),
            ..v1::SignalWithStartWorkflowRequest::default()
        };
        let answer = self.dispatch().signal_with_start_workflow(self.channel.signed(request)).await;
        id(&answer.map_err(refused)?.into_inner().workflow_execution_id)
    }

    /// A handle to the execution that has this workflow key or idempotency key: the open execution, or else the last
    /// one. The handle stays with that execution, even if another execution takes over the key.
    ///
    /// # Errors
    /// Fails if no execution has or had the key, or the server cannot be reached.
    pub async fn handle_by_key<T: DeserializeOwned>(&self, key: &str) -> Result<WorkflowHandle<T>> {
        let get = v1::GetExecutionRequest { key: key.to_owned(), ..v1::GetExecutionRequest::default() };
        let mut client = WorkflowClientClient::new(self.channel.transport());
        let found = client.get_execution(self.channel.signed(get)).await.map_err(refused)?.into_inner();
        Ok(self.handle(id(&found.id)?))
    }

    /// Lists the newest executions that match. Fetches pages of up to 100.
    ///
    /// # Errors
    /// Fails if the server refuses the request or cannot be reached.
    pub async fn list_with_options(&self, options: ListOptions) -> Result<Vec<Execution>> {
        let mut client = WorkflowClientClient::new(self.channel.transport());
        let limit = if options.limit == 0 { 50 } else { options.limit };
        let (label_name, label_value) = options.label.unwrap_or_default();
        let mut list = v1::ListExecutionsRequest {
            status: options.status.unwrap_or_default(),
            kind: options.kind.unwrap_or_default(),
            queue: options.queue.unwrap_or_default(),
            label_name,
            label_value,
            parent_id: options.parent.map(|parent| parent.to_string()).unwrap_or_default(),
            key: options.key.unwrap_or_default(),
            ..v1::ListExecutionsRequest::default()
        };
        let mut found = Vec::new();
        loop {
            let missing = limit - u32::try_from(found.len()).unwrap_or(limit).min(limit);
            list.page_size = i32::try_from(missing.min(PAGE)).unwrap_or(i32::MAX);
            let page = client.list_executions(self.channel.signed(list.clone())).await;
            let page = page.map_err(refused)?.into_inner();
            for info in page.executions {
                found.push(handle::execution(info)?);
            }
            list.page_token = page.next_page_token;
            if list.page_token.is_empty() || found.len() >= limit as usize {
                return Ok(found);
            }
        }
    }
}
