//! The test environment: a `flovyn dev` in its own folder, a worker in this process, and the binary under test.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use flovyn_sdk::task::LogLevel;
use flovyn_sdk::{Result, TaskContext, Worker, WorkerHandle, WorkflowContext, task, workflow};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::conditions::interrupt;

/// In the year 2096.
const FAR: i64 = 4_000_000_000;
/// Longer than any test step takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const MISSING: &str = "01a1e259-e972-72ed-ab63-ea102818ba7e";

/// The outcome of a command.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The output, which is an id.
    pub(crate) fn id(&self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        let id = self.out.strip_suffix('\n').unwrap();
        assert_eq!(id.len(), 36, "{id}");
        id.to_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

/// The binary in this folder, without environment variables that could name a server.
pub(crate) fn flovyn(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flovyn"));
    command.args(arguments).current_dir(folder).env("HOME", folder).env_remove("XDG_CONFIG_HOME");
    command.env("LC_ALL", "C.UTF-8");
    for name in ["URL", "TENANT", "TOKEN", "PROFILE", "CONFIG", "DATABASE_URL"] {
        command.env_remove(format!("FLOVYN_{name}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) struct Server {
    child: Child,
    /// Kept open, because these tests are not about a server that cannot write its log.
    _stderr: BufReader<ChildStderr>,
}

impl Server {
    pub(crate) fn start(folder: &Path, http: &str, grpc: &str, more: &[&str]) -> Self {
        let mut command = flovyn(folder, &["dev", "--http", http, "--grpc", grpc]);
        let mut child = command.args(more).stdout(Stdio::null()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("Press Ctrl-C") {
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        Self { child, _stderr: stderr }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct World {
    // Order matters: the worker is dropped first.
    worker: Option<WorkerHandle>,
    runtime: Runtime,
    server: Option<Server>,
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(options: &[&str]) -> Self {
        let folder = tempdir().unwrap();
        let server = Server::start(folder.path(), "127.0.0.1:0", "127.0.0.1:0", options);
        let runtime = Runtime::new().unwrap();
        let mut world = Self { worker: None, runtime, server: Some(server), folder };
        let entered = world.runtime.enter();
        let builder = Worker::builder(world.credential("grpc_url"), world.credential("worker_token"));
        let worker = flovyn_examples::shop::worker(builder).task(Paint).workflow(Gallery).workflow(Monthly);
        let worker = worker.workflow(Lonely).workflow(Parent);
        let worker = worker.build().unwrap().start();
        drop(entered);
        world.worker = Some(worker);
        world.until(&["worker", "list", "-o", "json"], |workers| workers[0]["alive"] == true);
        world
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn credential(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.folder().join(".flovyn/credentials.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()[name].as_str().unwrap().to_owned()
    }

    /// A token with this role.
    pub(crate) fn token(&self, tenants: &[&str], role: &str) -> String {
        let secret = self.folder().join(".flovyn/jwt.secret");
        let jwt = flovyn_server::config::Jwt::with_secret_file(secret, "flovyn-dev", "flovyn");
        jwt.verifier().unwrap().sign("somebody", tenants, role, 1, FAR).unwrap()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        flovyn(self.folder(), arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Polls until the answer satisfies the condition, because the worker needs time.
    pub(crate) fn until(&self, arguments: &[&str], is_so: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let ran = self.run(arguments);
            assert_eq!(ran.code, 0, "{}", ran.err);
            let found = ran.json();
            if is_so(&found) {
                return found;
            }
            assert!(Instant::now() < end, "{found:#}");
        }
    }

    pub(crate) fn until_status(&self, noun: &str, id: &str, status: &str) -> Value {
        self.until(&[noun, "show", id, "-o", "json"], |found| found["status"] == status)
    }

    /// Restarts the server on the same addresses.
    pub(crate) fn restart_server(&mut self) {
        let (http, grpc) = (self.credential("http_url"), self.credential("grpc_url"));
        self.stop_server();
        let address = |url: &str| url.strip_prefix("http://").unwrap().to_owned();
        self.server = Some(Server::start(self.folder(), &address(&http), &address(&grpc), &[]));
    }

    pub(crate) fn stop_server(&mut self) {
        self.server = None;
    }

    pub(crate) fn follow(&self, arguments: &[&str]) -> Following {
        let mut child = self.command(arguments).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Following { child, out, text: String::new() }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.abort();
        }
    }
}

/// A command that runs until it is ended.
pub(crate) struct Following {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) text: String,
}

impl Following {
    /// Reads until this text is printed.
    pub(crate) fn until(&mut self, part: &str) {
        while !self.text.contains(part) {
            let read = self.out.read_line(&mut self.text).unwrap();
            assert_ne!(read, 0, "it ended without {part:?}: {}", self.text);
        }
    }

    /// Ends the command with Ctrl-C.
    pub(crate) fn interrupt(mut self) -> ExitStatus {
        interrupt(self.child.id());
        self.child.wait().unwrap()
    }

    /// Waits for its end. Returns the exit code, stdout and stderr.
    pub(crate) fn end(mut self) -> Ran {
        self.out.read_to_string(&mut self.text).unwrap();
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code().unwrap();
        Ran { code, out: std::mem::take(&mut self.text), err }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opened by a test to let a task continue.
pub(crate) fn gate(name: &str) -> Arc<Semaphore> {
    static GATES: OnceLock<Mutex<HashMap<String, Arc<Semaphore>>>> = OnceLock::new();
    let mut gates = GATES.get_or_init(Mutex::default).lock().unwrap();
    gates.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))).clone()
}

async fn pass(name: &str) {
    gate(name).acquire().await.unwrap().forget();
}

/// Waits at its gate, reports through every function of its context, and waits at the gate again.
#[task]
async fn paint(ctx: TaskContext, picture: String) -> Result<String> {
    pass(&picture).await;
    ctx.log(LogLevel::Warn, "the red is \x1b[31mgone").await;
    ctx.report_progress(0.5, "half of it").await;
    ctx.stream(&json!({ "dot": [1, 2] })).await?;
    pass(&picture).await;
    Ok(format!("a picture of {picture}"))
}

#[workflow]
async fn gallery(ctx: WorkflowContext, picture: String) -> Result<String> {
    ctx.schedule::<Paint>(picture).await
}

/// Waits for a task that no worker implements.
#[workflow]
async fn lonely(ctx: WorkflowContext, _: Value) -> Result<Value> {
    ctx.schedule_raw("nobodys", json!({})).await
}

/// Waits for a child that waits for a timer.
#[workflow]
async fn parent(ctx: WorkflowContext, _: Value) -> Result<String> {
    ctx.schedule_workflow::<Monthly>("later", json!({})).await
}

#[workflow]
async fn monthly(ctx: WorkflowContext, _: Value) -> Result<String> {
    ctx.sleep(Duration::from_secs(30 * 24 * 60 * 60)).await?;
    Ok("a month later".into())
}
