//! The real binary over real sockets: how soon it serves, what it takes while idle, what a thousand waiting polls
//! cost, and how soon one of them is answered.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use flovyn_proto::v1;
use flovyn_proto::v1::worker_lifecycle_client::WorkerLifecycleClient;
use flovyn_proto::v1::workflow_dispatch_client::WorkflowDispatchClient;
use indicatif::ProgressBar;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::e2e::beside_this_one;
use crate::figures::{Latencies, Line, cpu_seconds_of, resident_mb_of};

const KIND: &str = "one-task";
/// Connections that the waiting polls share.
const CONNECTIONS: usize = 10;
const LOOK_EVERY: Duration = Duration::from_millis(1);
const START_WITHIN: Duration = Duration::from_secs(10);

/// `flovyn dev` on free ports and a folder of its own; ends with this.
struct DevServer {
    process: Child,
    grpc_url: String,
    token: String,
    first_answer: Duration,
    _folder: tempfile::TempDir,
}

pub(crate) async fn run(binary: Option<PathBuf>, polls: usize, seconds: u64) -> Result<String, String> {
    let binary = binary.map_or_else(beside_this_one, Ok)?;
    let bar = ProgressBar::new_spinner().with_message("starting");
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut server = DevServer::start(&binary).await?;
    let id = server.process.id().ok_or("the server has ended")?;
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
    async fn start(binary: &Path) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let begin = Instant::now();
        let process = Command::new(binary)
            .arg("dev")
            .arg("--data-dir")
            .arg(folder.path())
            .args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", binary.display()))?;
        let (grpc_url, token) = credentials(&folder.path().join("credentials.json"), begin).await?;
        let mut server = Self { process, grpc_url, token, first_answer: Duration::ZERO, _folder: folder };
        let mut client = server.client()?;
        client.start_workflow(server.signed(start())).await.map_err(|status| status.to_string())?;
        server.first_answer = begin.elapsed();
        Ok(server)
    }

    fn channel(&self) -> Result<Channel, String> {
        let endpoint = Endpoint::from_shared(self.grpc_url.clone()).map_err(|error| error.to_string())?;
        Ok(endpoint.connect_lazy())
    }

    fn client(&self) -> Result<WorkflowDispatchClient<Channel>, String> {
        Ok(WorkflowDispatchClient::new(self.channel()?))
    }

    fn signed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let value = format!("Bearer {}", self.token).parse().expect("a token is plain ASCII");
        request.metadata_mut().insert("authorization", value);
        request
    }

    fn poll(&self, worker: &str, queue: &str) -> Request<v1::PollRequest> {
        self.signed(v1::PollRequest {
            worker_id: worker.into(),
            queue: queue.into(),
            timeout_seconds: 60,
            ..v1::PollRequest::default()
        })
    }

    /// Polls of a queue that has no work, held until the set is dropped.
    async fn wait_in_polls(&self, count: usize) -> Result<JoinSet<()>, String> {
        self.register("idle").await?;
        let mut waiting = JoinSet::new();
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| self.client()).collect::<Result<_, _>>()?;
        for number in 0..count {
            let mut client = clients[number % CONNECTIONS].clone();
            let request = self.poll("idle", "nothing-here");
            waiting.spawn(async move {
                // It ends with the set; an answer or an error would only be an empty one.
                let _ = client.poll_workflow(request).await;
            });
        }
        // Long enough for all of them to have arrived.
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

    /// From sending a start to having its execution in hand, on another connection whose poll was waiting.
    async fn answers(&self, count: usize) -> Result<Latencies, String> {
        self.register("busy").await?;
        let mut latencies = Latencies::default();
        let (mut poller, mut starter) = (self.client()?, self.client()?);
        // The one that was started first is still there.
        poller.poll_workflow(self.poll("busy", "default")).await.map_err(|status| status.to_string())?;
        for _ in 0..count {
            let request = self.poll("busy", "default");
            let mut poller = poller.clone();
            let waiting =
                tokio::spawn(async move { poller.poll_workflow(request).await.map(|_| Instant::now()) });
            // It should be waiting by then: what is measured is the answer, not the arrival of the poll.
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

fn start() -> v1::StartWorkflowRequest {
    v1::StartWorkflowRequest {
        workflow_kind: KIND.into(),
        input: "{}".into(),
        ..v1::StartWorkflowRequest::default()
    }
}

/// Where the server listens and what lets us in: it writes both when it serves.
async fn credentials(file: &Path, begin: Instant) -> Result<(String, String), String> {
    while begin.elapsed() < START_WITHIN {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let values: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        if let (Some(url), Some(token)) = (values["grpc_url"].as_str(), values["worker_token"].as_str()) {
            return Ok((url.to_owned(), token.to_owned()));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err("the server did not start: run it by hand with `flovyn dev` to see why".into())
}
