//! Builders of requests for tests: each takes the values that matter, and all others have defaults.

use bytes::Bytes;
use flovyn_engine::ids::{Payload, TaskId};
use flovyn_engine::reply::{Activation, TaskDelivery};
use flovyn_engine::request::*;
use flovyn_engine::state::WorkClass;
use uuid::Uuid;

use super::QUEUE;

pub(crate) fn json(text: &str) -> Payload {
    Bytes::copy_from_slice(text.as_bytes())
}

/// An id in the form that clients create.
pub(crate) fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + number)
}

pub(crate) fn workflow(kind: &str) -> StartWorkflow {
    StartWorkflow::new(kind, QUEUE, json("1"))
}

pub(crate) fn keyed(kind: &str, key: &str) -> StartWorkflow {
    StartWorkflow { key: key_spec(key), ..workflow(kind) }
}

pub(crate) fn key_spec(name: &str) -> Option<KeySpec> {
    Some(KeySpec { name: name.into(), ttl_ms: Some(10_000) })
}

pub(crate) fn task(task_type: &str) -> TaskSpec {
    TaskSpec { queue: Some(QUEUE.into()), ..TaskSpec::new(task_type, json("1")) }
}

pub(crate) fn kind(kind: &str) -> ClaimKind {
    ClaimKind { kind: kind.into(), versions: Vec::new(), timeout_ms: None }
}

fn claim(class: WorkClass, name: &str) -> Claim {
    let claimer =
        Claimer { worker: "stream".into(), session: None, plain: false, cooperative: true, build: None };
    Claim {
        class,
        claimer,
        queue: QUEUE.into(),
        kinds: vec![kind(name)],
        max: 1,
        only: None,
        provisional: false,
        held_back: false,
    }
}

/// A claim of one workflow by a worker on the stream.
pub(crate) fn workflows(kind: &str) -> Claim {
    claim(WorkClass::Workflow, kind)
}

/// A claim of one task by a worker on the stream.
pub(crate) fn tasks(task_type: &str) -> Claim {
    claim(WorkClass::Task, task_type)
}

/// The same claim by a client of the plain public protocol, which does not receive cancel requests.
pub(crate) fn plain(claim: Claim) -> Claim {
    let claimer = Claimer { worker: "plain".into(), plain: true, cooperative: false, ..claim.claimer };
    Claim { claimer, ..claim }
}

/// The same claim by a registered session.
pub(crate) fn of_session(claim: Claim, session: Uuid) -> Claim {
    Claim { claimer: Claimer { session: Some(session), ..claim.claimer.clone() }, ..claim }
}

pub(crate) fn many(claim: Claim, max: usize) -> Claim {
    Claim { max, ..claim }
}

/// The worker's answer to an activation. It has a token and a base sequence, unless the client is plain.
pub(crate) fn submit(activation: &Activation, commands: Vec<Command>, outcome: Outcome) -> SubmitActivation {
    let execution = &activation.execution;
    SubmitActivation {
        execution_id: execution.id,
        token: (!execution.plain).then_some(activation.token),
        base_sequence: (!execution.plain).then_some(execution.last_sequence),
        commands,
        outcome,
        unread_signals: 0,
        first_number: None,
        build_id: Some("build-1".into()),
        clean_up: None,
    }
}

pub(crate) fn suspend(activation: &Activation) -> SubmitActivation {
    submit(activation, Vec::new(), Outcome::Suspended)
}

pub(crate) fn finish(activation: &Activation) -> SubmitActivation {
    submit(activation, Vec::new(), Outcome::Completed { output: json("1") })
}

pub(crate) fn complete(delivery: &TaskDelivery) -> CompleteTask {
    let token = (!delivery.task.plain).then_some(delivery.token);
    CompleteTask { task_id: delivery.task.id, token, output: json("1"), next: None }
}

pub(crate) fn fail(delivery: &TaskDelivery) -> FailTask {
    FailTask {
        task_id: delivery.task.id,
        token: (!delivery.task.plain).then_some(delivery.token),
        error: "no luck".into(),
        failure: Failure::default(),
        non_retryable: false,
        next_delay_ms: None,
    }
}

pub(crate) fn schedule_task(task_id: TaskId, task_type: &str) -> Command {
    Command::ScheduleTask { task_id, spec: TaskSpec::new(task_type, json("1")) }
}

pub(crate) fn start_timer(name: &str, duration_ms: i64) -> Command {
    Command::StartTimer { timer_id: name.into(), duration_ms }
}

pub(crate) fn create_promise(name: &str) -> Command {
    Command::CreatePromise { name: name.into(), timeout_ms: None, key: None }
}

pub(crate) fn child(child_id: Uuid, kind: &str) -> ScheduleChild {
    ScheduleChild {
        child_id,
        name: "child".into(),
        kind: kind.into(),
        input: json("1"),
        queue: None,
        priority_seconds: 0,
        workflow_version: None,
        execution_timeout_ms: None,
        cancel_grace_ms: None,
        key: None,
        labels: Vec::new(),
    }
}

pub(crate) fn cancel(execution_id: Uuid) -> CancelWorkflow {
    CancelWorkflow { execution_id, reason: "not needed".into(), cascade: true }
}

pub(crate) fn terminate(execution_id: Uuid) -> TerminateWorkflow {
    TerminateWorkflow { execution_id, reason: "stop".into() }
}

pub(crate) fn signal(execution_id: Uuid) -> SignalWorkflow {
    SignalWorkflow { execution_id, name: "go".into(), value: json("1") }
}

pub(crate) fn capability(class: WorkClass, kind: &str, version: Option<&str>) -> Capability {
    Capability {
        class,
        kind: kind.into(),
        version: version.map(Into::into),
        timeout_ms: None,
        input_schema: None,
        output_schema: None,
    }
}

pub(crate) fn register(name: &str, session: bool, capabilities: Vec<Capability>) -> RegisterWorker {
    RegisterWorker {
        id: None,
        name: name.into(),
        build_id: "build-1".into(),
        host: "localhost".into(),
        process_id: "1".into(),
        queue: Some(QUEUE.into()),
        capabilities,
        session,
    }
}
