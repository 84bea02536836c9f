//! The handle of a standalone task, for clients.

use std::marker::PhantomData;
use std::time::Duration;

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_client_client::WorkflowClientClient;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::wait::{Ending, until_ended};
use crate::error::{Failure, Result};
use crate::wire::{Channel, failure};

/// A handle to a standalone task: wait for its result.
#[derive(Debug, Clone)]
pub struct TaskHandle<T> {
    channel: Channel,
    id: Uuid,
    output: PhantomData<fn() -> T>,
}

impl<T> TaskHandle<T> {
    pub(super) fn new(channel: Channel, id: Uuid) -> Self {
        Self { channel, id, output: PhantomData }
    }

    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Waits for the task to finish and returns its output. The server holds the request, so nothing is polled. If
    /// the server cannot be reached for a while, the request is retried.
    ///
    /// # Errors
    /// Fails if the task failed permanently or was cancelled, or did not finish in time
    /// ([`Error::Timeout`](crate::Error::Timeout)).
    pub async fn result(&self, timeout: Duration) -> Result<T>
    where
        T: DeserializeOwned,
    {
        let wait = |timeout_ms| async move {
            let wait = v1::WaitForTaskRequest { task_execution_id: self.id.to_string(), timeout_ms };
            let mut client = WorkflowClientClient::new(self.channel.transport());
            let info = client.wait_for_task(self.channel.signed(wait)).await?.into_inner();
            let said = info.failure.unwrap_or_default();
            let attempts = u32::try_from(info.execution_count).ok();
            let failure = Failure {
                retryable: !said.non_retryable,
                attempts,
                ..failure(said.failure_type, &said.failure_details)
            };
            let (status, task_type) = (info.status, Some(info.task_type));
            Ok(Ending { status, output: info.output, error: info.error, failure, task_type })
        };
        until_ended(timeout, wait).await
    }
}
