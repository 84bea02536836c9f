//! Why an execution or task is not running: a structured answer.

use crate::ids::{ExecutionId, Now, PromiseId, TaskId, Text};
use crate::lifecycle::{clean_up, held_back};
use crate::limits::Limits;
use crate::state::*;

/// One thing that an execution or task is waiting for.
#[derive(Debug, Clone, PartialEq)]
pub enum Waiting {
    /// Not waiting: a worker is running it.
    Running {
        worker: Option<Text>,
        since_ms: Option<i64>,
    },
    /// Ready: the next free worker takes it.
    FreeWorker {
        queue: Text,
        workers: usize,
    },
    /// No live worker serves this kind (or this version of it) in this queue.
    NoWorker {
        queue: Text,
        kind: Text,
        version: Option<Text>,
    },
    /// The history is too large for the live workers: it needs a worker on the worker stream.
    NoStreamWorker {
        queue: Text,
        kind: Text,
    },
    QueuePaused {
        queue: Text,
    },
    DelayedStart {
        until_ms: i64,
    },
    /// Cleaning up after a cancel request. `until_ms`: when it is force-stopped. `None`: the time does not run now.
    /// `left_ms`: the time that is left once it runs. `None`: it runs, or the clean-up waits for its own work, which
    /// has no limit.
    CleanUp {
        until_ms: Option<i64>,
        left_ms: Option<i64>,
    },
    /// The activation failed, and a retry is scheduled. `builds`: the builds that have failed on it, as far as known.
    /// Any other build takes it without waiting.
    ActivationBackoff {
        code: Text,
        message: Text,
        failures: i64,
        builds: Vec<Text>,
        /// How often in a row the server refused it with this code, and after how many refusals the execution fails.
        /// `None`: the server did not refuse it.
        refusals: Option<(i64, i64)>,
        until_ms: i64,
    },
    /// The attempt failed, and a retry is scheduled.
    RetryDelay {
        attempt: i64,
        error: Option<Text>,
        until_ms: i64,
    },
    /// The task was created ahead of its ScheduleTask command, which has not arrived yet.
    Announcement {
        execution_id: ExecutionId,
    },
    Task {
        id: TaskId,
        task_type: Text,
        status: TaskStatus,
    },
    Timer {
        name: Text,
        fire_ms: i64,
    },
    Promise {
        id: PromiseId,
        name: Text,
        deadline_ms: Option<i64>,
    },
    Child {
        id: ExecutionId,
        name: Text,
        status: ExecutionStatus,
    },
    /// Nothing else is open: the execution waits for a signal or a cancel request.
    Signal,
    /// Not waiting: it has finished.
    Nothing,
}

/// The facts about queue and workers that the answer needs.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    pub queue_paused: bool,
    pub workers: &'a [(Worker, Vec<WorkerCapability>)],
    pub now: Now,
    pub limits: &'a Limits,
}

/// The open items of an execution.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenItems<'a> {
    pub tasks: &'a [Task],
    pub timers: &'a [Timer],
    pub promises: &'a [Promise],
    pub children: &'a [Execution],
}

/// What an execution waits for. Never empty.
pub fn execution(row: &Execution, open: OpenItems<'_>, around: Surroundings<'_>) -> Vec<Waiting> {
    let mut reasons = reasons(row, open, around);
    if row.cancel_requested_ms.is_some() && !row.status.is_terminal() {
        let left_ms = row.clean_up_left_ms.filter(|_| !clean_up::is_unlimited(row));
        reasons.insert(0, Waiting::CleanUp { until_ms: row.clean_up_until_ms, left_ms });
    }
    reasons
}

