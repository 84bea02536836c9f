//! Answers of the server, each as the original text and as a parsed value. `--output json` prints the original text, so
//! fields that this client does not know are not lost.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use flovyn_rest_types as types;
pub(crate) use flovyn_rest_types::{
    Attempt, Document, Execution, LogLine, Queue, Retried, Started, StatusNow, Task, Tenant, WaitingOn,
    Worker, WorkerToken,
};

/// One event of a history.
pub(crate) type LogEvent = types::Event<types::Fields>;

pub(crate) type Attempts = types::Attempts<Answer<Attempt>>;
pub(crate) type Events = types::Events<Answer<LogEvent>>;
pub(crate) type Executions = types::Executions<Answer<Execution>>;
pub(crate) type Logs = types::Logs<Answer<LogLine>>;
pub(crate) type Queues = types::Queues<Answer<Queue>>;
pub(crate) type ExecutionTasks = types::ExecutionTasks<Answer<Task>>;
pub(crate) type Tasks = types::Tasks<Answer<Task>>;
pub(crate) type Workers = types::Workers<Answer<Worker>>;
pub(crate) type WorkerTokens = types::WorkerTokens<Answer<WorkerToken>>;

#[derive(Debug, Clone)]
pub(crate) struct Answer<T> {
    pub(crate) sent: Document,
    pub(crate) value: T,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Answer<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let sent = Document::deserialize(from)?;
        let value = serde_json::from_str(sent.get()).map_err(serde::de::Error::custom)?;
        Ok(Self { sent, value })
    }
}
