//! The processes and files of one run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flovyn_sdk::Client;
use flovyn_store::port::Store;
use flovyn_testkit::{Proxy, ServerProcess, TestDatabase};

use crate::plain::Dialect;
use crate::test::{Database, WORKER_LEASE_MS};
use crate::worker::{Nature, WorkerProcess};

/// The worker token of throw-away servers, on loopback.
pub(crate) const TOKEN: &str = "flovyn-chaos-worker-token-0123456789abcdef";
/// The worker token of another tenant.
pub(crate) const OTHER_TOKEN: &str = "flovyn-chaos-other-token-0123456789abcdef";
const READY_WITHIN: Duration = Duration::from_secs(30);
const SLOTS: u32 = 100;
/// The dialects of the workers without tokens, in turn.
const DIALECTS: [Dialect; 4] = [Dialect::Registered, Dialect::Nameless, Dialect::Unknown, Dialect::Nameless];

/// The processes of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    /// In percent: how many of the workers speak the public protocol.
    pub(crate) plain_percent: usize,
    pub(crate) session_lease_ms: u64,
    /// Whether servers reach PostgreSQL through a proxy that can lose replies.
    pub(crate) proxied: bool,
    /// The clock error of each server. Empty: all clocks are right.
    pub(crate) skews_ms: &'static [i64],
    /// Whether the disk of the only server can be made to fail.
    pub(crate) failing_disk: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            servers: 1,
            workers: 0,
            plain_percent: 0,
            session_lease_ms: WORKER_LEASE_MS,
            proxied: false,
            skews_ms: &[],
            failing_disk: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) servers: Vec<ServerProcess>,
    pub(crate) workers: Vec<WorkerProcess>,
    /// How many results of ended workers the server refused.
    pub(crate) refused: u64,
    /// Process ids of all workers without tokens.
    pub(crate) plain: BTreeMap<u32, Dialect>,
    pub(crate) proxy: Option<Proxy>,
    binary: PathBuf,
    pub(crate) url: String,
    folder: tempfile::TempDir,
    // Dropped last: it can be removed only when no process uses it.
    _database: Option<TestDatabase>,
}

impl World {
    pub(crate) async fn start(binary: &Path, store: Database, plan: Plan) -> Result<Self, String> {
        let mut world = Self::prepare(binary, store, plan).await?;
        if plan.failing_disk {
            let settings = [
                ("FLOVYN_TEST_SHIM_DATABASE", world.database_path()?.into_os_string()),
                ("FLOVYN_TEST_SHIM_FAULT", world.fault_path().into_os_string()),
            ];
            world.preload(0, &settings)?;
        }
        world.begin(plan.workers, plan.plain_percent).await?;
        Ok(world)
    }

    /// Starts the servers and this many workers.
    pub(crate) async fn begin(&mut self, workers: usize, plain_percent: usize) -> Result<(), String> {
        for server in &mut self.servers {
            server.start().map_err(|error| error.to_string())?;
            server.ready(READY_WITHIN).await?;
        }
        // First the workers without tokens. Two in four are nameless: they share a name only with each other.
        let plain = (workers * plain_percent).div_ceil(100);
        for index in 0..workers {
            let dialect = DIALECTS[index % DIALECTS.len()];
            let nature = if index < plain { Nature::Plain(dialect) } else { Nature::Sdk };
            self.start_worker_as(index, nature).await?;
        }
        Ok(())
    }