fn reasons(row: &Execution, open: OpenItems<'_>, around: Surroundings<'_>) -> Vec<Waiting> {
    match row.status {
        status if status.is_terminal() => vec![Waiting::Nothing],
        ExecutionStatus::Running => {
            vec![Waiting::Running { worker: row.worker.clone(), since_ms: row.started_ms }]
        }
        ExecutionStatus::Pending => vec![match (row.not_before_ms, &row.failure_code) {
            (Some(until_ms), Some(code)) => Waiting::ActivationBackoff {
                code: code.clone(),
                message: row.failure_message.clone().unwrap_or_default(),
                failures: row.activation_failures,
                builds: row.failure_build.as_ref().map(held_back::builds).unwrap_or_default(),
                refusals: (row.equal_refusals > 0)
                    .then(|| (row.equal_refusals, crate::rules::refusals_limit(around.limits))),
                until_ms,
            },
            (Some(until_ms), None) => Waiting::DelayedStart { until_ms },
            (None, _) => {
                let version = row.workflow_version.as_ref();
                in_line(around, WorkClass::Workflow, &row.queue, &row.kind, version, row.large)
            }
        }],
        _ => waiting(open),
    }
}

fn waiting(open: OpenItems<'_>) -> Vec<Waiting> {
    let tasks = open.tasks.iter().filter(|row| !row.status.is_terminal()).map(|row| Waiting::Task {
        id: row.id,
        task_type: row.task_type.clone(),
        status: row.status,
    });
    let timers = open
        .timers
        .iter()
        .filter(|row| row.status == TimerStatus::Open)
        .map(|row| Waiting::Timer { name: row.name.clone(), fire_ms: row.fire_ms });
    let promises = open
        .promises
        .iter()
        .filter(|row| row.status == PromiseStatus::Open)
        .map(|row| Waiting::Promise { id: row.id, name: row.name.clone(), deadline_ms: row.deadline_ms });
    let children = open.children.iter().filter(|row| !row.status.is_terminal()).map(|row| Waiting::Child {
        id: row.id,
        name: row.parent_name.clone().unwrap_or_default(),
        status: row.status,
    });
    let all: Vec<Waiting> = tasks.chain(timers).chain(promises).chain(children).collect();
    if all.is_empty() { vec![Waiting::Signal] } else { all }
}

/// What a task waits for.
pub fn task(row: &Task, around: Surroundings<'_>) -> Waiting {
    match (row.status, row.not_before_ms) {
        (TaskStatus::Running, _) => Waiting::Running { worker: row.worker.clone(), since_ms: row.started_ms },
        (TaskStatus::Pending, Some(until_ms)) if row.execution_count > row.retry_base => {
            Waiting::RetryDelay { attempt: row.execution_count, error: row.error.clone(), until_ms }
        }
        (TaskStatus::Pending, Some(until_ms)) => Waiting::DelayedStart { until_ms },
        (TaskStatus::Pending, None) => match row.execution_id.filter(|_| !row.announced) {
            Some(execution_id) => Waiting::Announcement { execution_id },
            None => in_line(around, WorkClass::Task, &row.queue, &row.task_type, None, false),
        },
        _ => Waiting::Nothing,
    }
}

fn in_line(
    around: Surroundings<'_>,
    class: WorkClass,
    queue: &Text,
    kind: &Text,
    version: Option<&Text>,
    stream_only: bool,
) -> Waiting {
    if around.queue_paused {
        return Waiting::QueuePaused { queue: queue.clone() };
    }
    let serves = |capability: &WorkerCapability| {
        capability.class == class
            && capability.kind == *kind
            && version.is_none_or(|version| capability.kind_version == *version)
    };
    let live = |worker: &Worker| {
        let until_ms = worker
            .lease_until_ms
            .unwrap_or(worker.last_heartbeat_ms.saturating_add(around.limits.worker_silence_ms));
        let fits = !stream_only || worker.lease_until_ms.is_some();
        fits && until_ms > around.now.lease_ms && worker.queue.as_ref().is_none_or(|served| served == queue)
    };
    let workers =
        around.workers.iter().filter(|(worker, can)| live(worker) && can.iter().any(serves)).count();
    if workers == 0 && stream_only {
        Waiting::NoStreamWorker { queue: queue.clone(), kind: kind.clone() }
    } else if workers == 0 {
        Waiting::NoWorker { queue: queue.clone(), kind: kind.clone(), version: version.cloned() }
    } else {
        Waiting::FreeWorker { queue: queue.clone(), workers }
    }
}
