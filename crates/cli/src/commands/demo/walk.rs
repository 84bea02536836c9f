//! Follows one order from its start to its result and prints the events as they happen. Uses only the public REST
//! API.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;

use super::order::{Approval, PACKING_TIMER, Purchase, approval_key};
use super::screen::{Mark, Screen};
use super::workers::Workers;
use crate::client::answers::{Attempts, Execution, LogEvent, Started, Task};
use crate::client::{Client, path};
use crate::follow::{Follower, Seen, TaskSeen, Tasks};
use crate::view::timeline::Work;

/// How long the demo pauses, so that people can read, before it continues.
const LOOK: Duration = Duration::from_millis(700);

/// The data collected when the order is done.
pub(super) struct Story {
    pub(super) execution_id: String,
    pub(super) output: Option<Box<RawValue>>,
    pub(super) events: Vec<LogEvent>,
    /// Work by task id.
    pub(super) work: HashMap<String, Work>,
}

pub(super) struct Walk<'a> {
    pub(super) client: &'a Client,
    pub(super) screen: &'a Screen,
    pub(super) workers: &'a mut Workers,
    pub(super) purchase: Purchase,
}

impl Walk<'_> {
    /// Starts the order, prints its events, and approves it when it waits for approval.
    pub(super) async fn run(mut self) -> Result<Story, String> {
        let trigger = ["workflows", "order", "trigger"];
        self.screen.line(Mark::Demo, "POST", &path(&trigger));
        let started: Started = self.client.post(&trigger, &json!({ "input": self.purchase })).await?;
        let execution_id = started.workflow_execution_id;
        let mut follower = Follower::open(self.client, &execution_id, Tasks::State, 0, 0).await?;
        let mut events = Vec::new();
        let mut tasks = OpenTasks::default();
        while let Some(seen) = follower.next().await? {
            match seen {
                Seen::Task(_, TaskSeen::State(task)) => tasks.show(self.screen, &task.value),
                Seen::Task(..) => {}
                Seen::Event(event) => {
                    let event = event.value;
                    show(self.screen, &mut tasks, &event);
                    if event.event_type == "PROMISE_CREATED" {
                        self.approve(&execution_id).await?;
                    }
                    events.push(event);
                }
            }
        }
        self.finish(execution_id, events).await
    }

    /// Approves the order as a person would, after a pause. Meanwhile the worker crashes, to show that nothing is
    /// lost.
    async fn approve(&mut self, execution_id: &str) -> Result<(), String> {
        tokio::time::sleep(LOOK).await;
        self.workers.crash().map_err(|error| error.to_string())?;
        self.screen.line(Mark::Demo, "worker", "is killed; a new worker continues from the history");
        tokio::time::sleep(LOOK).await;
        let execution: Execution = self.client.get(&["workflow-executions", execution_id]).await?;
        let waits: Vec<String> = execution.waiting_on.iter().flatten().map(ToString::to_string).collect();
        let found = format!("is {}: {}", execution.status, waits.join(", "));
        self.screen.line(Mark::Waits, "order", &found);
        tokio::time::sleep(LOOK).await;
        let promise = format!("key:{}", approval_key(&self.purchase.id));
        let resolve = ["promises", promise.as_str(), "resolve"];
        self.screen.line(Mark::Demo, "POST", &path(&resolve));
        Ok(self.client.post(&resolve, &json!({ "value": Approval { by: "Grace".into() } })).await?)
    }

    async fn finish(&self, execution_id: String, events: Vec<LogEvent>) -> Result<Story, String> {
        let execution: Execution = self.client.get(&["workflow-executions", &execution_id]).await?;
        if execution.status != "COMPLETED" {
            let reason = execution.error.unwrap_or_default();
            return Err(format!("the order ended as {} instead of COMPLETED: {reason}", execution.status));
        }
        let mut work = HashMap::new();
        for event in events.iter().filter(|event| event.event_type == "TASK_SCHEDULED") {
            let id = event.text("taskExecutionId");
            let of_task: Attempts = self.client.get(&["tasks", &id, "attempts"]).await?;
            let attempts = of_task.attempts.into_iter().map(|attempt| attempt.value).collect();
            work.insert(id.into_owned(), Work { attempts, running_since_ms: None });
        }
        Ok(Story { execution_id, output: execution.output, events, work })
    }
}

/// The open tasks, with their types and the last attempt shown.
#[derive(Default)]
struct OpenTasks(HashMap<String, (String, i64)>);

impl OpenTasks {
    /// The streams of tasks run in parallel with the stream of the history, so events after a task's end are ignored.
    fn show(&mut self, screen: &Screen, task: &Task) {
        let Some((task_type, shown)) = self.0.get_mut(&task.id) else { return };
        let attempt = task.execution_count;
        match (task.status.as_str(), &task.error) {
            ("RUNNING", _) if *shown < attempt => {
                *shown = attempt;
                screen.line(Mark::Begins, task_type, &format!("attempt {attempt}"));
            }
            ("PENDING", Some(error)) => {
                screen.line(Mark::Failed, task_type, &format!("attempt {attempt} failed: {error}"));
            }
            _ => {}
        }
    }

    fn end(&mut self, event: &LogEvent) -> String {
        let ended = self.0.remove(&*event.text("taskExecutionId"));
        ended.map(|(task_type, _)| task_type).unwrap_or_default()
    }
}

fn show(screen: &Screen, tasks: &mut OpenTasks, event: &LogEvent) {
    let line = |mark, name: &str, what: &str| screen.line(mark, name, what);
    match event.event_type.as_str() {
        "WORKFLOW_STARTED" => line(Mark::Begins, &event.text("workflowKind"), "started"),
        "TASK_SCHEDULED" => {
            let opened = (event.text("taskType").into_owned(), 0);
            tasks.0.insert(event.text("taskExecutionId").into_owned(), opened);
        }
        "TASK_COMPLETED" => {
            let output = event.field("output").map_or("null", RawValue::get);
            line(Mark::Done, &tasks.end(event), &format!("done: {output}"));
        }
        "TASK_FAILED" => line(Mark::Failed, &tasks.end(event), &event.text("error")),
        "PROMISE_CREATED" => {
            line(Mark::Waits, &event.text("promiseName"), "a promise: the order waits for approval")
        }
        "PROMISE_RESOLVED" => {
            let by = event.read("value").map_or("somebody".to_owned(), |Approval { by }| by);
            line(Mark::Done, &event.text("promiseName"), &format!("approved by {by}"));
        }
        "TIMER_STARTED" => {
            let ms: i64 = event.read("durationMs").unwrap_or_default();
            line(Mark::Waits, &timer_name(&event.text("timerId")), &format!("a timer of {ms} ms"));
        }
        "TIMER_FIRED" => line(Mark::Done, &timer_name(&event.text("timerId")), "fired"),
        "WORKFLOW_COMPLETED" => line(Mark::Done, "order", "completed"),
        "WORKFLOW_EXECUTION_FAILED" => line(Mark::Failed, "order", &event.text("error")),
        other => line(Mark::Begins, "order", other),
    }
}

/// The display name of a timer. The history only numbers timers.
pub(super) fn timer_name(timer_id: &str) -> String {
    if timer_id == PACKING_TIMER { "packing".to_owned() } else { timer_id.to_owned() }
}
