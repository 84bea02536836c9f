//! A hostile worker: markup, quotes and marks that change the text direction, in everything that it names or sends.

use std::time::Instant;

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::json;
use uuid::Uuid;

use crate::app::command;
use crate::worker::{PATIENCE, Worker, hello, signed};
use crate::world::{World, text};

/// Text that would run if it were used as markup, with a word to find it.
pub(crate) fn evil(what: &str) -> String {
    format!(
        "{what}</title></code><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>\
         \" onmouseover=\"window.hacked=3\u{202e}txt"
    )
}

/// An error with a stack trace of many lines.
fn trace() -> String {
    format!("{}\n   at {}\n\u{1b}[31m   at main\u{2066}", evil("error"), evil("frame"))
}

pub(crate) struct Hostile {
    /// Dropping it ends its work.
    pub(crate) worker: Worker,
    /// An execution that waits for several things.
    pub(crate) execution: String,
    /// The task of that execution, in its second attempt.
    pub(crate) task: String,
    /// An execution that has failed.
    pub(crate) failed: String,
    /// A standalone task that has failed.
    pub(crate) alone: String,
    /// That task, as it was claimed.
    pub(crate) claimed: v1::TaskExecutionInfo,
    tasks: TaskExecutionClient<tonic::transport::Channel>,
}

impl Hostile {
    pub(crate) async fn start(world: &World) -> Self {
        let mut greeting = hello(Uuid::new_v4());
        greeting.worker_name = evil("worker");
        greeting.queue = evil("queue");
        greeting.build_id = evil("build");
        greeting.host_name = evil("host");
        greeting.process_id = evil("process");
        greeting.workflows[0].kind = evil("kind");
        greeting.tasks[0].task_type = evil("type");
        let mut worker = Worker::with(&world.server, greeting, 10, 10).await.unwrap();
        let tasks = TaskExecutionClient::new(world.server.channel());
        let failed = start(world).await;
        let activation = worker.activation().await;
        worker.submit(&activation, vec![fail()], v1::WorkflowStatus::Failed).await;
        let execution = start(world).await;
        let activation = worker.activation().await;
        let id = Uuid::new_v4();
        worker.submit(&activation, commands(id), v1::WorkflowStatus::Suspended).await;
        let claimed = worker.task().await;
        worker.fail_task(&claimed, &trace()).await;
        let body = json!({ "task_type": evil("type"), "queue": evil("queue"), "max_retries": 1 });
        let claimed = worker.task().await;
        assert_eq!(claimed.task_execution_id, id.to_string());
        let alone = text(&world.post("/tasks", &body).await.ok(201)["id"]);
        let other = worker.task().await;
        worker.fail_task(&other, &trace()).await;
        let mut hostile = Self { worker, execution, task: id.to_string(), failed, alone, claimed, tasks };
        hostile.report(world).await;
        hostile
    }

    /// Sends progress and a log line. They are written a little later.
    async fn report(&mut self, world: &World) {
        let progress = v1::ReportProgressRequest {
            task_execution_id: self.task.clone(),
            progress: 0.4,
            details: evil("progress"),
            claim_token: Some(self.claimed.claim_token),
        };
        self.tasks.report_progress(signed(progress)).await.unwrap();
        let line = v1::LogMessageRequest {
            task_execution_id: self.task.clone(),
            level: "WARN".into(),
            message: evil("line"),
            claim_token: Some(self.claimed.claim_token),
        };
        self.tasks.log_message(signed(line)).await.unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let tasks = world.get(&format!("/workflow-executions/{}/tasks", self.execution)).await.ok(200);
            let log = world.get(&format!("/tasks/{}/logs", self.task)).await.ok(200);
            if tasks.to_string().contains("progress</") && log.to_string().contains("line</") {
                return;
            }
            assert!(Instant::now() < until, "never written: {tasks} {log}");
        }
    }

    /// Streams a datum on several lines, one of which looks like another event.
    pub(crate) async fn stream(&mut self) {
        let document = json!({ "datum": evil("datum") }).to_string();
        let datum = v1::StreamTaskDataRequest {
            task_execution_id: self.task.clone(),
            sequence: 1,
            // JSON allows any line break between tokens. None of them may end the event.
            payload: document.replace("{\"", "{\n\n\r\n\r\""),
            claim_token: Some(self.claimed.claim_token),
            ..v1::StreamTaskDataRequest::default()
        };
        self.tasks.stream_task_data(signed(datum)).await.unwrap();
    }
}

async fn start(world: &World) -> String {
    let body = json!({ "kind": evil("kind"), "taskQueue": evil("queue"), "idempotencyKey": evil("key"),
        "labels": { evil("l").chars().take(100).collect::<String>(): "<b>v</b>" } });
    text(&world.post("/workflow-executions", &body).await.ok(201)["workflowExecutionId"])
}

fn fail() -> v1::WorkflowCommand {
    let data = v1::FailWorkflowCommand { error: trace(), ..v1::FailWorkflowCommand::default() };
    command(v1::CommandType::FailWorkflow, CommandData::FailWorkflow(data))
}

/// One command of each kind that has a name.
fn commands(task: Uuid) -> Vec<v1::WorkflowCommand> {
    let schedule = v1::ScheduleTaskCommand {
        kind: evil("type"),
        input: json!(evil("input")).to_string().into(),
        task_execution_id: task.to_string(),
        max_retries: Some(2),
        ..v1::ScheduleTaskCommand::default()
    };
    let promise =
        v1::CreatePromiseCommand { promise_id: evil("promise"), ..v1::CreatePromiseCommand::default() };
    let state = v1::SetStateCommand { key: evil("state"), value: json!(evil("value")).to_string().into() };
    let child = v1::ScheduleChildWorkflowCommand {
        child_execution_name: evil("child"),
        workflow_kind: Some(evil("childkind")),
        child_workflow_execution_id: Uuid::new_v4().to_string(),
        input: "{}".into(),
        ..v1::ScheduleChildWorkflowCommand::default()
    };
    let timer = v1::StartTimerCommand { timer_id: evil("timer"), duration_ms: 3_600_000 };
    vec![
        command(v1::CommandType::SetState, CommandData::SetState(state)),
        command(v1::CommandType::ScheduleTask, CommandData::ScheduleTask(schedule)),
        command(v1::CommandType::CreatePromise, CommandData::CreatePromise(promise)),
        command(v1::CommandType::ScheduleChildWorkflow, CommandData::ScheduleChildWorkflow(child)),
        command(v1::CommandType::StartTimer, CommandData::StartTimer(timer)),
    ]
}
