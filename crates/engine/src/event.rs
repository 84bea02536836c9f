//! The log of an execution: one typed definition of every event, and its JSON form.
//!
//! A stored event has five generic columns. [`EventKind::keys`] defines the JSON key of each column for each kind; the
//! keys are defined nowhere else. Payloads of the workflow's own tasks are not copied into events: they are read from
//! the task's row when the event is rendered.

use uuid::Uuid;

use crate::failure::{Failure, StoredFailure};
use crate::ids::{ExecutionId, Payload, TenantId, Text};
use crate::state::{Task, small_enum};
use crate::table::Row;

small_enum! {
    EventKind {
        WorkflowStarted = 1 "WORKFLOW_STARTED",
        WorkflowCompleted = 2 "WORKFLOW_COMPLETED",
        WorkflowFailed = 3 "WORKFLOW_EXECUTION_FAILED",
        WorkflowCancelled = 4 "WORKFLOW_CANCELLED",
        CancellationRequested = 5 "CANCELLATION_REQUESTED",
        OperationCompleted = 6 "OPERATION_COMPLETED",
        StateSet = 7 "STATE_SET",
        StateCleared = 8 "STATE_CLEARED",
        TaskScheduled = 9 "TASK_SCHEDULED",
        TaskCompleted = 10 "TASK_COMPLETED",
        TaskFailed = 11 "TASK_FAILED",
        TaskCancelRequested = 12 "TASK_CANCEL_REQUESTED",
        PromiseCreated = 13 "PROMISE_CREATED",
        PromiseResolved = 14 "PROMISE_RESOLVED",
        PromiseRejected = 15 "PROMISE_REJECTED",
        PromiseTimeout = 16 "PROMISE_TIMEOUT",
        ChildInitiated = 17 "CHILD_WORKFLOW_INITIATED",
        ChildCompleted = 18 "CHILD_WORKFLOW_COMPLETED",
        ChildFailed = 19 "CHILD_WORKFLOW_FAILED",
        ChildCancelRequested = 20 "CHILD_WORKFLOW_CANCEL_REQUESTED",
        TimerStarted = 21 "TIMER_STARTED",
        TimerFired = 22 "TIMER_FIRED",
        TimerCancelled = 23 "TIMER_CANCELLED",
        SignalReceived = 24 "SIGNAL_RECEIVED",
        /// An end was deferred, because a signal had arrived that its activation had not seen. Clients of the public
        /// protocol know the name and ignore the event.
        EndDeferred = 25 "WORKFLOW_SUSPENDED",
    }
}

small_enum! {
    /// The cause of an event: a command of an activation, or something outside.
    Origin {
        Command = 0 "COMMAND",
        External = 1 "EXTERNAL",
    }
}

/// JSON keys of the generic columns. Empty: the column is not used by this kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Keys {
    pub subject: &'static [&'static str],
    pub name: &'static [&'static str],
    pub text: &'static str,
    pub number: &'static str,
    /// The key of `number` when it is shown as a boolean.
    pub flag: &'static str,
    pub payload: &'static str,
    /// If the payload is an object, its members are added to the event instead of the value of `payload`.
    pub members: bool,
    /// Which payload of the task's row is shown, and under which key.
    pub from_task: Option<(TaskPart, &'static str)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskPart {
    Input,
    Output,
    Error,
}

