//! Requests about tasks.

use crate::failure::Failure;
use crate::ids::{ExecutionId, Payload, TaskId, Text};
use crate::request::{Claimer, KeySpec, SubmitActivation};
use crate::state::{LogLevel, RetryPolicy};

/// The work of a task, its limits and its retry policy.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct TaskSpec {
    pub task_type: Text,
    pub input: Payload,
    /// `None`: the workflow's queue; `default` for a standalone task.
    pub queue: Option<Text>,
    pub priority_seconds: i64,
    /// The most attempts; 0 and 1 both mean one attempt. `None`: 3.
    pub max_retries: Option<i64>,
    pub retry: Option<RetryPolicy>,
    pub schedule_to_start_ms: Option<i64>,
    pub start_to_close_ms: Option<i64>,
    pub total_ms: Option<i64>,
    pub heartbeat_ms: Option<i64>,
    pub key: Option<KeySpec>,
}

impl TaskSpec {
    /// A task without any optional setting.
    pub fn new(task_type: impl Into<Text>, input: Payload) -> Self {
        Self {
            task_type: task_type.into(),
            input,
            queue: None,
            priority_seconds: 0,
            max_retries: None,
            retry: None,
            schedule_to_start_ms: None,
            start_to_close_ms: None,
            total_ms: None,
            heartbeat_ms: None,
            key: None,
        }
    }
}

/// Creates a standalone task. Deprecated: with `execution_id`, a task of a workflow whose ScheduleTask command has
/// not arrived yet.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTask {
    pub spec: TaskSpec,
    pub execution_id: Option<ExecutionId>,
    pub scheduled_ms: Option<i64>,
    pub traceparent: Option<Text>,
}

impl CreateTask {
    pub fn standalone(spec: TaskSpec) -> Self {
        Self { spec, execution_id: None, scheduled_ms: None, traceparent: None }
    }
}

/// Creates all of these tasks, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTasks {
    pub items: Vec<CreateTask>,
}

/// Releases the claim of a task that could not be delivered to its worker. The attempt does not count.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseTaskClaim {
    pub task_id: TaskId,
    pub token: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CompleteTask {
    pub task_id: TaskId,
    pub token: Option<i64>,
    pub output: Payload,
    /// The next step of the task's workflow. `None` unless the same worker runs the workflow and sent the step along.
    pub next: Option<Box<Continuation>>,
}

/// The step of a workflow that follows the success of its task. The worker has the workflow in memory and knows its
/// next step once the success is in the log. So both are sent together and are one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Continuation {
    pub claimer: Claimer,
    /// The step. Its token is the next one, of the claim that the step makes for itself; its base is the event of the
    /// task's success.
    pub step: SubmitActivation,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FailTask {
    pub task_id: TaskId,
    pub token: Option<i64>,
    pub error: Text,
    pub failure: Failure,
    pub non_retryable: bool,
    /// The delay before the next attempt that the worker asks for. `None`: the retry policy decides.
    pub next_delay_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatTask {
    pub task_id: TaskId,
    pub token: Option<i64>,
    /// Progress details, delivered to the next attempt.
    pub details: Option<Payload>,
}

/// Extends the lease of a task whose client cannot renew it. The client has shown life on the connection that made
/// the claim. Only for deliveries that are `extensible`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtendTask {
    pub task_id: TaskId,
    pub token: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ReportProgress {
    pub task_id: TaskId,
    pub token: Option<i64>,
    /// From 0 to 1.
    pub progress: f64,
    pub details: Option<Text>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AppendLogLine {
    pub task_id: TaskId,
    pub token: Option<i64>,
    pub level: LogLevel,
    pub message: Text,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SetTaskState {
    pub task_id: TaskId,
    pub token: Option<i64>,
    pub name: Text,
    pub value: Payload,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GetTaskState {
    pub task_id: TaskId,
    pub name: Text,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListTaskState {
    pub task_id: TaskId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClearTaskState {
    pub task_id: TaskId,
    pub token: Option<i64>,
    pub name: Text,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClearAllTaskState {
    pub task_id: TaskId,
    pub token: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CancelTask {
    pub task_id: TaskId,
    /// True: a running task is asked to stop. False: only a pending task can be cancelled.
    pub cooperative: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RetryTask {
    pub task_id: TaskId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeleteTask {
    pub task_id: TaskId,
}
