//! Describes what an execution or task waits for, for people and programs. The facts come from the engine.

use flovyn_engine::why::Waiting;
use serde::Serialize;
use utoipa::ToSchema;

/// One thing that an execution or task waits for. Empty fields are omitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingOn {
    /// The kind, such as `TASK`, `TIMER`, `PROMISE`, `CHILD`, `SIGNAL`, `NO_WORKER` or `QUEUE_PAUSED`.
    pub kind: &'static str,
    /// The id of the task, promise or child.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub name: String,
    /// A description for people.
    pub message: String,
    /// When the wait ends by itself, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

impl WaitingOn {
    fn new(kind: &'static str, message: String) -> Self {
        Self { kind, id: String::new(), name: String::new(), message, until_ms: None }
    }

    fn id(mut self, id: impl ToString) -> Self {
        self.id = id.to_string();
        self
    }

    fn name(mut self, name: impl ToString) -> Self {
        self.name = name.to_string();
        self
    }

    fn until(mut self, until_ms: i64) -> Self {
        self.until_ms = Some(until_ms);
        self
    }
}

pub fn describe(waiting: &Waiting) -> WaitingOn {
    match waiting {
        Waiting::Running { worker, .. } => {
            let worker = worker.as_deref().unwrap_or("a worker");
            WaitingOn::new("RUNNING", format!("{worker} is running it")).name(worker)
        }
        Waiting::FreeWorker { queue, workers } => {
            WaitingOn::new("FREE_WORKER", format!("ready; {workers} worker(s) serve queue {queue}"))
                .name(queue)
        }
        Waiting::NoWorker { queue, kind, version } => {
            let version = version.as_ref().map(|version| format!(" version {version}")).unwrap_or_default();
            let message = format!("no live worker has {kind}{version} in queue {queue}: start one");
            WaitingOn::new("NO_WORKER", message).name(kind)
        }
        Waiting::NoStreamWorker { queue, kind } => {
            let message = format!(
                "its history is large: start a worker that uses the stream for {kind} in queue {queue}"
            );
            WaitingOn::new("NO_STREAM_WORKER", message).name(kind)
        }
        Waiting::QueuePaused { queue } => {
            WaitingOn::new("QUEUE_PAUSED", format!("queue {queue} is paused: resume it")).name(queue)
        }
        Waiting::DelayedStart { until_ms } => {
            WaitingOn::new("DELAYED_START", "its start is delayed".into()).until(*until_ms)
        }
        Waiting::CleanUp { until_ms, left_ms } => {
            let limit = match (until_ms, left_ms) {
                (Some(_), _) => String::new(),
                (None, Some(left_ms)) => {
                    format!("; the limit of {left_ms} ms does not run while it waits for a worker or runs")
                }
                (None, None) => ", with no time limit while it waits for its own work".into(),
            };
            let found = WaitingOn::new("CLEAN_UP", format!("cleaning up after a cancel request{limit}"));
            WaitingOn { until_ms: *until_ms, ..found }
        }
        Waiting::ActivationBackoff { code, message, failures, builds, refusals, until_ms } => {
            let builds = match builds.as_slice() {
                [] => String::new(),
                builds => format!(" (build {})", builds.join(", ")),
            };
            let message = match refusals {
                Some((count, limit)) => {
                    format!("refused {count} of {limit} times before it fails, with {code}: {message}")
                }
                None => format!("{failures} activation(s) failed{builds}, the last with {code}: {message}"),
            };
            WaitingOn::new("ACTIVATION_BACKOFF", message).name(code).until(*until_ms)
        }
        Waiting::RetryDelay { attempt, error, until_ms } => {
            let error = error.as_deref().unwrap_or("no error was given");
            WaitingOn::new("RETRY_DELAY", format!("attempt {attempt} failed: {error}")).until(*until_ms)
        }
        Waiting::Announcement { execution_id } => {
            let message = "its workflow has not scheduled it yet".into();
            WaitingOn::new("ANNOUNCEMENT", message).id(execution_id)
        }
        Waiting::Task { id, task_type, status } => {
            WaitingOn::new("TASK", format!("task {task_type} is {status}")).id(id).name(task_type)
        }
        Waiting::Timer { name, fire_ms } => {
            WaitingOn::new("TIMER", format!("timer {name} has not fired")).name(name).until(*fire_ms)
        }
        Waiting::Promise { id, name, deadline_ms } => {
            let found = WaitingOn::new("PROMISE", format!("promise {name} is open")).id(id).name(name);
            WaitingOn { until_ms: *deadline_ms, ..found }
        }
        Waiting::Child { id, name, status } => {
            WaitingOn::new("CHILD", format!("child {name} is {status}")).id(id).name(name)
        }
        Waiting::Signal => {
            let message = "waiting for a signal: no task, timer, promise or child is open".into();
            WaitingOn::new("SIGNAL", message)
        }
        Waiting::Nothing => WaitingOn::new("NOTHING", "it has finished".into()),
    }
}
