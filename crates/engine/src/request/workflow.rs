//! Requests about workflow executions.

use uuid::Uuid;

use crate::failure::Failure;
use crate::ids::{ExecutionId, Payload, PromiseId, TaskId, Text};
use crate::request::TaskSpec;

/// An idempotency key: it makes a request take effect once while the key is remembered. For signal-with-start, it is
/// a workflow key: one open execution holds it, and it is remembered for some time after the end.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct KeySpec {
    pub name: Text,
    /// How long the key is remembered. `None`: one day.
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
    /// The time of a delayed start. `None`: the workflow starts now.
    pub scheduled_ms: Option<i64>,
    pub execution_timeout_ms: Option<i64>,
    /// Total time for clean-up after a cancel request. `None`: the time in the workflow's definition; if there is
    /// none, clean-up may run as long as it makes progress. 0: a cancel request ends the execution immediately.
    pub cancel_grace_ms: Option<i64>,
    pub traceparent: Option<Text>,
}

/// The parent, which is notified of the outcome, and the name by which the parent knows this execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Parent {
    pub id: ExecutionId,
    pub name: Text,
}

impl StartWorkflow {
    /// A start without any optional setting.
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

/// Starts all of these workflows, or none.
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

/// Starts the workflow unless an open execution holds its key. In both cases the execution receives the signal, and
/// holds the key until it has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalWithStart {
    /// The start; it must have a key.
    pub start: StartWorkflow,
    pub name: Text,
    pub value: Payload,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CancelWorkflow {
    pub execution_id: ExecutionId,
    pub reason: Text,
    /// Children are cancelled too, later and in pages.
    pub cascade: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TerminateWorkflow {
    pub execution_id: ExecutionId,
    pub reason: Text,
}

/// An action on the execution that a key names: the execution that took the key last, or the newest that was started
/// with it.
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

/// The result of one activation: commands in order, then the outcome. All of it is accepted, or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmitActivation {
    pub execution_id: ExecutionId,
    /// The claim's token; `None` from clients of the plain public protocol.
    pub token: Option<i64>,
    /// The last event the worker had seen.
    pub base_sequence: Option<i64>,
    pub commands: Vec<Command>,
    pub outcome: Outcome,
    /// The number of the client's first command, if the client continues numbering from the history that it has read.
    /// Two batches with the same number are then the same batch. `None`: there is no command, or the client numbers
    /// each batch from 1.
    pub first_number: Option<i64>,
    /// If the activation ends the workflow: the number of delivered signals that the workflow did not read.
    pub unread_signals: i64,
    /// The worker's build. It is used for activations that failed.
    pub build_id: Option<Text>,
    /// The state of the clean-up as the worker reports it. `None`: the activation has not seen a cancel request.
    pub clean_up: Option<CleanUp>,
}

/// The state of a workflow's clean-up after a cancel request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanUp {
    /// The clean-up waits for a task, timer or child that it started itself, and not for an event from outside.
    pub waits: bool,
    /// The clean-up time in the workflow's definition. `None`: the definition names none.
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
    /// As in [`StartWorkflow`].
    pub cancel_grace_ms: Option<i64>,
    /// An idempotency key. If other work holds it, the child fails with the code of the conflict.
    pub key: Option<KeySpec>,
    pub labels: Vec<(Text, Text)>,
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
    /// The activation failed (determinism error, panic, unknown kind). The workflow itself has not failed.
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

/// Ends the delay of a held-back execution, at an operator's request.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseHeldBack {
    pub execution_id: ExecutionId,
}

/// Retries a failed execution: starts a new one with the same parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryWorkflow {
    pub execution_id: ExecutionId,
    /// Key of the new execution: if the request is repeated with this key, no second retry starts, unless the first
    /// one has failed.
    pub key: Option<KeySpec>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeleteWorkflow {
    pub execution_id: ExecutionId,
}

/// Releases the claim of an execution that could not be delivered to its worker. The attempt does not count.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseWorkflowClaim {
    pub execution_id: Uuid,
    pub token: i64,
}