    /// Creates everything except the processes.
    pub(crate) async fn prepare(binary: &Path, store: Database, plan: Plan) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let database = match store {
            Database::Sqlite => None,
            Database::Postgres => Some(flovyn_testkit::fresh_database().await),
        };
        let url = match &database {
            Some(database) => database.url.clone(),
            None => format!("sqlite:{}", folder.path().join("flovyn.db").display()),
        };
        let proxy = if plan.proxied { Some(Proxy::start(&url).await) } else { None };
        let settings = format!(
            "database_url = {:?}\nmetrics.access = \"loopback\"\ntelemetry.log_filter = \"warn\"\n\
             limits.session_lease_ms = {lease}\nlimits.workflow_lease_ms = {lease}\n\
             limits.task_lease_ms = {lease}\nlimits.worker_silence_ms = {lease}\n\
             [[tenants]]\nslug = \"chaos\"\n[[tenants.worker_tokens]]\nname = \"chaos\"\ntoken = {TOKEN:?}\n\
             [[tenants]]\nslug = \"other\"\n[[tenants.worker_tokens]]\nname = \"other\"\ntoken = {OTHER_TOKEN:?}\n",
            proxy.as_ref().map_or(&url, |proxy| &proxy.url),
            lease = plan.session_lease_ms
        );
        let server =
            |index: usize| ServerProcess::new(binary, folder.path(), &format!("server-{index}"), &settings);
        let servers = (0..plan.servers).map(server).collect::<Result<_, _>>();
        let servers = servers.map_err(|error| error.to_string())?;
        let mut world = Self {
            servers,
            workers: Vec::new(),
            refused: 0,
            plain: BTreeMap::new(),
            proxy,
            binary: binary.to_owned(),
            url,
            folder,
            _database: database,
        };
        for (index, skew_ms) in plan.skews_ms.iter().enumerate() {
            world.preload(index, &[("FLOVYN_TEST_SHIM_SKEW_MS", skew_ms.to_string().into())])?;
        }
        Ok(world)
    }

    /// Preloads the shim into a server from its next start on.
    pub(crate) fn preload(
        &mut self,
        server: usize,
        settings: &[(&'static str, OsString)],
    ) -> Result<(), String> {
        let shim = self.binary.with_file_name("libflovyn_testkit_shim.so");
        if !shim.exists() {
            return Err(format!("{} is not there: run `cargo build -p flovyn-testkit-shim`", shim.display()));
        }
        let server = &mut self.servers[server];
        server.set_variable("LD_PRELOAD", shim);
        for (name, value) in settings {
            server.set_variable(name, value.clone());
        }
        Ok(())
    }

    /// The path of an embedded database without links: SQLite opens it by this path.
    pub(crate) fn database_path(&self) -> Result<PathBuf, String> {
        let folder = self.folder.path().canonicalize().map_err(|error| error.to_string())?;
        Ok(folder.join("flovyn.db"))
    }

    fn fault_path(&self) -> PathBuf {
        self.folder.path().join("fault")
    }

    /// Makes the disk fail in this way from now on.
    pub(crate) fn disk_fails(&self, how: &str) -> Result<(), String> {
        // Renamed, so that a server does not read an incomplete file.
        let new = self.folder.path().join("fault.new");
        let made = std::fs::write(&new, how).and_then(|()| std::fs::rename(&new, self.fault_path()));
        made.map_err(|error| error.to_string())
    }

    pub(crate) fn disk_works(&self) -> Result<(), String> {
        std::fs::remove_file(self.fault_path()).map_err(|error| error.to_string())
    }

    /// The output of `flovyn doctor`. `None`: it found nothing wrong.
    pub(crate) async fn doctor(&self) -> Result<Option<String>, String> {
        let mut command = tokio::process::Command::new(&self.binary);
        command.args(["doctor", "--database-url", &self.url]).stdin(Stdio::null());
        let output = command.output().await.map_err(|error| error.to_string())?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(None),
            false => Ok(Some(format!("{}\n{}", said(&output.stdout), said(&output.stderr)))),
        }
    }

    pub(crate) fn clients(&self) -> Result<Vec<Client>, String> {
        let client = |server: &ServerProcess| Client::new(&server.grpc_url, TOKEN).map_err(|e| e.to_string());
        self.servers.iter().map(client).collect()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a worker. The workers are spread over the servers.
    pub(crate) async fn start_worker(&mut self, index: usize) -> Result<(), String> {
        self.add_worker(index, TOKEN, SLOTS, Nature::Sdk).await
    }

    pub(crate) async fn start_worker_as(&mut self, index: usize, nature: Nature) -> Result<(), String> {
        self.add_worker(index, TOKEN, SLOTS, nature).await
    }

    pub(crate) async fn start_worker_with(&mut self, index: usize, slots: u32) -> Result<(), String> {
        self.add_worker(index, TOKEN, slots, Nature::Sdk).await
    }

    /// Starts a worker of the tenant that the token belongs to.
    pub(crate) async fn start_worker_of(&mut self, index: usize, token: &str) -> Result<(), String> {
        self.add_worker(index, token, SLOTS, Nature::Sdk).await
    }

    async fn add_worker(
        &mut self,
        index: usize,
        token: &str,
        slots: u32,
        nature: Nature,
    ) -> Result<(), String> {
        let url = self.servers[index % self.servers.len()].grpc_url.clone();
        let worker = WorkerProcess::start(&url, token, self.folder.path(), slots, nature).await?;
        if let Nature::Plain(dialect) = worker.nature {
            self.plain.insert(worker.id, dialect);
        }
        self.workers.push(worker);
        Ok(())
    }

    /// Kills a server and starts it again. Returns how long the restart took.
    pub(crate) async fn kill_server(&mut self, index: usize) -> Result<Duration, String> {
        let server = &mut self.servers[index];
        let begin = Instant::now();
        server.kill().await;
        server.start().map_err(|error| error.to_string())?;
        server.ready(READY_WITHIN).await?;
        Ok(begin.elapsed())
    }

    /// Ends all processes and opens their database.
    pub(crate) async fn end(&mut self) -> Result<Arc<dyn Store>, String> {
        for worker in self.workers.drain(..) {
            self.refused += worker.finish().await?;
        }
        for server in &mut self.servers {
            if !server.is_running() {
                return Err(format!("a server ended by itself:\n{}", server.log_tail()));
            }
            server.kill().await;
        }
        self.store().await
    }

    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>, String> {
        flovyn_store::open::store(&self.url).await.map_err(|error| error.to_string())
    }

    /// Keeps the files of a failed run. Returns their folder.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}
