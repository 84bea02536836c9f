//! Sends a task's heartbeats, progress, logs and state to the server.

use std::sync::atomic::{AtomicI32, Ordering};

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use serde_json::{Value, json};

use super::{Attempt, LogLevel};
use crate::error::Result;
use crate::wire::{Channel, json_bytes, refused};

/// The connection of a task: to a server, or to a test.
#[tonic::async_trait]
pub(crate) trait Link: Send + Sync {
    fn heartbeat(&self, attempt: &Attempt, details: Option<Value>);
    async fn progress(&self, attempt: &Attempt, progress: f64, details: &str);
    async fn log(&self, attempt: &Attempt, level: LogLevel, message: &str);
    async fn stream(&self, attempt: &Attempt, data: Value);
    async fn get_state(&self, attempt: &Attempt, key: &str) -> Result<Option<Value>>;
    /// Sets a value. `None` removes it.
    async fn set_state(&self, attempt: &Attempt, key: &str, value: Option<Value>) -> Result<()>;
}

/// The connection to a server. Heartbeats use the worker's stream; everything else uses separate calls.
pub(crate) struct ServerLink {
    channel: Channel,
    heartbeats: Box<dyn Fn(v1::TaskHeartbeat) + Send + Sync>,
    streamed: AtomicI32,
}

impl ServerLink {
    pub(crate) fn new(
        channel: Channel,
        heartbeats: impl Fn(v1::TaskHeartbeat) + Send + Sync + 'static,
    ) -> Self {
        Self { channel, heartbeats: Box::new(heartbeats), streamed: AtomicI32::new(0) }
    }

    fn client(&self) -> TaskExecutionClient<tonic::transport::Channel> {
        TaskExecutionClient::new(self.channel.transport())
    }
}

#[tonic::async_trait]
impl Link for ServerLink {
    fn heartbeat(&self, attempt: &Attempt, details: Option<Value>) {
        (self.heartbeats)(v1::TaskHeartbeat {
            task_execution_id: attempt.task_id.to_string(),
            claim_token: attempt.token,
            details: details.as_ref().map(json_bytes),
        });
    }

    async fn progress(&self, attempt: &Attempt, progress: f64, details: &str) {
        let task_execution_id = attempt.task_id.to_string();
        let (details, claim_token) = (details.to_owned(), Some(attempt.token));
        let report = v1::ReportProgressRequest { task_execution_id, progress, details, claim_token };
        if let Err(status) = self.client().report_progress(self.channel.signed(report)).await {
            tracing::debug!(%status, "cannot report progress");
        }
    }

    async fn log(&self, attempt: &Attempt, level: LogLevel, message: &str) {
        let line = v1::LogMessageRequest {
            task_execution_id: attempt.task_id.to_string(),
            level: level.name().to_owned(),
            message: message.to_owned(),
            claim_token: Some(attempt.token),
        };
        if let Err(status) = self.client().log_message(self.channel.signed(line)).await {
            tracing::debug!(%status, "cannot send a log line");
        }
    }

    async fn stream(&self, attempt: &Attempt, data: Value) {
        let datum = v1::StreamTaskDataRequest {
            task_execution_id: attempt.task_id.to_string(),
            workflow_execution_id: attempt.execution_id.map(|id| id.to_string()).unwrap_or_default(),
            sequence: self.streamed.fetch_add(1, Ordering::Relaxed),
            r#type: v1::StreamEventType::Data.into(),
            payload: json!({ "type": "data", "data": data }).to_string(),
            timestamp_ms: 0,
            claim_token: Some(attempt.token),
        };
        if let Err(status) = self.client().stream_task_data(self.channel.signed(datum)).await {
            tracing::debug!(%status, "cannot send live data");
        }
    }

    async fn get_state(&self, attempt: &Attempt, key: &str) -> Result<Option<Value>> {
        let get = v1::GetStateRequest { task_execution_id: attempt.task_id.to_string(), key: key.to_owned() };
        let found = self.client().get_state(self.channel.signed(get)).await.map_err(refused)?.into_inner();
        Ok(if found.found { Some(crate::wire::json(&found.value)?) } else { None })
    }

    async fn set_state(&self, attempt: &Attempt, key: &str, value: Option<Value>) -> Result<()> {
        let (task_execution_id, key) = (attempt.task_id.to_string(), key.to_owned());
        let claim_token = Some(attempt.token);
        let mut client = self.client();
        let answer = match value {
            Some(value) => {
                let value = json_bytes(&value);
                let set = v1::SetStateRequest { task_execution_id, key, value, claim_token };
                client.set_state(self.channel.signed(set)).await
            }
            None => {
                let clear = v1::ClearStateRequest { task_execution_id, key, claim_token };
                client.clear_state(self.channel.signed(clear)).await
            }
        };
        answer.map(|_| ()).map_err(refused)
    }
}
