//! The commands that a workflow sends to the server, and how a command is matched with its row in the log.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::event::LogEvent;

/// Options of a task. All have defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskOptions {
    /// The queue of the task. `None`: the workflow's queue.
    pub queue: Option<String>,
    /// Maximum number of attempts. `None`: 3.
    pub max_retries: Option<u32>,
    /// Time limit of one attempt. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Time limit of all attempts together. `None`: no limit.
    pub total_timeout: Option<Duration>,
    /// How long the task may wait for a worker. `None`: no limit.
    pub schedule_to_start: Option<Duration>,
    /// Maximum time between heartbeats. `None`: no limit.
    pub heartbeat_timeout: Option<Duration>,
    /// Priority as a shift in seconds: a negative value runs sooner. Default 0.
    pub priority_seconds: i32,
    /// Delays between attempts. `None`: 1 s, doubled up to 60 s.
    pub retry: Option<RetryPolicy>,
}

/// Options of a child workflow. All have defaults.
///
/// The id of a child is derived from its parent's history, so a parent starts each child once, also without a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildOptions {
    /// Workers of this queue run the child. `None`: the parent's queue.
    pub queue: Option<String>,
    /// Only this version of the workflow runs the child. `None`: the version of the definition for a typed child, and
    /// any version that the worker has for a child by name.
    pub version: Option<String>,
    /// Time limit of the whole child. `None`: no limit.
    pub execution_timeout: Option<Duration>,
    /// Total time for the child's clean-up after a cancel request. `None`: the value of its definition. If that is
    /// also `None`, clean-up has no limit while it makes progress.
    pub cancel_grace: Option<Duration>,
    /// Priority as a shift in seconds: a negative value runs sooner. Default 0.
    pub priority_seconds: i32,
    /// An idempotency key, by which the child can be found and signalled. If other work holds the key, the child fails
    /// with the kind `FLV0042`. `None`: no key.
    pub key: Option<String>,
    /// Lifetime of the key, counted from the start. `None`: one day.
    pub key_ttl: Option<Duration>,
    /// Labels to search by.
    pub labels: HashMap<String, String>,
}

/// The delays between attempts: `initial` first, then multiplied by `factor` after each attempt, up to `cap`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    pub initial: Duration,
    pub factor: f64,
    pub cap: Duration,
}

/// The server's default: 1 s, doubled up to 60 s.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self { initial: Duration::from_secs(1), factor: 2.0, cap: Duration::from_secs(60) }
    }
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
    ScheduleChild { id: Uuid, name: String, kind: String, input: Value, options: Box<ChildOptions> },
    CancelChild { id: Uuid, name: String },
}

/// The kinds of commands. A command is matched with the log's row that has the same number within its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Operation,
    /// Set and clear share one count.
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

    /// Describes the command without its id. The text is equal for a command and its row in the log.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::RecordOperation { name, .. } => format!("operation {name:?}"),
            Self::SetState { key, .. } => format!("set state {key:?}"),
            Self::ClearState { key } => format!("clear state {key:?}"),
            Self::ScheduleTask { task_type, .. } => format!("task {task_type:?}"),
            Self::CancelTask { .. } => "cancel of task".to_owned(),
            Self::StartTimer { .. } => "timer".to_owned(),
            Self::CancelTimer { .. } => "cancel of timer".to_owned(),
            Self::CreatePromise { name, .. } => format!("promise {name:?}"),
            Self::ScheduleChild { name, kind, .. } => format!("child {name:?} of kind {kind:?}"),
            Self::CancelChild { .. } => "cancel of child".to_owned(),
        }
    }

    /// The id that the SDK generated for the command, or the id of the item that the command cancels. `None`: the
    /// command has no id, or the server generates it.
    pub(crate) fn id(&self) -> Option<String> {
        match self {
            Self::ScheduleTask { id, .. } | Self::CancelTask { id } => Some(id.to_string()),
            Self::ScheduleChild { id, .. } | Self::CancelChild { id, .. } => Some(id.to_string()),
            Self::StartTimer { name, .. } | Self::CancelTimer { name } => Some(name.clone()),
            _ => None,
        }
    }

    /// Describes the command for error messages.
    pub(crate) fn describe(&self) -> String {
        self.kind().describe(&self.what(), self.id().as_deref())
    }
}

