//! The processes of the benchmark: a server with its own database, and workers. They end with their guards.

use std::io::{Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use flovyn_sdk::Client;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::figures::{Latencies, cpu_seconds_of, resident_mb_of, written_bytes_of};
use crate::raw::written_bytes;
use crate::target::Database;

const START_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Commits whose bare fsync is measured. Each writes `COMMIT_PAGES` pages.
const COMMITS: usize = 200;
const COMMIT_PAGES: usize = 9;

/// The worker token of a tenant. The server is temporary and listens on loopback only.
fn token(tenant: usize) -> String {
    format!("flovyn-bench-worker-token-0123456789abcdef-{tenant}")
}

/// `flovyn server` on free ports.
pub(super) struct ServerProcess {
    process: Child,
    pub(super) grpc_url: String,
    tenants: usize,
    http: SocketAddr,
    database: Option<flovyn_testkit::TestDatabase>,
    _folder: tempfile::TempDir,
}

/// Resources that a server has used since its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub(super) cpu_seconds: f64,
    pub(super) written_bytes: f64,
    pub(super) commits: f64,
    pub(super) at: Instant,
}

impl ServerProcess {
    pub(super) async fn start(binary: &Path, store: Database, tenants: usize) -> Result<Self, String> {
        let folder = crate::target::folder()?;
        let database = match store {
            Database::Sqlite => None,
            Database::Postgres => Some(flovyn_testkit::fresh_database().await),
        };
        let url = match &database {
            Some(database) => database.url.clone(),
            None => format!("sqlite:{}", folder.path().join("flovyn.db").display()),
        };
        let (grpc, http) = (free_port()?, free_port()?);
        let mut config = format!(
            "database_url = {url:?}\ngrpc.address = \"{grpc}\"\nhttp.address = \"{http}\"\nmetrics.access = \"loopback\"\n\
             telemetry.log_filter = \"warn\"\n"
        );
        for tenant in 0..tenants {
            let token = token(tenant);
            config += &format!(
                "[[tenants]]\nslug = \"bench-{tenant}\"\n[[tenants.worker_tokens]]\nname = \"bench\"\ntoken = {token:?}\n"
            );
        }
        let file = folder.path().join("flovyn.toml");
        std::fs::write(&file, config).map_err(|error| error.to_string())?;
        let process = Command::new(binary)
            .arg("server")
            .arg("--config")
            .arg(&file)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", binary.display()))?;
        let grpc_url = format!("http://{grpc}");
        let server = Self { process, grpc_url, tenants, http, database, _folder: folder };
        let begin = Instant::now();
        while get(server.http, "/_/health/ready").await.is_none_or(|text| !text.starts_with("HTTP/1.1 200")) {
            if begin.elapsed() > START_WITHIN {
                return Err("the server did not start within 20 seconds".into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(server)
    }

    /// A client of the first tenant.
    pub(super) fn client(&self) -> Result<Client, String> {
        Client::new(&self.grpc_url, &token(0)).map_err(|error| error.to_string())
    }

    /// One client per tenant.
    pub(super) fn clients(&self) -> Result<Vec<Client>, String> {
        let client = |tenant| Client::new(&self.grpc_url, &token(tenant));
        (0..self.tenants).map(client).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    fn id(&self) -> u32 {
        self.process.id().unwrap_or_default()
    }

    pub(super) fn resident_mb(&self) -> f64 {
        resident_mb_of(self.id())
    }

    pub(super) async fn usage(&self) -> Result<Usage, String> {
        let metrics = get(self.http, "/_/metrics").await.ok_or("the server does not answer")?;
        let commits = metrics.lines().find_map(|line| line.strip_prefix("flovyn_store_commits_total "));
        let commits = commits.and_then(|number| number.trim().parse().ok());
        let written_bytes = match &self.database {
            None => written_bytes_of(self.id()),
            Some(database) => written_bytes(&database.url).await,
        };
        Ok(Usage {
            cpu_seconds: cpu_seconds_of(self.id()),
            written_bytes,
            commits: commits.ok_or("the metrics of the server have no flovyn_store_commits_total")?,
            at: Instant::now(),
        })
    }

    pub(super) async fn stop(mut self) -> Result<(), String> {
        self.process.kill().await.map_err(|error| error.to_string())
    }
}

/// A worker in a separate process: this program with another command.
pub(super) struct WorkerProcess {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl WorkerProcess {
    pub(super) async fn start(server: &ServerProcess) -> Result<Self, String> {
        Self::start_with(server, &[]).await
    }

    /// Starts a worker that takes no task before `until_done` is called.
    pub(super) async fn start_paused(server: &ServerProcess) -> Result<Self, String> {
        Self::start_with(server, &["--paused"]).await
    }

    async fn start_with(server: &ServerProcess, arguments: &[&str]) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut process = Command::new(own)
            .args(["e2e-worker", "--url", &server.grpc_url])
            .args(arguments)
            .args((0..server.tenants).map(|tenant| format!("--token={}", token(tenant))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the worker could not be started: {error}"))?;
        let input = process.stdin.take().ok_or("the worker has no input")?;
        let output = BufReader::new(process.stdout.take().ok_or("the worker has no output")?).lines();
        let mut worker = Self { process, input, output };
        worker.expect_line("ready").await?;
        Ok(worker)
    }

    async fn expect_line(&mut self, word: &str) -> Result<(), String> {
        let line = self.output.next_line().await.map_err(|error| error.to_string())?;
        if line.as_deref() == Some(word) { Ok(()) } else { Err(format!("the worker ended before '{word}'")) }
    }

    pub(super) fn cpu_seconds(&self) -> f64 {
        cpu_seconds_of(self.process.id().unwrap_or_default())
    }

    /// Waits until the server has acknowledged this many results since the worker started.
    pub(super) async fn until_done(&mut self, tasks: usize) -> Result<(), String> {
        let line = format!("{tasks}\n");
        self.input.write_all(line.as_bytes()).await.map_err(|error| error.to_string())?;
        self.expect_line("done").await
    }

    pub(super) async fn kill(mut self) -> Result<(), String> {
        self.process.kill().await.map_err(|error| error.to_string())
    }
}

/// The time that the disk needs to make a commit of a few pages durable, measured before there is other load.
pub(super) fn bare_fsync() -> Result<Latencies, String> {
    let folder = crate::target::folder()?;
    let measure = || -> std::io::Result<Latencies> {
        let mut file = std::fs::File::create(folder.path().join("fsync"))?;
        let pages = vec![7; COMMIT_PAGES * 4_096];
        let mut latencies = Latencies::default();
        for round in 0..2 {
            file.seek(SeekFrom::Start(0))?;
            for _ in 0..COMMITS {
                let begin = Instant::now();
                file.write_all(&pages)?;
                file.sync_data()?;
                // The first round is not measured. It only gives the file its final size.
                if round > 0 {
                    latencies.add(begin.elapsed());
                }
            }
        }
        Ok(latencies)
    };
    measure().map_err(|error| error.to_string())
}

/// The `flovyn` binary beside this program.
pub(crate) fn beside_this_one() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = own.with_file_name("flovyn");
    let missing = || format!("{} does not exist: run `cargo build --release` first", binary.display());
    if binary.exists() { Ok(binary) } else { Err(missing()) }
}

fn free_port() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map_err(|error| error.to_string())
}

/// The whole response. `None` if the server does not answer.
async fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}
