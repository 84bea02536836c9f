//! An in-memory log that works like a server's: commands become rows, and the work they start completes later.

use std::time::Duration;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{RealTask, TestEnvironment, TestTask};
use crate::error::{Error, PLAIN};
use crate::replay::{Command, LogEvent, Origin, RetryPolicy};
use crate::wire::milliseconds;

/// Maximum number of attempts of a task whose options set none, as on a server.
const DEFAULT_ATTEMPTS: u32 = 3;

/// Work that will complete by itself: a task, a child, a timer or the timeout of a promise.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) kind: &'static str,
    pub(super) data: Value,
    /// `None`: completes as soon as possible.
    pub(super) due_ms: Option<i64>,
    /// The id or name by which the work is cancelled, such as a task's id or a timer's name.
    name: String,
    /// `Some`: a task that runs for real. Its next attempt decides what happens.
    attempts: Option<Box<Attempts>>,
}

/// The attempts of a task that runs for real.
#[derive(Debug)]
struct Attempts {
    task: TestTask,
    definition: RealTask,
    kind: String,
    input: Value,
    max: u32,
    retry: RetryPolicy,
    /// The error of the last attempt.
    error: String,
    /// The delay that the last attempt asked for. `None`: the retry policy decides.
    retry_after: Option<Duration>,
}

impl Attempts {
    /// Runs the next attempt. `None`: the attempt failed, and another one follows.
    async fn next(&mut self) -> Option<Result<Value, Error>> {
        let result = self.task.attempt(&self.kind, self.definition.0.clone(), self.input.clone()).await;
        let error = match result {
            Ok(output) => return Some(Ok(output)),
            Err(error) => error,
        };
        (self.error, self.retry_after) = (error.to_string(), error.retry_delay());
        let is_last = error.gives_up() || self.task.attempts() >= self.max;
        is_last.then_some(Err(error))
    }

