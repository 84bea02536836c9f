//! Requests about tasks.

use crate::failure::Failure;
use crate::ids::{ExecutionId, Payload, TaskId, Text};
use crate::request::{Claimer, KeySpec, SubmitActivation};
use crate::state::{LogLevel, RetryPolicy};

/// What a task is to do and how often it may be tried.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct TaskSpec {
    pub task_type: Text,
    pub input: Payload,
    /// `None`: the workflow's queue; `default` for a standalone task.
    pub queue: Option<Text>,
    pub priority_seconds: i64,
    /// How often it runs at most; 0 and 1 both mean once. `None`: 3.
    pub max_retries: Option<i64>,
    pub retry: Option<RetryPolicy>,
    pub schedule_to_start_ms: Option<i64>,
    pub start_to_close_ms: Option<i64>,
    pub total_ms: Option<i64>,
    pub heartbeat_ms: Option<i64>,
    pub key: Option<KeySpec>,
}

impl TaskSpec {
    /// A task with nothing but what every task has.
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

/// A standalone task; or, deprecated, one for a workflow whose ScheduleTask command is still to come.
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

/// All of them, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTasks {
    pub items: Vec<CreateTask>,
}

/// A claim that could not be handed over. The attempt does not count.
#[derive(Debug, Clone, PartialEq)]
pub struct GiveBackTask {
    pub task_id: TaskId,
    pub token: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CompleteTask {
    pub task_id: TaskId,
    pub token: Option<i64>,
    pub output: Payload,
    /// What the task's workflow does next, from a worker that has both.
    pub next: Option<Box<Continuation>>,
}

/// The step of a workflow that follows the success of its task. Its worker has the workflow in memory and knows what it will
/// do when the success is in the log; so both are sent as one, and are one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Continuation {
    pub claimer: Claimer,
    /// With the token of the claim that it takes for itself, the next one, and the task's success as its base.
    pub step: SubmitActivation,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FailTask {
    pub task_id: TaskId,
    pub token: Option<i64>,
    pub error: Text,
    pub failure: Failure,
    pub non_retryable: bool,
    /// The worker's own wish for the delay before the next attempt.
    pub next_delay_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatTask {
    pub task_id: TaskId,
    pub token: Option<i64>,
    /// Handed to the next attempt.
    pub details: Option<Payload>,
}

/// The client that claimed a task without a lease it could renew has shown life on the connection that claimed it.
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
    /// A running task is asked to stop; otherwise only a pending one can be cancelled.
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
