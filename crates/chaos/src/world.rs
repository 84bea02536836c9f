//! The processes and files of one run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flovyn_sdk::Client;
use flovyn_store::port::Store;
use flovyn_testkit::{Proxy, ServerProcess, TestDatabase};

use crate::Database;
use crate::worker::WorkerProcess;

/// Of throw-away servers, on loopback.
const TOKEN: &str = "flovyn-chaos-worker-token-0123456789abcdef";
const READY_WITHIN: Duration = Duration::from_secs(30);
const SLOTS: u32 = 100;

/// What the processes of a run are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    pub(crate) session_lease_ms: u64,
    /// Whether servers reach PostgreSQL through a proxy that can lose replies.
    pub(crate) proxied: bool,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) servers: Vec<ServerProcess>,
    pub(crate) workers: Vec<WorkerProcess>,
    /// Results of workers that have ended which the server did not take.
    pub(crate) refused: u64,
    pub(crate) proxy: Option<Proxy>,
    url: String,
    folder: tempfile::TempDir,
    // Dropped last: it can be removed only when nobody uses it.
    _database: Option<TestDatabase>,
}

impl World {
    pub(crate) async fn start(binary: &Path, store: Database, plan: Plan) -> Result<Self, String> {
        let mut world = Self::prepare(binary, store, plan).await?;
        for server in &mut world.servers {
            server.start().map_err(|error| error.to_string())?;
            server.ready(READY_WITHIN).await?;
        }
        for index in 0..plan.workers {
            world.start_worker(index).await?;
        }
        Ok(world)
    }

    /// Everything but its processes.
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
            "database_url = {:?}\nmetrics.public = true\ntelemetry.log_filter = \"warn\"\n\
             limits.session_lease_ms = {}\n\
             [[tenants]]\nslug = \"chaos\"\n[[tenants.worker_tokens]]\nname = \"chaos\"\ntoken = {TOKEN:?}\n",
            proxy.as_ref().map_or(&url, |proxy| &proxy.url),
            plan.session_lease_ms
        );
        let server =
            |index: usize| ServerProcess::new(binary, folder.path(), &format!("server-{index}"), &settings);
        let servers = (0..plan.servers).map(server).collect::<Result<_, _>>();
        let servers = servers.map_err(|error| error.to_string())?;
        Ok(Self { servers, workers: Vec::new(), refused: 0, proxy, url, folder, _database: database })
    }

    pub(crate) fn clients(&self) -> Result<Vec<Client>, String> {
        let client = |server: &ServerProcess| Client::new(&server.grpc_url, TOKEN).map_err(|e| e.to_string());
        self.servers.iter().map(client).collect()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A worker of one of the servers, in turn.
    pub(crate) async fn start_worker(&mut self, index: usize) -> Result<(), String> {
        self.start_worker_with(index, SLOTS).await
    }

    pub(crate) async fn start_worker_with(&mut self, index: usize, slots: u32) -> Result<(), String> {
        let url = self.servers[index % self.servers.len()].grpc_url.clone();
        let worker = WorkerProcess::start(&url, TOKEN, self.folder.path(), slots).await?;
        self.workers.push(worker);
        Ok(())
    }

    /// Kills a server and starts it again. Returns how long it took until it was ready.
    pub(crate) async fn kill_server(&mut self, index: usize) -> Result<Duration, String> {
        let server = &mut self.servers[index];
        let begin = Instant::now();
        server.kill().await;
        server.start().map_err(|error| error.to_string())?;
        server.ready(READY_WITHIN).await?;
        Ok(begin.elapsed())
    }

    /// Ends all processes and opens what they left behind.
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

    /// Leaves the files of a failed run where they are, and says where.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}
