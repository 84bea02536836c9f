//! A server in its own folder, with the worker that the guide uses.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use flovyn_sdk::{Worker, WorkerHandle};
use serde_json::Value;
use tempfile::{TempDir, tempdir};
use tokio::runtime::Runtime;

/// In the year 2096.
const FAR: i64 = 4_000_000_000;

pub(crate) struct Server {
    child: Child,
    /// Kept open, because these tests are not about a server that cannot write its log.
    _stderr: BufReader<ChildStderr>,
    folder: TempDir,
    worker: Option<WorkerHandle>,
    /// The runtime of the worker.
    runtime: Runtime,
}

impl Server {
    /// With the worker of the example `shop`.
    pub(crate) fn start() -> Self {
        let mut server = Self::run(&["dev"]);
        let credentials = std::fs::read_to_string(server.folder().join(".flovyn/credentials.json")).unwrap();
        let credentials: Value = serde_json::from_str(&credentials).unwrap();
        let value = |name: &str| credentials[name].as_str().unwrap().to_owned();
        // The worker's connection must be created inside a runtime.
        let entered = server.runtime.enter();
        let builder = Worker::builder(value("grpc_url"), value("worker_token"));
        let worker = flovyn_examples::shop::worker(builder).build().unwrap();
        let worker = worker.start();
        drop(entered);
        server.worker = Some(worker);
        server
    }

    /// With the worker of the demo.
    pub(crate) fn demo() -> Self {
        Self::run(&["demo", "--data-dir", ".flovyn"])
    }

    fn run(arguments: &[&str]) -> Self {
        let folder = tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_flovyn"));
        command
            .args(arguments)
            .args(["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
            .current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("Press Ctrl-C") {
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        Self { child, _stderr: stderr, folder, worker: None, runtime: Runtime::new().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The header of a server administrator. The page uses an API key, which this server does not have in its
    /// configuration.
    pub(crate) fn admin_header(&self) -> String {
        let secret = self.folder.path().join(".flovyn/jwt.secret");
        let jwt = flovyn_server::config::Jwt::with_secret_file(secret, "flovyn-dev", "flovyn");
        let token = jwt.verifier().unwrap().sign("guide", &["*"], "server-admin", 1, FAR).unwrap();
        format!("Authorization: Bearer {token}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.abort();
        }
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