impl Kind {
    /// Describes a command or a row for error messages.
    pub(crate) fn describe(self, what: &str, id: Option<&str>) -> String {
        match (self, id) {
            (Self::Task, Some(id)) => format!("{what} with id {id}"),
            (Self::Timer | Self::CancelTimer, Some(name)) => format!("{what} {name:?}"),
            (Self::CancelTask | Self::CancelChild, Some(id)) => format!("{what} {id}"),
            _ => what.to_owned(),
        }
    }

    /// For a command that cancels something: the kind of the cancelled command. `None`: the command cancels nothing.
    pub(crate) fn cancels(self) -> Option<Self> {
        match self {
            Self::CancelTask => Some(Self::Task),
            Self::CancelTimer => Some(Self::Timer),
            Self::CancelChild => Some(Self::Child),
            _ => None,
        }
    }
}

impl Command {
    /// The command's input, for the kinds whose input is also in the log. `None`: other kinds.
    pub(crate) fn input(&self) -> Option<Value> {
        match self {
            Self::SetState { value, .. } => Some(value.clone()),
            Self::ScheduleTask { input, .. } => Some(input.clone()),
            Self::StartTimer { duration, .. } => Some(millis(*duration)),
            Self::CreatePromise { timeout, .. } => timeout.map(millis),
            _ => None,
        }
    }

    /// Describes the command for error messages, with its input.
    pub(crate) fn describe_fully(&self) -> String {
        fully(self.describe(), self.input().as_ref())
    }
}

fn millis(duration: Duration) -> Value {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).into()
}

pub(super) fn fully(description: String, input: Option<&Value>) -> String {
    match input {
        None => description,
        Some(input) => format!("{description} and input {input}"),
    }
}

/// A command of this workflow, read from the log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) sequence: i64,
    pub(crate) kind: Kind,
    /// Description without the id: equal to `Command::what` of the same command.
    pub(crate) what: String,
    /// The id in the log: generated by this SDK, by another SDK, or by the server (promises). `None`: the command has
    /// no id.
    pub(crate) id: Option<String>,
    /// The command's input. `None`: the event does not include it.
    pub(crate) input: Option<Value>,
    /// Result of an operation. `None`: another kind of command, or the event does not include the result.
    pub(crate) result: Option<Value>,
}

impl Row {
    /// `None`: the event is not from a command that is matched, such as the end of the workflow.
    pub(crate) fn read(event: &LogEvent) -> Option<Self> {
        let name = |key: &str| event.text(key);
        let (kind, what, id) = match event.kind.as_str() {
            "OPERATION_COMPLETED" => (Kind::Operation, format!("operation {:?}", name("operationName")), ""),
            "STATE_SET" => (Kind::State, format!("set state {:?}", name("key")), ""),
            "STATE_CLEARED" => (Kind::State, format!("clear state {:?}", name("key")), ""),
            "TASK_SCHEDULED" => (Kind::Task, format!("task {:?}", name("kind")), "taskExecutionId"),
            "TASK_CANCEL_REQUESTED" => (Kind::CancelTask, "cancel of task".to_owned(), "taskExecutionId"),
            "TIMER_STARTED" => (Kind::Timer, "timer".to_owned(), "timerId"),
            "TIMER_CANCELLED" => (Kind::CancelTimer, "cancel of timer".to_owned(), "timerId"),
            "PROMISE_CREATED" => (Kind::Promise, format!("promise {:?}", name("promiseName")), "promiseId"),
            "CHILD_WORKFLOW_INITIATED" => (
                Kind::Child,
                format!("child {:?} of kind {:?}", name("childExecutionName"), name("childWorkflowKind")),
                "childExecutionId",
            ),
            "CHILD_WORKFLOW_CANCEL_REQUESTED" => {
                (Kind::CancelChild, "cancel of child".to_owned(), "childExecutionId")
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
        Some(Self {
            sequence: event.sequence,
            kind,
            what,
            id: event.data.get(id).and_then(Value::as_str).map(str::to_owned),
            input: input.cloned(),
            result: event.data.get("result").cloned(),
        })
    }

    /// Describes the row for error messages.
    pub(crate) fn describe(&self) -> String {
        self.kind.describe(&self.what, self.id.as_deref())
    }

    /// Describes the row for error messages, with its input.
    pub(crate) fn describe_fully(&self) -> String {
        fully(self.describe(), self.input.as_ref())
    }
}