impl EventKind {
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::WorkflowCompleted | Self::WorkflowFailed | Self::WorkflowCancelled)
    }

    pub fn keys(self) -> Keys {
        let none = Keys::default();
        match self {
            Self::WorkflowStarted => Keys { name: &["workflowKind"], payload: "input", ..none },
            Self::WorkflowCompleted => Keys { payload: "output", number: "unreadSignals", ..none },
            Self::WorkflowFailed => {
                let name = &["failureType"];
                let (text, payload, number) = ("error", "stackTrace", "unreadSignals");
                Keys { text, name, payload, number, members: true, ..none }
            }
            Self::WorkflowCancelled => Keys { text: "reason", number: "unreadSignals", ..none },
            Self::EndDeferred => Keys { text: "reason", number: "seenThrough", ..none },
            Self::CancellationRequested => Keys { text: "reason", ..none },
            Self::OperationCompleted => Keys { name: &["operationName"], payload: "result", ..none },
            Self::StateSet => Keys { name: &["key"], payload: "value", ..none },
            Self::StateCleared => Keys { name: &["key"], ..none },
            Self::TaskScheduled => Keys {
                subject: &["taskExecutionId"],
                name: &["kind", "taskType"],
                from_task: Some((TaskPart::Input, "input")),
                ..none
            },
            Self::TaskCompleted => {
                Keys { subject: &["taskExecutionId"], from_task: Some((TaskPart::Output, "output")), ..none }
            }
            Self::TaskFailed => Keys {
                subject: &["taskExecutionId"],
                flag: "cancelled",
                from_task: Some((TaskPart::Error, "error")),
                ..none
            },
            Self::TaskCancelRequested => Keys { subject: &["taskExecutionId"], flag: "cancelled", ..none },
            Self::PromiseCreated => {
                Keys { subject: &["promiseId"], name: &["promiseName"], number: "timeoutMs", ..none }
            }
            Self::PromiseResolved => {
                Keys { subject: &["promiseId"], name: &["promiseName"], payload: "value", ..none }
            }
            Self::PromiseRejected => {
                Keys { subject: &["promiseId"], name: &["promiseName"], text: "error", ..none }
            }
            Self::PromiseTimeout => Keys { subject: &["promiseId"], name: &["promiseName"], ..none },
            Self::ChildInitiated => Keys {
                subject: &["childExecutionId"],
                name: &["childExecutionName"],
                text: "childWorkflowKind",
                ..none
            },
            Self::ChildCompleted => Keys {
                subject: &["childExecutionId"],
                name: &["childExecutionName"],
                payload: "output",
                ..none
            },
            Self::ChildFailed => Keys {
                subject: &["childExecutionId", "childworkflowExecutionId"],
                name: &["childExecutionName"],
                text: "error",
                flag: "cancelled",
                members: true,
                ..none
            },
            Self::ChildCancelRequested => {
                Keys { subject: &["childExecutionId"], name: &["childExecutionName"], text: "reason", ..none }
            }
            Self::TimerStarted => Keys { name: &["timerId"], number: "durationMs", ..none },
            Self::TimerFired | Self::TimerCancelled => Keys { name: &["timerId"], ..none },
            Self::SignalReceived => Keys { name: &["signalName"], payload: "signalValue", ..none },
        }
    }
}

/// The content of an event that has no place in a log yet.
#[derive(Debug, Clone, PartialEq)]
pub struct EventData {
    pub kind: EventKind,
    pub subject: Option<Uuid>,
    pub name: Option<Text>,
    pub number: Option<i64>,
    pub text: Option<Text>,
    pub payload: Option<Payload>,
}

impl EventData {
    pub fn new(kind: EventKind) -> Self {
        Self { kind, subject: None, name: None, number: None, text: None, payload: None }
    }
    pub fn subject(mut self, id: Uuid) -> Self {
        self.subject = Some(id);
        self
    }
    pub fn name(mut self, name: Text) -> Self {
        self.name = Some(name);
        self
    }
    pub fn number(mut self, number: i64) -> Self {
        self.number = Some(number);
        self
    }
    pub fn flag(self, flag: bool) -> Self {
        if flag { self.number(1) } else { self }
    }
    pub fn text(mut self, text: impl Into<Text>) -> Self {
        self.text = Some(text.into());
        self
    }
    pub fn payload(mut self, payload: Payload) -> Self {
        self.payload = Some(payload);
        self
    }
}

/// An event in a log: one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub tenant_id: TenantId,
    pub execution_id: ExecutionId,
    pub sequence: i64,
    pub kind: EventKind,
    pub origin: Origin,
    pub time_ms: i64,
    pub subject: Option<Uuid>,
    pub name: Option<Text>,
    pub number: Option<i64>,
    pub text: Option<Text>,
    pub payload: Option<Payload>,
}

impl Row for Event {
    type Key = (TenantId, ExecutionId, i64);
    const BLIND: bool = true;
    fn key(&self) -> Self::Key {
        (self.tenant_id, self.execution_id, self.sequence)
    }
}

/// The payloads of a task that its events show.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskPayloads {
    pub input: Option<Payload>,
    pub output: Option<Payload>,
    pub error: Option<Text>,
    /// The other parts of the task's failure: see [`StoredFailure`].
    pub failure: Option<Payload>,
}

/// An event, with the payloads of the task that it is about. `None`: it is about no task, or shows no payload.
pub type DeliveredEvent = (Event, Option<TaskPayloads>);

