//! Reports that cannot be carried out at all, and the requests that are decided in their place.

use crate::code::Refusal;
use crate::ids::{ExecutionId, TaskId, Text};
use crate::request::{CompleteTask, Op};

/// Replaces an activation that cannot be read. If the sender holds the claim, the activation has failed. The reply is
/// always the refusal.
#[derive(Debug, Clone, PartialEq)]
pub struct RefuseActivation {
    pub execution_id: ExecutionId,
    /// The claim's token; `None` from clients of the plain public protocol.
    pub token: Option<i64>,
    /// Build of the worker. `None`: unknown.
    pub build_id: Option<Text>,
    pub refusal: Refusal,
}

/// Replaces a task's result that cannot be read. If the sender holds the claim, the task has failed. The reply is
/// always the refusal.
#[derive(Debug, Clone, PartialEq)]
pub struct RefuseTaskResult {
    pub task_id: TaskId,
    /// The claim's token; `None` from clients of the plain public protocol.
    pub token: Option<i64>,
    pub refusal: Refusal,
}

impl Op {
    /// The request that is decided in place of a report that is malformed whatever the state. `None`: no replacement
    /// is needed, because only the sender has to learn of the refusal.
    pub fn instead(&self, refusal: &Refusal) -> Option<Op> {
        if !refusal.code.cure().ends_claim() {
            return None;
        }
        let refusal = refusal.clone();
        Some(match self {
            Op::SubmitActivation(op) => RefuseActivation {
                execution_id: op.execution_id,
                token: op.token,
                build_id: op.build_id.clone(),
                refusal,
            }
            .into(),
            // Only the workflow step that came along is malformed. The task's success stands, and the workflow's next
            // activation reports the error.
            Op::CompleteTask(op) if op.next.is_some() => CompleteTask { next: None, ..op.clone() }.into(),
            Op::CompleteTask(op) => RefuseTaskResult { task_id: op.task_id, token: op.token, refusal }.into(),
            Op::FailTask(op) => RefuseTaskResult { task_id: op.task_id, token: op.token, refusal }.into(),
            _ => return None,
        })
    }
}
