//! The real binary over real sockets: start-up time, idle memory, the cost of a thousand waiting polls, and the latency
//! of an answer to a waiting poll.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flovyn_proto::v1;
use flovyn_proto::v1::worker_lifecycle_client::WorkerLifecycleClient;
use indicatif::ProgressBar;
use tokio::task::JoinSet;
use tonic::Request;

use crate::dev_server::{DevServer, KIND, start};
use crate::figures::{Latencies, Line, cpu_seconds_of, resident_mb_of};

/// Connections that the waiting polls share.
const CONNECTIONS: usize = 10;

pub(crate) async fn run(binary: Option<PathBuf>, polls: usize, seconds: u64) -> Result<String, String> {
    let bar = ProgressBar::new_spinner().with_message("starting");
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut server = DevServer::start(binary).await?;
    let id = server.process_id()?;
    bar.set_message("idle");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let resident = resident_mb_of(id);

    bar.set_message(format!("{polls} polls wait"));
    let waiting = server.wait_in_polls(polls).await?;
    let (cpu, begin) = (cpu_seconds_of(id), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let used = (cpu_seconds_of(id) - cpu) / begin.elapsed().as_secs_f64();
    let resident_waiting = resident_mb_of(id);
    drop(waiting);

    bar.set_message("answers");
    let answers = server.answers(300).await?;
    bar.finish_and_clear();
    server.process.kill().await.map_err(|error| error.to_string())?;
    Ok(Line::new("server")
        .number("first_answer_ms", server.first_answer.as_secs_f64() * 1_000.0)
        .number("idle_resident_mb", resident)
        .number("polls", polls as f64)
        .number("polls_cpu_percent_of_a_core", used * 100.0)
        .number("polls_resident_mb", resident_waiting)
        .number("answer_p50_ms", answers.percentile_ms(50.0))
        .number("answer_p99_ms", answers.percentile_ms(99.0))
        .finish())
}

impl DevServer {
    fn poll(&self, worker: &str, queue: &str) -> Request<v1::PollRequest> {
        self.signed(v1::PollRequest {
            worker_id: worker.into(),
            queue: queue.into(),
            timeout_seconds: 60,
            ..v1::PollRequest::default()
        })
    }

    /// Starts polls of a queue that has no work. They are held until the set is dropped.
    async fn wait_in_polls(&self, count: usize) -> Result<JoinSet<()>, String> {
        self.register("idle").await?;
        let mut waiting = JoinSet::new();
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| self.client()).collect::<Result<_, _>>()?;
        for number in 0..count {
            let mut client = clients[number % CONNECTIONS].clone();
            let request = self.poll("idle", "nothing-here");
            waiting.spawn(async move {
                // The poll is aborted with the set. An answer or an error would only mean that there is no work.
                let _ = client.poll_workflow(request).await;
            });
        }
        // Long enough for all polls to have arrived.
        tokio::time::sleep(Duration::from_secs(2)).await;
        match waiting.try_join_next() {
            Some(_) => Err("a poll that should wait was answered".into()),
            None => Ok(waiting),
        }
    }

    async fn register(&self, name: &str) -> Result<(), String> {
        let mut client = WorkerLifecycleClient::new(self.channel()?);
        let capability = v1::WorkflowCapability { kind: KIND.into(), ..v1::WorkflowCapability::default() };
        let registration = v1::WorkerRegistrationRequest {
            worker_name: name.into(),
            workflows: vec![capability],
            ..v1::WorkerRegistrationRequest::default()
        };
        let answer = client.register_worker(self.signed(registration)).await;
        answer.map(|_| ()).map_err(|status| status.to_string())
    }

    /// The time from sending a start to receiving its execution on another connection, whose poll was waiting.
    async fn answers(&self, count: usize) -> Result<Latencies, String> {
        self.register("busy").await?;
        let mut latencies = Latencies::default();
        let (mut poller, mut starter) = (self.client()?, self.client()?);
        // Takes the execution that `DevServer::start` created.
        poller.poll_workflow(self.poll("busy", "default")).await.map_err(|status| status.to_string())?;
        for _ in 0..count {
            let request = self.poll("busy", "default");
            let mut poller = poller.clone();
            let waiting =
                tokio::spawn(async move { poller.poll_workflow(request).await.map(|_| Instant::now()) });
            // By then the poll should be waiting: this measures the answer, not the arrival of the poll.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let begin = Instant::now();
            starter.start_workflow(self.signed(start())).await.map_err(|status| status.to_string())?;
            let answered =
                waiting.await.map_err(|error| error.to_string())?.map_err(|status| status.to_string())?;
            latencies.add(answered.saturating_duration_since(begin));
        }
        Ok(latencies)
    }
}