impl Event {
    /// The event for a worker that has the instance in memory and knows what it scheduled itself. `None`: the row of
    /// the task that the event is about is not loaded.
    pub fn delivered<'a>(&self, task: impl FnOnce(Uuid) -> Option<&'a Task>) -> Option<DeliveredEvent> {
        let needed = self.task_needed().filter(|_| self.kind != EventKind::TaskScheduled);
        let payloads = match needed {
            None => None,
            Some(task_id) => {
                let task = task(task_id)?;
                Some(TaskPayloads::without_input(task))
            }
        };
        Some((self.clone(), payloads))
    }

    /// The task whose row is needed to render the event. `None`: rendering needs no task.
    pub fn task_needed(&self) -> Option<Uuid> {
        self.kind.keys().from_task.and(self.subject)
    }

    /// The event's data as a JSON object. Payloads are copied byte by byte.
    pub fn render(&self, task: Option<&TaskPayloads>) -> Vec<u8> {
        let keys = self.kind.keys();
        let mut object = ObjectWriter::new();
        if let Some(id) = self.subject {
            for key in keys.subject {
                object.string(key, id.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
            }
        }
        if let Some(name) = &self.name {
            for key in keys.name {
                object.string(key, name);
            }
        }
        if let (Some(text), false) = (&self.text, keys.text.is_empty()) {
            object.string(keys.text, text);
        }
        if let (Some(number), false) = (self.number, keys.number.is_empty()) {
            object.raw(keys.number, number.to_string().as_bytes());
        }
        if !keys.flag.is_empty() && self.number == Some(1) {
            object.raw(keys.flag, b"true");
        }
        match &self.payload {
            Some(payload) if keys.members && payload.starts_with(b"{") => object.members(payload),
            Some(payload) if !keys.payload.is_empty() => object.raw(keys.payload, payload),
            _ => {}
        }
        if let (Some((part, key)), Some(task)) = (keys.from_task, task) {
            match part {
                TaskPart::Input => object.raw(key, task.input.as_deref().unwrap_or(b"null")),
                TaskPart::Output => object.raw(key, task.output.as_deref().unwrap_or(b"null")),
                TaskPart::Error => {
                    object.string(key, task.error.as_deref().unwrap_or(""));
                    task.failure.iter().for_each(|failure| object.members(failure));
                }
            }
        }
        object.finish()
    }

    /// The failure of a workflow, beside its error message. For events of kind [`EventKind::WorkflowFailed`].
    pub fn failure(&self) -> StoredFailure {
        let stored = match &self.payload {
            Some(payload) if payload.starts_with(b"{") => StoredFailure::read(self.payload.as_ref()),
            // Older events hold only the stack trace.
            Some(trace) => {
                let trace = serde_json::from_slice::<String>(trace).ok().map(Text::from);
                StoredFailure { stack_trace: trace, ..StoredFailure::default() }
            }
            None => StoredFailure::default(),
        };
        let failure = Failure { kind: self.name.clone(), ..stored.failure };
        StoredFailure { failure, ..stored }
    }

    /// Roughly how many bytes the event adds to a history, for the limit of unary replies.
    pub fn weight(&self) -> i64 {
        let bytes = 64
            + self.payload.as_ref().map_or(0, Payload::len)
            + self.text.as_ref().map_or(0, |text| text.len())
            + self.name.as_ref().map_or(0, |name| name.len());
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }
}

impl TaskPayloads {
    /// Everything except the input, which is long and already known to the worker.
    fn without_input(task: &Task) -> Self {
        let Task { output, error, failure, .. } = task;
        Self { input: None, output: output.clone(), error: error.clone(), failure: failure.clone() }
    }
}

pub(crate) struct ObjectWriter(Vec<u8>);

impl ObjectWriter {
    pub(crate) fn new() -> Self {
        Self(vec![b'{'])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    fn key(&mut self, key: &str) {
        if !self.is_empty() {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    /// Copies the members of another object that an `ObjectWriter` wrote.
    fn members(&mut self, object: &[u8]) {
        let inner = object.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")).unwrap_or_default();
        if !inner.is_empty() && !self.is_empty() {
            self.0.push(b',');
        }
        self.0.extend_from_slice(inner);
    }

    pub(crate) fn raw(&mut self, key: &str, json: &[u8]) {
        self.key(key);
        self.0.extend_from_slice(json);
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        serde_json::to_writer(&mut self.0, value).expect("a string always serialises into memory");
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}
