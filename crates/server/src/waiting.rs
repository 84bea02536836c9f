//! Describes what an execution or task waits for, for people and programs. The facts come from the engine.

use flovyn_engine::why::Waiting;
use flovyn_rest_types::WaitingOn;

pub fn describe(waiting: &Waiting) -> WaitingOn {
    reason(waiting).0
}

/// A reason under construction.
struct Reason(WaitingOn);

impl Reason {
    fn new(kind: &str, message: String) -> Self {
        Self(WaitingOn { kind: kind.to_owned(), message, ..WaitingOn::default() })
    }

    fn id(self, id: impl ToString) -> Self {
        Self(WaitingOn { id: id.to_string(), ..self.0 })
    }

    fn name(self, name: impl ToString) -> Self {
        Self(WaitingOn { name: name.to_string(), ..self.0 })
    }

    /// When the wait ends by itself. `None`: it does not.
    fn until(self, until_ms: impl Into<Option<i64>>) -> Self {
        Self(WaitingOn { until_ms: until_ms.into(), ..self.0 })
    }
}

fn reason(waiting: &Waiting) -> Reason {
    match waiting {
        Waiting::Running { worker, .. } => {
            let worker = worker.as_deref().unwrap_or("a worker");
            Reason::new("RUNNING", format!("{worker} is running it")).name(worker)
        }
        Waiting::FreeWorker { queue, workers } => {
            Reason::new("FREE_WORKER", format!("ready; {workers} worker(s) serve queue {queue}")).name(queue)
        }
        Waiting::NoWorker { queue, kind, version } => {
            let version = version.as_ref().map(|version| format!(" version {version}")).unwrap_or_default();
            let message = format!("no live worker has {kind}{version} in queue {queue}: start one");
            Reason::new("NO_WORKER", message).name(kind)
        }
        Waiting::NoStreamWorker { queue, kind } => {
            let message = format!(
                "its history is large: start a worker that uses the stream for {kind} in queue {queue}"
            );
            Reason::new("NO_STREAM_WORKER", message).name(kind)
        }
        Waiting::QueuePaused { queue } => {
            Reason::new("QUEUE_PAUSED", format!("queue {queue} is paused: resume it")).name(queue)
        }
        Waiting::DelayedStart { until_ms } => {
            Reason::new("DELAYED_START", "its start is delayed".into()).until(*until_ms)
        }
        Waiting::CleanUp { until_ms, left_ms } => {
            let limit = match (until_ms, left_ms) {
                (Some(_), _) => String::new(),
                (None, Some(left_ms)) => {
                    format!("; the limit of {left_ms} ms does not run while it waits for a worker or runs")
                }
                (None, None) => ", with no time limit while it waits for its own work".into(),
            };
            Reason::new("CLEAN_UP", format!("cleaning up after a cancel request{limit}")).until(*until_ms)
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
            Reason::new("ACTIVATION_BACKOFF", message).name(code).until(*until_ms)
        }
        Waiting::RetryDelay { attempt, error, until_ms } => {
            let error = error.as_deref().unwrap_or("no error was given");
            Reason::new("RETRY_DELAY", format!("attempt {attempt} failed: {error}")).until(*until_ms)
        }
        Waiting::Announcement { execution_id } => {
            let message = "its workflow has not scheduled it yet".into();
            Reason::new("ANNOUNCEMENT", message).id(execution_id)
        }
        Waiting::Task { id, task_type, status } => {
            Reason::new("TASK", format!("task {task_type} is {status}")).id(id).name(task_type)
        }
        Waiting::Timer { name, fire_ms } => {
            Reason::new("TIMER", format!("timer {name} has not fired")).name(name).until(*fire_ms)
        }
        Waiting::Promise { id, name, deadline_ms } => {
            let found = Reason::new("PROMISE", format!("promise {name} is open")).id(id).name(name);
            found.until(*deadline_ms)
        }
        Waiting::Child { id, name, status } => {
            Reason::new("CHILD", format!("child {name} is {status}")).id(id).name(name)
        }
        Waiting::Signal => {
            let message = "waiting for a signal: no task, timer, promise or child is open".into();
            Reason::new("SIGNAL", message)
        }
        Waiting::Nothing => Reason::new("NOTHING", "it has finished".into()),
    }
}
