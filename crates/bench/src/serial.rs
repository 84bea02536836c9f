//! Clients that can do nothing else while one of their polls is held, like a blocking poll on an event loop. Measured
//! are the CPU that idle clients cost the server, and the latency of a single chain of three tasks. All polls ask for
//! 30 seconds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;
use flovyn_proto::v1::worker_lifecycle_client::WorkerLifecycleClient;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use indicatif::ProgressBar;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Request, Status};
use uuid::Uuid;

use crate::dev_server::DevServer;
use crate::figures::{Latencies, Line, cpu_seconds_of};

const POLL_SECONDS: i64 = 30;
/// The pause of such a client after a poll that returned no work.
const AFTER_NOTHING: Duration = Duration::from_millis(100);
const TASKS: usize = 3;
const KIND: &str = "chain";
const BUSY: &str = "busy";

pub(crate) async fn run(
    binary: Option<PathBuf>,
    workers: usize,
    settle: u64,
    seconds: u64,
    chains: usize,
) -> Result<String, String> {
    let bar = ProgressBar::new_spinner().with_message("starting");
    bar.enable_steady_tick(Duration::from_millis(200));
    let server = Arc::new(DevServer::start(binary).await?);
    let id = server.process_id()?;
    let mut all = JoinSet::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    for number in 0..workers {
        start_worker(&server, &format!("idle-{number}"), "nothing-here", &ended, &mut all).await?;
    }
    bar.set_message("waiting until polls are held longer");
    tokio::time::sleep(Duration::from_secs(settle)).await;
    let (cpu, begin) = (cpu_seconds_of(id), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let used = (cpu_seconds_of(id) - cpu) / begin.elapsed().as_secs_f64();
    all.shutdown().await;

    bar.set_message("chains");
    start_worker(&server, BUSY, BUSY, &ended, &mut all).await?;
    let (mut client, mut latencies) = (server.client()?, Latencies::default());
    for _ in 0..chains {
        // The server is idle for a while, as between two requests of a person.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let begin = Instant::now();
        let start = v1::StartWorkflowRequest {
            workflow_kind: KIND.into(),
            queue: BUSY.into(),
            ..v1::StartWorkflowRequest::default()
        };
        client.start_workflow(server.signed(start)).await.map_err(said)?;
        ends.recv().await.ok_or("the worker has ended")?;
        latencies.add(begin.elapsed());
    }
    bar.finish_and_clear();
    Ok(Line::new("serial")
        .number("workers", workers as f64)
        .number("idle_cpu_percent_of_a_core", used * 100.0)
        .number("chain3_p50_ms", latencies.percentile_ms(50.0))
        .number("chain3_p99_ms", latencies.percentile_ms(99.0))
        .finish())
}

fn said(status: Status) -> String {
    status.to_string()
}

/// One client on its own connection.
#[derive(Clone)]
struct Serial {
    server: Arc<DevServer>,
    channel: Channel,
    worker: String,
    queue: String,
    /// Stands for the event loop of the client. A poll holds the lock, so it blocks everything else.
    event_loop: Arc<Mutex<()>>,
    ended: mpsc::UnboundedSender<()>,
}

async fn start_worker(
    server: &Arc<DevServer>,
    name: &str,
    queue: &str,
    ended: &mpsc::UnboundedSender<()>,
    all: &mut JoinSet<()>,
) -> Result<(), String> {
    let channel = server.channel()?;
    let registration = v1::WorkerRegistrationRequest {
        worker_name: name.into(),
        host_name: "bench".into(),
        process_id: name.into(),
        workflows: vec![v1::WorkflowCapability { kind: KIND.into(), ..v1::WorkflowCapability::default() }],
        tasks: vec![v1::TaskCapability { kind: "step".into(), ..v1::TaskCapability::default() }],
        ..v1::WorkerRegistrationRequest::default()
    };
    let mut lifecycle = WorkerLifecycleClient::new(channel.clone());
    let registered = lifecycle.register_worker(server.signed(registration));
    let serial = Serial {
        server: server.clone(),
        channel,
        worker: registered.await.map_err(said)?.into_inner().worker_id,
        queue: queue.into(),
        event_loop: Arc::default(),
        ended: ended.clone(),
    };
    all.spawn(serial.clone().workflows());
    all.spawn(serial.tasks());
    Ok(())
}

impl Serial {
    fn signed<T>(&self, message: T) -> Request<T> {
        self.server.signed(message)
    }

    async fn workflows(self) {
        loop {
            let turn = self.event_loop.lock().await;
            let poll = v1::PollRequest {
                worker_id: self.worker.clone(),
                queue: self.queue.clone(),
                timeout_seconds: POLL_SECONDS,
                ..v1::PollRequest::default()
            };
            let polled =
                WorkflowDispatchClient::new(self.channel.clone()).poll_workflow(self.signed(poll)).await;
            drop(turn);
            match polled.map(|response| response.into_inner().workflow_execution) {
                // The error is ignored: after a refusal no chain ends, which shows in the figures.
                Ok(Some(execution)) => drop(self.activate(execution.id).await),
                _ => tokio::time::sleep(AFTER_NOTHING).await,
            }
        }
    }

    async fn tasks(self) {
        loop {
            let turn = self.event_loop.lock().await;
            let poll = v1::PollTaskRequest {
                worker_id: self.worker.clone(),
                queue: self.queue.clone(),
                timeout_seconds: POLL_SECONDS,
                ..v1::PollTaskRequest::default()
            };
            let mut client = TaskExecutionClient::new(self.channel.clone());
            let polled = client.poll_task(self.signed(poll)).await;
            drop(turn);
            match polled.map(|response| response.into_inner().task) {
                Ok(Some(task)) => {
                    let done = v1::CompleteTaskRequest {
                        task_execution_id: task.task_execution_id,
                        output: "1".into(),
                        claim_token: None,
                    };
                    let _turn = self.event_loop.lock().await;
                    // The error is ignored for the same reason as in `workflows`.
                    drop(client.complete_task(self.signed(done)).await);
                }
                _ => tokio::time::sleep(AFTER_NOTHING).await,
            }
        }
    }

    async fn activate(&self, id: String) -> Result<(), Status> {
        let mut client = WorkflowDispatchClient::new(self.channel.clone());
        let _turn = self.event_loop.lock().await;
        let get =
            v1::GetEventsRequest { workflow_execution_id: id.clone(), ..v1::GetEventsRequest::default() };
        let events = client.get_events(self.signed(get)).await?.into_inner().events;
        let done = events.iter().filter(|event| event.event_type == "TASK_COMPLETED").count();
        use v1::workflow_command::CommandData;
        let (command_type, data, status) = match done < TASKS {
            true => (
                v1::CommandType::ScheduleTask,
                CommandData::ScheduleTask(v1::ScheduleTaskCommand {
                    kind: "step".into(),
                    task_execution_id: Uuid::new_v4().to_string(),
                    input: "null".into(),
                    ..v1::ScheduleTaskCommand::default()
                }),
                v1::WorkflowStatus::Suspended,
            ),
            false => (
                v1::CommandType::CompleteWorkflow,
                CommandData::CompleteWorkflow(v1::CompleteWorkflowCommand { output: "1".into() }),
                v1::WorkflowStatus::Completed,
            ),
        };
        let command = v1::WorkflowCommand {
            command_type: command_type.into(),
            sequence_number: 1,
            command_data: Some(data),
        };
        let submit = v1::SubmitWorkflowCommandsRequest {
            workflow_execution_id: id,
            commands: vec![command],
            status: status.into(),
            ..v1::SubmitWorkflowCommandsRequest::default()
        };
        client.submit_workflow_commands(self.signed(submit)).await?;
        if done == TASKS {
            // The receiver is gone when the benchmark ends.
            let _ = self.ended.send(());
        }
        Ok(())
    }
}