    /// Delay before the next attempt. Like a server's, but without jitter.
    fn delay_ms(&self) -> i64 {
        if let Some(delay) = self.retry_after {
            return milliseconds(delay);
        }
        let exponent = i32::try_from(self.task.attempts().saturating_sub(1)).unwrap_or(i32::MAX);
        let delay = self.retry.initial.as_millis() as f64 * self.retry.factor.powi(exponent);
        // `as` saturates.
        delay.min(self.retry.cap.as_millis() as f64).max(1.0) as i64
    }
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) events: Vec<LogEvent>,
    pub(super) now_ms: i64,
    pub(super) open: Vec<Open>,
    /// Open promises: name and id.
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
        self.open.push(Open { kind, data, due_ms, name: name.to_owned(), attempts: None });
    }

    fn close(&mut self, name: &str) {
        self.open.retain(|open| open.name != name);
    }

    /// Applies a command: adds its row and opens the work that it starts.
    pub(super) fn carry_out(&mut self, environment: &TestEnvironment, execution_id: Uuid, command: Command) {
        match command {
            Command::RecordOperation { name, result } => {
                self.row("OPERATION_COMPLETED", json!({ "operationName": name, "result": result }));
            }
            Command::SetState { key, value } => self.row("STATE_SET", json!({ "key": key, "value": value })),
            Command::ClearState { key } => self.row("STATE_CLEARED", json!({ "key": key })),
            Command::ScheduleTask { id: task_id, task_type, input, options } => {
                let id = task_id.to_string();
                let row = json!({ "taskExecutionId": id, "kind": task_type, "taskType": task_type, "input": input });
                self.row("TASK_SCHEDULED", row);
                if let Some(mock) = environment.tasks.get(&task_type) {
                    let (kind, data) = match mock(input) {
                        Ok(output) => ("TASK_COMPLETED", json!({ "taskExecutionId": id, "output": output })),
                        Err(error) => {
                            let max = options.max_retries.unwrap_or(DEFAULT_ATTEMPTS);
                            let attempts = if error.gives_up() { 1 } else { max };
                            ("TASK_FAILED", task_failed(&id, &error, attempts))
                        }
                    };
                    self.open(kind, &id, data, None);
                } else if let Some(definition) = environment.real_tasks.get(&task_type) {
                    let attempts = Attempts {
                        task: TestTask::of(task_id, Some(execution_id), environment.extensions.clone()),
                        definition: definition.clone(),
                        kind: task_type,
                        input,
                        max: options.max_retries.unwrap_or(DEFAULT_ATTEMPTS),
                        retry: options.retry.unwrap_or_default(),
                        error: String::new(),
                        retry_after: None,
                    };
                    let (kind, data) = ("TASK_COMPLETED", Value::Null);
                    self.open.push(Open {
                        kind,
                        data,
                        due_ms: None,
                        name: id,
                        attempts: Some(Box::new(attempts)),
                    });
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
                            add_failure(&mut data, &error);
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

    /// Resolves or rejects the oldest open promise of this name.
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

    /// Completes open work, or runs the next attempt of a task.
    pub(super) async fn complete(&mut self, index: usize) {
        let mut open = self.open.remove(index);
        self.now_ms = self.now_ms.max(open.due_ms.unwrap_or(self.now_ms));
        let Some(attempts) = &mut open.attempts else {
            self.promises.retain(|(_, id)| *id != open.name);
            return self.append(Origin::External, open.kind, open.data);
        };
        let id = &open.name;
        match attempts.next().await {
            Some(Ok(output)) => {
                let data = json!({ "taskExecutionId": id, "output": output });
                self.append(Origin::External, "TASK_COMPLETED", data);
            }
            Some(Err(error)) => {
                let data = task_failed(id, &error, attempts.task.attempts());
                self.append(Origin::External, "TASK_FAILED", data);
            }
            None => {
                open.due_ms = Some(self.now_ms + attempts.delay_ms());
                self.open.push(open);
            }
        }
    }

    /// The state of a task's attempts, for `waiting_on`. `None`: the test neither runs nor mocks the task.
    pub(super) fn task_note(&self, id: &str) -> Option<String> {
        let open = self.open.iter().find(|open| open.name == id)?;
        let Some(attempts) = &open.attempts else { return Some(String::new()) };
        let due_ms = open.due_ms.unwrap_or(self.now_ms);
        Some(match attempts.task.attempts() {
            0 => String::new(),
            number => {
                let (error, left) =
                    (&attempts.error, Duration::from_millis((due_ms - self.now_ms).unsigned_abs()));
                format!(": attempt {number} failed: {error}; next attempt in {left:?}")
            }
        })
    }

    /// Sequence of the newest signal. 0: there is none.
    pub(super) fn last_signal(&self) -> i64 {
        self.events.iter().rev().find(|event| event.is_signal()).map_or(0, |event| event.sequence)
    }

    /// A value of the workflow's state. `None`: the key is not set.
    pub(super) fn state(&self, key: &str) -> Option<&Value> {
        let of_key = |event: &&LogEvent| event.text("key") == key;
        let is_state = |event: &&LogEvent| event.kind == "STATE_SET" || event.kind == "STATE_CLEARED";
        let last = self.events.iter().rev().filter(is_state).find(of_key)?;
        if last.kind == "STATE_SET" { last.data.get("value") } else { None }
    }
}

/// Adds the kind and details of a failure to an event, as a server does.
pub(super) fn add_failure(data: &mut Map<String, Value>, error: &Error) {
    data.insert("failureType".into(), error.kind().into());
    if let Some(details) = error.raw_details() {
        data.insert("failureDetails".into(), details.clone());
    }
}

fn task_failed(id: &str, error: &Error, attempts: u32) -> Value {
    let mut data = Map::new();
    data.insert("taskExecutionId".into(), id.into());
    data.insert("error".into(), error.to_string().into());
    // A worker does not send the default kind.
    if error.kind() != PLAIN {
        add_failure(&mut data, error);
    }
    data.insert("retryable".into(), (!error.gives_up()).into());
    data.insert("attempts".into(), attempts.into());
    Value::Object(data)
}
