//! A log as a server would keep it: commands become rows, and what they open completes later.

use std::time::Duration;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::TestEnvironment;
use crate::error::Error;
use crate::replay::{Command, LogEvent, Origin};

/// Something that was asked for and will complete by itself.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) kind: &'static str,
    pub(super) data: Value,
    /// `None`: as soon as it is its turn.
    pub(super) due_ms: Option<i64>,
    /// What cancels it: a task's id, a timer's name.
    name: String,
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) events: Vec<LogEvent>,
    pub(super) now_ms: i64,
    pub(super) open: Vec<Open>,
    /// Open promises: name, id, deadline.
    promises: Vec<(String, String)>,
}

impl Log {
    pub(super) fn new(kind: &str, input: Value, now_ms: i64) -> Self {
        let mut log = Self { events: Vec::new(), now_ms, open: Vec::new(), promises: Vec::new() };
        log.append(Origin::External, "WORKFLOW_STARTED", json!({ "workflowKind": kind, "input": input }));
        log
    }

    pub(super) fn append(&mut self, origin: Origin, kind: &str, data: Value) {
        let sequence = i64::try_from(self.events.len()).unwrap_or(i64::MAX) + 1;
        let kind = kind.to_owned();
        self.events.push(LogEvent { sequence, kind, origin, time_ms: self.now_ms, data });
    }

    fn row(&mut self, kind: &str, data: Value) {
        self.append(Origin::Command, kind, data);
    }

    pub(super) fn open(&mut self, kind: &'static str, name: &str, data: Value, after: Option<Duration>) {
        let due_ms = after.map(|after| self.now_ms + i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
        self.open.push(Open { kind, data, due_ms, name: name.to_owned() });
    }

    fn close(&mut self, name: &str) {
        self.open.retain(|open| open.name != name);
    }

    /// Carries out a command: its row, and what will come of it.
    pub(super) fn carry_out(&mut self, environment: &TestEnvironment, command: Command) {
        match command {
            Command::RecordOperation { name, result } => {
                self.row("OPERATION_COMPLETED", json!({ "operationName": name, "result": result }));
            }
            Command::SetState { key, value } => self.row("STATE_SET", json!({ "key": key, "value": value })),
            Command::ClearState { key } => self.row("STATE_CLEARED", json!({ "key": key })),
            Command::ScheduleTask { id, task_type, input, .. } => {
                let id = id.to_string();
                let row = json!({ "taskExecutionId": id, "kind": task_type, "taskType": task_type, "input": input });
                self.row("TASK_SCHEDULED", row);
                if let Some(mock) = environment.tasks.get(&task_type) {
                    let (kind, data) = match mock(input) {
                        Ok(output) => ("TASK_COMPLETED", json!({ "taskExecutionId": id, "output": output })),
                        Err(error) => {
                            ("TASK_FAILED", json!({ "taskExecutionId": id, "error": error.to_string() }))
                        }
                    };
                    self.open(kind, &id, data, None);
                }
            }
            Command::CancelTask { id } => {
                self.close(&id.to_string());
                self.row("TASK_CANCEL_REQUESTED", json!({ "taskExecutionId": id.to_string() }));
            }
            Command::StartTimer { name, duration } => {
                let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
                self.row("TIMER_STARTED", json!({ "timerId": name, "durationMs": millis }));
                self.open("TIMER_FIRED", &name, json!({ "timerId": name }), Some(duration));
            }
            Command::CancelTimer { name } => {
                self.close(&name);
                self.row("TIMER_CANCELLED", json!({ "timerId": name }));
            }
            Command::CreatePromise { name, timeout, .. } => {
                let id = Uuid::from_u128(self.events.len() as u128 + 1).to_string();
                let mut row = json!({ "promiseName": name, "promiseId": id });
                if let Some(timeout) = timeout {
                    row["timeoutMs"] = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX).into();
                }
                self.row("PROMISE_CREATED", row);
                if let Some(timeout) = timeout {
                    let data = json!({ "promiseId": id, "promiseName": name });
                    self.open("PROMISE_TIMEOUT", &id, data, Some(timeout));
                }
                self.promises.push((name, id));
            }
            Command::ScheduleChild { id, name, kind, input, .. } => {
                let id = id.to_string();
                let row =
                    json!({ "childExecutionId": id, "childExecutionName": name, "childWorkflowKind": kind });
                self.row("CHILD_WORKFLOW_INITIATED", row);
                if let Some(mock) = environment.children.get(&kind) {
                    let mut data = Map::new();
                    data.insert("childExecutionId".into(), json!(id));
                    data.insert("childExecutionName".into(), json!(name));
                    let kind = match mock(input) {
                        Ok(output) => {
                            data.insert("output".into(), output);
                            "CHILD_WORKFLOW_COMPLETED"
                        }
                        Err(error) => {
                            data.insert("error".into(), json!(error.to_string()));
                            "CHILD_WORKFLOW_FAILED"
                        }
                    };
                    self.open(kind, &id, Value::Object(data), None);
                }
            }
            Command::CancelChild { id, name } => {
                self.close(&id.to_string());
                let row = json!({ "childExecutionId": id.to_string(), "childExecutionName": name });
                self.row("CHILD_WORKFLOW_CANCEL_REQUESTED", row);
            }
        }
    }

    /// Answers the oldest open promise of this name.
    pub(super) fn answer_promise(&mut self, name: &str, answer: Result<Value, String>) -> Result<(), Error> {
        let index = self.promises.iter().position(|(known, _)| known == name);
        let index = index.ok_or_else(|| Error::failed(format!("there is no open promise {name:?}")))?;
        let (name, id) = self.promises.remove(index);
        self.close(&id);
        match answer {
            Ok(value) => {
                let data = json!({ "promiseId": id, "promiseName": name, "value": value });
                self.append(Origin::External, "PROMISE_RESOLVED", data);
            }
            Err(error) => {
                let data = json!({ "promiseId": id, "promiseName": name, "error": error });
                self.append(Origin::External, "PROMISE_REJECTED", data);
            }
        }
        Ok(())
    }

    /// Completes something that is open.
    pub(super) fn complete(&mut self, index: usize) {
        let Open { kind, data, due_ms, name } = self.open.remove(index);
        self.now_ms = self.now_ms.max(due_ms.unwrap_or(self.now_ms));
        self.promises.retain(|(_, id)| *id != name);
        self.append(Origin::External, kind, data);
    }
}
