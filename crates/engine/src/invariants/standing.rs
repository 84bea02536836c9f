//! Whether a row of the search tables agrees with its subject.

use crate::state::*;

/// The possible subjects of a due row: the rows that its class and id name.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct About<'a> {
    pub(crate) execution: Option<&'a Execution>,
    pub(crate) task: Option<&'a Task>,
    pub(crate) timer: Option<&'a Timer>,
    pub(crate) promise: Option<&'a Promise>,
}

pub(crate) fn ready(ready: &Ready, execution: Option<&Execution>, task: Option<&Task>) -> bool {
    match ready.lane.class {
        WorkClass::Task => task.is_some_and(|row| row.is_in_ready() && row.ready() == *ready),
        _ => execution.is_some_and(|row| row.is_in_ready() && row.ready() == *ready),
    }
}

pub(crate) fn due(due: &Due, about: &About<'_>) -> bool {
    let at = Some(due.due_ms);
    match due.class {
        DueClass::Timer => {
            about.timer.is_some_and(|row| row.status == TimerStatus::Open && Some(row.fire_ms) == at)
        }
        DueClass::PromiseTimeout => {
            about.promise.is_some_and(|row| row.status == PromiseStatus::Open && row.deadline_ms == at)
        }
        DueClass::ExecutionAlarm => about.execution.is_some_and(|row| row.alarm_ms == at),
        DueClass::ExecutionLease => about.execution.is_some_and(|row| row.lease_alarm_ms == at),
        DueClass::TaskAlarm => about.task.is_some_and(|row| row.alarm_ms == at),
        DueClass::TaskLease => about.task.is_some_and(|row| row.lease_alarm_ms == at),
        // A follow-up may outlive its subject. It then does nothing.
        DueClass::CancelExecution
        | DueClass::CancelChildren
        | DueClass::CloseItems
        | DueClass::PurgeExecution
        | DueClass::PurgeTask => true,
    }
}
