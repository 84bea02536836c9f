//! What the server says, as far as the commands use it. Fields that are not named here are left out.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The answer to a start.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Started {
    pub(crate) workflow_execution_id: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Execution {
    pub(crate) status: String,
    pub(crate) output: Option<Value>,
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) waiting_on: Vec<WaitingOn>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WaitingOn {
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) name: String,
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase().replace('_', " ");
        write!(f, "{kind} {}", self.name)
    }
}

/// One event of a history.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogEvent {
    pub(crate) event_type: String,
    pub(crate) timestamp_ms: i64,
    #[serde(default)]
    pub(crate) data: Value,
}

impl LogEvent {
    /// A text among the event's data; empty if there is none.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.data[key].as_str().unwrap_or_default()
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) error: Option<String>,
    pub(crate) execution_count: i64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Attempts {
    pub(crate) attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) attempt: i64,
    pub(crate) status: String,
    #[serde(rename = "started_at", deserialize_with = "moment_ms")]
    pub(crate) started_ms: i64,
    #[serde(rename = "finished_at", deserialize_with = "moment_ms")]
    pub(crate) finished_ms: i64,
}

/// ISO 8601, in milliseconds.
fn moment_ms<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let text = String::deserialize(from)?;
    let time: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
    Ok(time.as_millisecond())
}
