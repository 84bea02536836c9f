//! Reports of which nothing can be carried out, and what is decided in their place.

use crate::code::Refusal;
use crate::ids::{ExecutionId, TaskId, Text};
use crate::request::{CompleteTask, Op};

/// An activation of which nothing could be read. If its sender holds the claim, the activation has failed. Always answered
/// with the refusal.
#[derive(Debug, Clone, PartialEq)]
pub struct RefuseActivation {
    pub execution_id: ExecutionId,
    /// The claim's token; `None` from clients of the plain public protocol.
    pub token: Option<i64>,
    /// Build of the worker. `None`: unknown.
    pub build_id: Option<Text>,
    pub refusal: Refusal,
}

/// A task's result of which nothing could be read. If its sender holds the claim, the task has failed. Always answered with
/// the refusal.
#[derive(Debug, Clone, PartialEq)]
pub struct RefuseTaskResult {
    pub task_id: TaskId,
    /// The claim's token; `None` from clients of the plain public protocol.
    pub token: Option<i64>,
    pub refusal: Refusal,
}

impl Op {
    /// What is decided in place of a report that is refused without a look at the state. `None`: nothing, and nobody but its
    /// sender has to know.
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
            // The step that came along is to blame. The task's success stands, and the workflow's next activation says why.
            Op::CompleteTask(op) if op.next.is_some() => CompleteTask { next: None, ..op.clone() }.into(),
            Op::CompleteTask(op) => RefuseTaskResult { task_id: op.task_id, token: op.token, refusal }.into(),
            Op::FailTask(op) => RefuseTaskResult { task_id: op.task_id, token: op.token, refusal }.into(),
            _ => return None,
        })
    }
}
