//! Processes under test: started, killed, paused and resumed, as a machine would do it. They end with their
//! guards.
//!
//! This module knows how to run the server's binary, not what the server does.

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The time limit for one request to a process that may be stopped.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// These ports are below those that systems use for outgoing connections. So a client that tries to reach a
/// stopped server cannot take that server's port.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

static NEXT_PORT: AtomicU16 = AtomicU16::new(0);

/// An address on loopback at which nothing listens. It stays free until it is used.
///
/// # Panics
/// Panics if no port is free.
pub fn free_address() -> SocketAddr {
    // Processes that search at the same time begin at different ports.
    let begin = u16::try_from(std::process::id() % u32::from(PORTS.end - PORTS.start)).unwrap_or_default();
    (0..PORTS.end - PORTS.start)
        .map(|_| {
            let step = begin.wrapping_add(NEXT_PORT.fetch_add(1, Ordering::Relaxed));
            SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + step % (PORTS.end - PORTS.start)))
        })
        .find(|address| TcpListener::bind(address).is_ok())
        .expect("a port is free")
}

/// Sends a signal by its name, such as `STOP`. The caller must know whether the process still exists.
pub async fn send_signal(process: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(process.to_string()).status().await;
    debug_assert!(sent.is_ok(), "there is a kill on every system");
}

/// `flovyn server` with its own configuration. It can be started and killed repeatedly.
#[derive(Debug)]
pub struct ServerProcess {
    binary: PathBuf,
    config: PathBuf,
    log: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    pub grpc_url: String,
    http: SocketAddr,
    process: Option<Child>,
}

impl ServerProcess {
    /// A server that is not started yet. `settings` are lines of TOML in addition to the addresses. The
    /// server's files are in `folder`.
    ///
    /// # Errors
    /// Fails if the configuration cannot be written.
    pub fn new(binary: &Path, folder: &Path, name: &str, settings: &str) -> std::io::Result<Self> {
        let (grpc, http) = (free_address(), free_address());
        let config = folder.join(format!("{name}.toml"));
        let addresses = format!("grpc.address = \"{grpc}\"\nhttp.address = \"{http}\"\n");
        std::fs::write(&config, addresses + settings)?;
        Ok(Self {
            binary: binary.to_owned(),
            config,
            log: folder.join(format!("{name}.log")),
            environment: Vec::new(),
            grpc_url: format!("http://{grpc}"),
            http,
            process: None,
        })
    }

    /// Sets an environment variable of the process, from its next start on.
    pub fn set_variable(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.environment.retain(|(known, _)| *known != name);
        self.environment.push((name, value.into()));
    }

    /// Starts the process without waiting for it to be ready.
    ///
    /// # Errors
    /// Fails if the binary does not exist.
    pub fn start(&mut self) -> std::io::Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let process = Command::new(&self.binary)
            .arg("server")
            .arg("--config")
            .arg(&self.config)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        self.process = Some(process);
        Ok(())
    }

    /// Waits until the server reports that it is ready.
    ///
    /// # Errors
    /// Fails if the server has ended, or is not ready in time. The error contains the end of its
    /// log.
    pub async fn ready(&mut self, within: Duration) -> Result<(), String> {
        let begin = Instant::now();
        while !self.is_ready().await {
            let ended = self.process.as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)));
            if ended || begin.elapsed() > within {
                let what = if ended { "ended" } else { "is not ready" };
                return Err(format!("the server {what} after {:?}:\n{}", begin.elapsed(), self.log_tail()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    pub async fn is_ready(&self) -> bool {
        self.get("/_/health/ready").await.is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// The whole response. `None` if the server does not answer.
    pub async fn get(&self, path: &str) -> Option<String> {
        self.ask(&format!("GET {path} HTTP/1.1"), "").await
    }

    /// The whole response to a request line with headers, and a body. `None` if the server does not answer.
    pub async fn ask(&self, head: &str, body: &str) -> Option<String> {
        let asked = async {
            let mut stream = TcpStream::connect(self.http).await.ok()?;
            let request = format!("{head}\r\nHost: {}\r\nConnection: close\r\n\r\n{body}", self.http);
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.ok()?;
            Some(answer)
        };
        tokio::time::timeout(ANSWER_WITHIN, asked).await.ok().flatten()
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // The process may have ended by itself; its log shows this.
            let _ = process.kill().await;
        }
    }

    /// Sends a signal by its name, if the process is running.
    pub async fn signal(&self, name: &str) {
        if let Some(id) = self.id() {
            send_signal(id, name).await;
        }
    }

    /// The process id. `None` if the process has not been started.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Child::id)
    }

    /// Waits until the process has ended by itself. Returns false if it has not ended within the time.
    pub async fn ended(&mut self, within: Duration) -> bool {
        match &mut self.process {
            Some(process) => tokio::time::timeout(within, process.wait()).await.is_ok(),
            None => true,
        }
    }

    /// The whole log of the process.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether the operating system reports that the process is running.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}
