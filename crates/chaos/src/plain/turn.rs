//! One activation: the program runs from the beginning over the list of events, and requests what the list lacks.

use bytes::Bytes;
use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::client::Client;
use super::{Dialect, workflows};

/// Claims an activation's history, computes its commands and reports them.
pub(super) async fn run(client: &Client, dialect: Dialect, execution: &v1::WorkflowExecution) {
    let Some(events) = client.history(&execution.id).await else { return };
    let input = parsed(&execution.input);
    let mut turn = Turn::new(execution.id.parse().unwrap_or_default(), execution.created_at_ms, events);
    let outcome = workflows::run(&mut turn, &execution.kind, &input);
    let first = if dialect.continues_numbers() { turn.last_sequence + 1 } else { 1 };
    let (end, status) = match outcome {
        Ok(None) => {
            let suspend = || CommandData::SuspendWorkflow(v1::SuspendWorkflowCommand::default());
            (dialect.says_suspend().then(suspend), v1::WorkflowStatus::Suspended)
        }
        Ok(Some(value)) => {
            let complete = v1::CompleteWorkflowCommand { output: Bytes::from(value.to_string()) };
            (Some(CommandData::CompleteWorkflow(complete)), v1::WorkflowStatus::Completed)
        }
        Err(error) => {
            let fail = v1::FailWorkflowCommand { error, ..v1::FailWorkflowCommand::default() };
            (Some(CommandData::FailWorkflow(fail)), v1::WorkflowStatus::Failed)
        }
    };
    let commands = turn.commands.into_iter().chain(end).zip(first..);
    let commands = commands.map(|(data, sequence_number)| v1::WorkflowCommand {
        sequence_number,
        command_data: Some(data),
        ..v1::WorkflowCommand::default()
    });
    let request = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: execution.id.clone(),
        commands: commands.collect(),
        status: status.into(),
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    client.submit(request).await;
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

struct Event {
    kind: String,
    data: Value,
}

impl Event {
    fn text(&self, key: &str) -> &str {
        self.data[key].as_str().unwrap_or_default()
    }
}

/// A run of a program over a history. Each request is matched with the history by its kind and its number within the
/// kind. `Ok(None)`: the result is not in the history yet.
pub(super) struct Turn {
    execution_id: Uuid,
    created_ms: i64,
    events: Vec<Event>,
    last_sequence: i32,
    tasks: usize,
    timers: usize,
    promises: usize,
    children: usize,
    pub(super) commands: Vec<CommandData>,
}

impl Turn {
    pub(super) fn new(execution_id: Uuid, created_ms: i64, events: Vec<v1::WorkflowEvent>) -> Self {
        let last_sequence = events.last().map_or(0, |event| event.sequence_number);
        let read =
            |event: v1::WorkflowEvent| Event { data: parsed(&event.event_data), kind: event.event_type };
        Self {
            execution_id,
            created_ms,
            events: events.into_iter().map(read).collect(),
            last_sequence,
            tasks: 0,
            timers: 0,
            promises: 0,
            children: 0,
            commands: Vec::new(),
        }
    }

    fn nth(&self, kind: &str, number: usize) -> Option<&Event> {
        self.events.iter().filter(|event| event.kind == kind).nth(number)
    }

    fn first(&self, kind: &str, key: &str, value: &str) -> Option<&Event> {
        self.events.iter().find(|event| event.kind == kind && event.text(key) == value)
    }

    /// Ids like those of the SDK, whose workers run the same executions and find tasks and children by their ids.
    fn id(&self, purpose: &str, number: usize) -> String {
        let mut hash = Sha256::new();
        hash.update(self.execution_id.as_bytes());
        hash.update(purpose.as_bytes());
        hash.update([0]);
        hash.update((number as u64).to_be_bytes());
        let digest = hash.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes[..6].copy_from_slice(&self.created_ms.to_be_bytes()[2..]);
        bytes[6] = 0x70 | (bytes[6] & 0x0F);
        bytes[8] = 0x80 | (bytes[8] & 0x3F);
        Uuid::from_bytes(bytes).to_string()
    }

    /// A task's output.
    pub(super) fn task(&mut self, task: v1::ScheduleTaskCommand) -> Result<Option<Value>, String> {
        let number = self.tasks;
        self.tasks += 1;
        let Some(scheduled) = self.nth("TASK_SCHEDULED", number) else {
            let task_execution_id = self.id("task", number);
            self.commands
                .push(CommandData::ScheduleTask(v1::ScheduleTaskCommand { task_execution_id, ..task }));
            return Ok(None);
        };
        let id = scheduled.text("taskExecutionId");
        if let Some(failed) = self.first("TASK_FAILED", "taskExecutionId", id) {
            return Err(format!("task {id} failed: {}", failed.text("error")));
        }
        let completed = self.first("TASK_COMPLETED", "taskExecutionId", id);
        Ok(completed.map(|event| event.data["output"].clone()))
    }

    pub(super) fn timer(&mut self, duration_ms: i64) -> Option<()> {
        let number = self.timers;
        self.timers += 1;
        let Some(started) = self.nth("TIMER_STARTED", number) else {
            let timer_id = format!("timer-{}", number + 1);
            self.commands.push(CommandData::StartTimer(v1::StartTimerCommand { timer_id, duration_ms }));
            return None;
        };
        self.first("TIMER_FIRED", "timerId", started.text("timerId")).map(|_| ())
    }

    /// The value of the first signal of this name.
    pub(super) fn signal(&self, name: &str) -> Option<Value> {
        self.first("SIGNAL_RECEIVED", "signalName", name).map(|event| event.data["signalValue"].clone())
    }

    pub(super) fn promise(&mut self, promise: v1::CreatePromiseCommand) -> Result<Option<Value>, String> {
        let number = self.promises;
        self.promises += 1;
        let Some(created) = self.nth("PROMISE_CREATED", number) else {
            self.commands.push(CommandData::CreatePromise(promise));
            return Ok(None);
        };
        let id = created.text("promiseId");
        if self.first("PROMISE_REJECTED", "promiseId", id).is_some() {
            return Err(format!("promise {id} was rejected"));
        }
        Ok(self.first("PROMISE_RESOLVED", "promiseId", id).map(|event| event.data["value"].clone()))
    }

    /// A child's output.
    pub(super) fn child(&mut self, name: &str, kind: &str, input: &Value) -> Result<Option<Value>, String> {
        let number = self.children;
        self.children += 1;
        let Some(initiated) = self.nth("CHILD_WORKFLOW_INITIATED", number) else {
            self.commands.push(CommandData::ScheduleChildWorkflow(v1::ScheduleChildWorkflowCommand {
                child_execution_name: name.to_owned(),
                workflow_kind: Some(kind.to_owned()),
                child_workflow_execution_id: self.id("child", number),
                input: Bytes::from(input.to_string()),
                ..v1::ScheduleChildWorkflowCommand::default()
            }));
            return Ok(None);
        };
        let id = initiated.text("childExecutionId");
        if let Some(failed) = self.first("CHILD_WORKFLOW_FAILED", "childExecutionId", id) {
            return Err(format!("child {id} failed: {}", failed.text("error")));
        }
        let completed = self.first("CHILD_WORKFLOW_COMPLETED", "childExecutionId", id);
        Ok(completed.map(|event| event.data["output"].clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(sequence_number: i32, kind: &str, data: Value) -> v1::WorkflowEvent {
        v1::WorkflowEvent {
            sequence_number,
            event_type: kind.to_owned(),
            event_data: Bytes::from(data.to_string()),
            ..v1::WorkflowEvent::default()
        }
    }

    /// Runs an activation. Returns its outcome and its commands.
    fn activate(
        kind: &str,
        events: &[v1::WorkflowEvent],
    ) -> (Result<Option<Value>, String>, Vec<CommandData>) {
        let mut turn = Turn::new(Uuid::from_u128(7), 1_700_000_000_000, events.to_vec());
        let input = json!({ "number": 10, "work_ms": 5 });
        let outcome = workflows::run(&mut turn, kind, &input);
        (outcome, turn.commands)
    }

    fn scheduled(commands: &[CommandData]) -> Vec<(String, Value)> {
        let tasks = commands.iter().filter_map(|command| match command {
            CommandData::ScheduleTask(task) => Some((task.task_execution_id.clone(), parsed(&task.input))),
            _ => None,
        });
        tasks.collect()
    }

    #[test]
    fn a_chain_asks_for_one_task_after_the_other() {
        let mut events = vec![event(1, "WORKFLOW_STARTED", json!({}))];
        for step in 0..3 {
            let (outcome, commands) = activate("chain", &events);
            let tasks = scheduled(&commands);
            assert_eq!((outcome, tasks.len()), (Ok(None), 1), "step {step}");
            let (id, input) = &tasks[0];
            assert_eq!(input["number"], 10 + step);
            events.push(event(0, "TASK_SCHEDULED", json!({ "taskExecutionId": id })));
            assert!(activate("chain", &events).1.is_empty(), "the task is on its way");
            let output = json!({ "number": 11 + step });
            events.push(event(0, "TASK_COMPLETED", json!({ "taskExecutionId": id, "output": output })));
        }
        assert_eq!(activate("chain", &events), (Ok(Some(json!(13))), vec![]));
    }

    #[test]
    fn a_fan_out_asks_for_all_at_once_and_takes_the_ids_of_the_log() {
        let start = event(1, "WORKFLOW_STARTED", json!({}));
        let (outcome, commands) = activate("fanout", std::slice::from_ref(&start));
        assert_eq!((outcome, scheduled(&commands).len()), (Ok(None), 5));
        let mut events = vec![start];
        // Ids of another SDK.
        for id in 0..5 {
            events.push(event(0, "TASK_SCHEDULED", json!({ "taskExecutionId": format!("other-{id}") })));
        }
        for id in (0..5).rev() {
            assert_eq!(activate("fanout", &events), (Ok(None), vec![]));
            let data = json!({ "taskExecutionId": format!("other-{id}"), "output": { "number": 11 + id } });
            events.push(event(0, "TASK_COMPLETED", data));
        }
        assert_eq!(activate("fanout", &events).0, Ok(Some(json!(65))));
    }

    #[test]
    fn a_failed_task_fails_its_workflow() {
        let events = [
            event(1, "TASK_SCHEDULED", json!({ "taskExecutionId": "a" })),
            event(2, "TASK_FAILED", json!({ "taskExecutionId": "a", "error": "no" })),
        ];
        assert!(activate("child", &events).0.is_err());
    }
}
