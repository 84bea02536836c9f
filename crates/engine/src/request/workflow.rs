//! Requests about workflow executions.

use uuid::Uuid;

use crate::failure::Failure;
use crate::ids::{ExecutionId, Payload, PromiseId, TaskId, Text};
use crate::request::TaskSpec;

/// A key that makes a request happen once, and how long it is remembered. Of signal-with-start: a key that one open execution
/// holds, and how long it is remembered after the end.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct KeySpec {
    pub name: Text,
    /// `None`: a day.
    pub ttl_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StartWorkflow {
    pub kind: Text,
    pub input: Payload,
    pub queue: Text,
    pub priority_seconds: i64,
    pub workflow_version: Option<Text>,
    pub labels: Vec<(Text, Text)>,
    pub key: Option<KeySpec>,
    pub parent: Option<Parent>,
    /// Delayed start, as a moment.
    pub scheduled_ms: Option<i64>,
    pub execution_timeout_ms: Option<i64>,
    /// Time that clean-up after a cancel request may take in all. `None`: what the workflow's definition says, else as long as it
    /// makes progress. 0: a cancel request ends it at once.
    pub cancel_grace_ms: Option<i64>,
    pub traceparent: Option<Text>,
}

/// The execution that is told of the outcome, and the name it knows this one by.
#[derive(Debug, Clone, PartialEq)]
pub struct Parent {
    pub id: ExecutionId,
    pub name: Text,
}

impl StartWorkflow {
    /// A start with nothing but what every start has.
    pub fn new(kind: impl Into<Text>, queue: impl Into<Text>, input: Payload) -> Self {
        Self {
            kind: kind.into(),
            input,
            queue: queue.into(),
            priority_seconds: 0,
            workflow_version: None,
            labels: Vec::new(),
            key: None,
            parent: None,
            scheduled_ms: None,
            execution_timeout_ms: None,
            cancel_grace_ms: None,
            traceparent: None,
        }
    }
}

/// All of them, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct StartWorkflows {
    pub items: Vec<StartWorkflow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SignalWorkflow {
    pub execution_id: ExecutionId,
    pub name: Text,
    pub value: Payload,
}

/// Starts the workflow unless an open execution holds its key; either way that execution gets the signal, and holds the key
/// until it has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalWithStart {
    /// Must have a key.
    pub start: StartWorkflow,
    pub name: Text,
    pub value: Payload,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CancelWorkflow {
    pub execution_id: ExecutionId,
    pub reason: Text,
    /// Children are cancelled too, by and by.
    pub cascade: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TerminateWorkflow {
    pub execution_id: ExecutionId,
    pub reason: Text,
}

/// An action on the execution that a key names: the one that was given the key last, or the newest that was started with it.
#[derive(Debug, Clone, PartialEq)]
pub struct ActByKey {
    pub key: Text,
    pub action: KeyedAction,
}

#[derive(Debug, Clone, PartialEq)]
pub enum KeyedAction {
    Signal { name: Text, value: Payload },
    Cancel { reason: Text, cascade: bool },
    Terminate { reason: Text },
}

#[derive(Debug, Clone, PartialEq)]
pub enum PromiseRef {
    Id(PromiseId),
    Key(Text),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Resolve(Payload),
    Reject(Text),
}

#[derive(Debug, Clone, PartialEq)]
pub struct AnswerPromise {
    pub promise: PromiseRef,
    pub answer: Answer,
}

/// What a worker decided in one activation: commands in order, then how it ended. All or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmitActivation {
    pub execution_id: ExecutionId,
    /// The claim's token; `None` from clients of the plain public protocol.
    pub token: Option<i64>,
    /// The last event the worker had seen.
    pub base_sequence: Option<i64>,
    pub commands: Vec<Command>,
    pub outcome: Outcome,
    /// Number that the client gives its first command, where it counts on from the history that it has read: such a batch
    /// cannot be sent twice and mean two things. `None`: it sent no command, or counts from 1 each time.
    pub first_number: Option<i64>,
    /// Signals that were delivered and that the workflow did not read, where the activation ends it.
    pub unread_signals: i64,
    /// Build of the worker, for activations that failed.
    pub build_id: Option<Text>,
    /// What the worker says of the clean-up. `None`: the activation has not seen a cancel request.
    pub clean_up: Option<CleanUp>,
}

/// How far a workflow has come with its clean-up after a cancel request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanUp {
    /// It waits for a task, timer or child of its clean-up, and not for the outside world.
    pub waits: bool,
    /// Time that the workflow's definition gives its clean-up. `None`: it says nothing.
    pub grace_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Hash)]
pub enum Command {
    RecordOperation { name: Text, result: Payload },
    SetState { name: Text, value: Payload },
    ClearState { name: Text },
    ScheduleTask { task_id: TaskId, spec: TaskSpec },
    CancelTask { task_id: TaskId },
    StartTimer { timer_id: Text, duration_ms: i64 },
    CancelTimer { timer_id: Text },
    CreatePromise { name: Text, timeout_ms: Option<i64>, key: Option<KeySpec> },
    ResolvePromise { promise_id: PromiseId, value: Payload },
    ScheduleChild(ScheduleChild),
    RequestCancelChild { child_id: ExecutionId, reason: Text },
}

#[derive(Debug, Clone, PartialEq, Hash)]
pub struct ScheduleChild {
    pub child_id: ExecutionId,
    pub name: Text,
    pub kind: Text,
    pub input: Payload,
    /// `None`: the parent's queue.
    pub queue: Option<Text>,
    pub priority_seconds: i64,
    pub workflow_version: Option<Text>,
    pub execution_timeout_ms: Option<i64>,
    /// As for a start.
    pub cancel_grace_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Hash)]
pub enum Outcome {
    Suspended,
    Completed {
        output: Payload,
    },
    Failed {
        error: Text,
        failure: Failure,
        stack_trace: Option<Text>,
    },
    Cancelled {
        reason: Text,
    },
    /// The activation itself failed (determinism error, panic, unknown kind): the workflow has not.
    ActivationFailed {
        code: Text,
        message: Text,
    },
}

impl SubmitActivation {
    pub(crate) fn rows(&self) -> usize {
        4 + self.commands.len() * 4
    }

    pub(crate) fn bytes(&self) -> usize {
        let commands: usize = self.commands.iter().map(Command::bytes).sum();
        match &self.outcome {
            Outcome::Completed { output } => commands + output.len(),
            Outcome::Failed { failure, .. } => commands + failure.bytes(),
            _ => commands,
        }
    }
}

impl Command {
    fn bytes(&self) -> usize {
        match self {
            Command::RecordOperation { result, .. } => result.len(),
            Command::SetState { value, .. } | Command::ResolvePromise { value, .. } => value.len(),
            Command::ScheduleTask { spec, .. } => spec.input.len(),
            Command::ScheduleChild(child) => child.input.len(),
            _ => 0,
        }
    }
}

/// An operator says: try the held-back execution now.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseHeldBack {
    pub execution_id: ExecutionId,
}

/// Starts an execution like a failed one.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryWorkflow {
    pub execution_id: ExecutionId,
    /// Of the new one: sent again with the same key, it is not retried twice, unless the new one has failed.
    pub key: Option<KeySpec>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeleteWorkflow {
    pub execution_id: ExecutionId,
}

/// A claim that could not be handed over. The attempt does not count.
#[derive(Debug, Clone, PartialEq)]
pub struct GiveBackWorkflow {
    pub execution_id: Uuid,
    pub token: i64,
}
