//! The workload: a workflow that runs one task, step by step as requests.

use bytes::Bytes;
use flovyn_engine::request::*;
use flovyn_engine::state::WorkClass;
use uuid::Uuid;

pub(crate) const TENANT: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
pub(crate) const KIND: &str = "one-task";
pub(crate) const TASK: &str = "charge-card";
pub(crate) const QUEUE: &str = "default";

pub(crate) fn payload() -> Bytes {
    Bytes::from_static(b"{\"orderId\":\"ORDER-12345\",\"amount\":4200}")
}

pub(crate) fn start() -> StartWorkflow {
    StartWorkflow::new(KIND, QUEUE, payload())
}

pub(crate) fn claim(class: WorkClass, max: usize, session: Uuid) -> Claim {
    let kind = if class == WorkClass::Task { TASK } else { KIND };
    Claim {
        class,
        claimer: Claimer {
            worker: "bench-worker".into(),
            session: Some(session),
            plain: false,
            cooperative: true,
            build: None,
        },
        queue: QUEUE.into(),
        kinds: vec![ClaimKind { kind: kind.into(), versions: Vec::new(), timeout_ms: None }],
        max,
        only: None,
        provisional: false,
        held_back: false,
    }
}

/// The result of the first activation: schedule the task and suspend.
pub(crate) fn schedule(execution_id: Uuid, token: i64, base: i64, task_id: Uuid) -> SubmitActivation {
    SubmitActivation {
        execution_id,
        token: Some(token),
        base_sequence: Some(base),
        commands: vec![Command::ScheduleTask { task_id, spec: TaskSpec::new(TASK, payload()) }],
        outcome: Outcome::Suspended,
        unread_signals: 0,
        first_number: None,
        build_id: None,
        clean_up: None,
    }
}

/// The result of the second activation: complete the workflow.
pub(crate) fn complete(execution_id: Uuid, token: i64, base: i64) -> SubmitActivation {
    SubmitActivation {
        execution_id,
        token: Some(token),
        base_sequence: Some(base),
        commands: Vec::new(),
        outcome: Outcome::Completed { output: payload() },
        unread_signals: 0,
        first_number: None,
        build_id: None,
        clean_up: None,
    }
}

pub(crate) fn finish_task(task_id: Uuid, token: i64) -> CompleteTask {
    CompleteTask { task_id, token: Some(token), output: payload(), next: None }
}

/// A task id like those of an SDK: unique, and close to the id of its execution in time order.
pub(crate) fn task_id(execution_id: Uuid) -> Uuid {
    let (high, low) = execution_id.as_u64_pair();
    Uuid::from_u64_pair(high, low ^ 0x1)
}

/// An id as the server would create it at that time.
pub(crate) fn ordered_id(created_ms: i64, number: u64) -> Uuid {
    Uuid::from_u64_pair((created_ms.unsigned_abs() << 16) | 0x7000, (0x8 << 60) | number)
}
