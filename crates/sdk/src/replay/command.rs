//! What a workflow asks the server to do, and how a command is recognised in the log.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::event::LogEvent;

/// How a task is to be run. Everything has a default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskOptions {
    /// The workflow's queue.
    pub queue: Option<String>,
    /// How often it runs at most; 3.
    pub max_retries: Option<u32>,
    /// For one attempt; none.
    pub timeout: Option<Duration>,
    /// Across all attempts; none.
    pub total_timeout: Option<Duration>,
    /// How long it may wait for a worker; without end.
    pub schedule_to_start: Option<Duration>,
    /// How long it may go without a heartbeat; without end.
    pub heartbeat_timeout: Option<Duration>,
    /// Negative is sooner; 0.
    pub priority_seconds: i32,
    /// Delays between attempts; 1 s, doubled up to 60 s.
    pub retry: Option<RetryPolicy>,
}

/// Delays between attempts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    pub initial: Duration,
    pub factor: f64,
    pub cap: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    RecordOperation { name: String, result: Value },
    SetState { key: String, value: Value },
    ClearState { key: String },
    ScheduleTask { id: Uuid, task_type: String, input: Value, options: Box<TaskOptions> },
    CancelTask { id: Uuid },
    StartTimer { name: String, duration: Duration },
    CancelTimer { name: String },
    CreatePromise { name: String, timeout: Option<Duration>, key: Option<String> },
    ScheduleChild { id: Uuid, name: String, kind: String, input: Value, queue: Option<String> },
    CancelChild { id: Uuid, name: String },
}

/// Commands are matched with the log's rows by their number within a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Operation,
    /// Setting and clearing count together.
    State,
    Task,
    CancelTask,
    Timer,
    CancelTimer,
    Promise,
    Child,
    CancelChild,
}

impl Kind {
    pub(crate) const COUNT: usize = 9;
    pub(crate) const ALL: [Kind; Self::COUNT] = [
        Kind::Operation,
        Kind::State,
        Kind::Task,
        Kind::CancelTask,
        Kind::Timer,
        Kind::CancelTimer,
        Kind::Promise,
        Kind::Child,
        Kind::CancelChild,
    ];
}

impl Command {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::RecordOperation { .. } => Kind::Operation,
            Self::SetState { .. } | Self::ClearState { .. } => Kind::State,
            Self::ScheduleTask { .. } => Kind::Task,
            Self::CancelTask { .. } => Kind::CancelTask,
            Self::StartTimer { .. } => Kind::Timer,
            Self::CancelTimer { .. } => Kind::CancelTimer,
            Self::CreatePromise { .. } => Kind::Promise,
            Self::ScheduleChild { .. } => Kind::Child,
            Self::CancelChild { .. } => Kind::CancelChild,
        }
    }

    /// What identifies it: equal for a command and the row it made, and for nothing else.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::RecordOperation { name, .. } => format!("operation {name:?}"),
            Self::SetState { key, .. } => format!("set state {key:?}"),
            Self::ClearState { key } => format!("clear state {key:?}"),
            Self::ScheduleTask { id, task_type, .. } => format!("task {task_type:?} with id {id}"),
            Self::CancelTask { id } => format!("cancel of task {id}"),
            Self::StartTimer { name, .. } => format!("timer {name:?}"),
            Self::CancelTimer { name } => format!("cancel of timer {name:?}"),
            Self::CreatePromise { name, .. } => format!("promise {name:?}"),
            Self::ScheduleChild { name, kind, .. } => format!("child {name:?} of kind {kind:?}"),
            Self::CancelChild { id, .. } => format!("cancel of child {id}"),
        }
    }
}

impl Command {
    /// With its input, as far as the log has it too.
    pub(crate) fn describe_fully(&self) -> String {
        let input = match self {
            Self::SetState { value, .. } => Some(value.clone()),
            Self::ScheduleTask { input, .. } => Some(input.clone()),
            Self::StartTimer { duration, .. } => Some(millis(*duration)),
            Self::CreatePromise { timeout, .. } => timeout.map(millis),
            _ => None,
        };
        fully(&self.describe(), input.as_ref())
    }
}

fn millis(duration: Duration) -> Value {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).into()
}

fn fully(description: &str, input: Option<&Value>) -> String {
    input.map_or_else(|| description.to_owned(), |input| format!("{description} and input {input}"))
}

/// A command of this workflow as the log has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) sequence: i64,
    pub(crate) description: String,
    /// What was given with it, if it came along.
    pub(crate) input: Option<Value>,
    /// Result of an operation, if it came along.
    pub(crate) result: Option<Value>,
    /// Id that the server gave a promise.
    pub(crate) promise_id: Option<String>,
}

impl Row {
    /// `None`: an event that stands for no command that is matched, such as the end of the workflow.
    pub(crate) fn read(event: &LogEvent) -> Option<(Kind, Self)> {
        let name = |key: &str| event.text(key);
        let (kind, description) = match event.kind.as_str() {
            "OPERATION_COMPLETED" => (Kind::Operation, format!("operation {:?}", name("operationName"))),
            "STATE_SET" => (Kind::State, format!("set state {:?}", name("key"))),
            "STATE_CLEARED" => (Kind::State, format!("clear state {:?}", name("key"))),
            "TASK_SCHEDULED" => {
                (Kind::Task, format!("task {:?} with id {}", name("kind"), name("taskExecutionId")))
            }
            "TASK_CANCEL_REQUESTED" => {
                (Kind::CancelTask, format!("cancel of task {}", name("taskExecutionId")))
            }
            "TIMER_STARTED" => (Kind::Timer, format!("timer {:?}", name("timerId"))),
            "TIMER_CANCELLED" => (Kind::CancelTimer, format!("cancel of timer {:?}", name("timerId"))),
            "PROMISE_CREATED" => (Kind::Promise, format!("promise {:?}", name("promiseName"))),
            "CHILD_WORKFLOW_INITIATED" => (
                Kind::Child,
                format!("child {:?} of kind {:?}", name("childExecutionName"), name("childWorkflowKind")),
            ),
            "CHILD_WORKFLOW_CANCEL_REQUESTED" => {
                (Kind::CancelChild, format!("cancel of child {}", name("childExecutionId")))
            }
            _ => return None,
        };
        let input = match kind {
            Kind::State => event.data.get("value"),
            Kind::Task => event.data.get("input"),
            Kind::Timer => event.data.get("durationMs"),
            Kind::Promise => event.data.get("timeoutMs"),
            _ => None,
        };
        let row = Self {
            sequence: event.sequence,
            description,
            input: input.cloned(),
            result: event.data.get("result").cloned(),
            promise_id: event.data.get("promiseId").and_then(Value::as_str).map(str::to_owned),
        };
        Some((kind, row))
    }

    pub(crate) fn describe_fully(&self) -> String {
        fully(&self.description, self.input.as_ref())
    }
}
