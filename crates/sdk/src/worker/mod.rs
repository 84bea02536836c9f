//! The worker: one connection to the server that receives work and sends results.
//!
//! - `builder`: the configuration of a worker. `registry`: its definitions, by kind and version.
//! - `limits`: the server's limits.
//! - `desk`: the work in flight: slots, claims, unacknowledged results.
//! - `connection`: the stream, and reconnecting after a failure.
//! - `activation`: one activation of a workflow. `cache`: waiting workflows in memory.
//! - `attempt`: one attempt of a task. `ahead`: the next step of its workflow, if this worker has both.

mod activation;
mod ahead;
mod attempt;
mod builder;
mod cache;
mod connection;
mod desk;
mod limits;
mod registry;
mod rows;

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use uuid::Uuid;

pub use self::builder::WorkerBuilder;
use self::cache::Cache;
use self::desk::Desk;
use self::registry::Registry;
use crate::replay::panic_message;
use crate::task::Extensions;
use crate::wire::Channel;

/// An event of a worker, passed to the hook of [`WorkerBuilder::on_event`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEvent {
    Connected,
    /// The connection broke, with the reason. The worker reconnects by itself.
    Disconnected(String),
    /// An activation failed, or was too large to be sent. The workflow is held back and retried.
    ActivationFailed {
        execution_id: Uuid,
        code: String,
        message: String,
    },
    /// The server refused an activation. If a retry cannot help, the execution is held back, and it fails after 5
    /// equal refusals in a row.
    ActivationRefused {
        execution_id: Uuid,
        kind: String,
        code: String,
        message: String,
    },
    /// The result of an attempt was refused, or too large to be sent. If a retry cannot help, the task has failed.
    TaskRefused {
        task_id: Uuid,
        task_type: String,
        code: String,
        message: String,
    },
    /// A heartbeat of a task was refused. The task continues.
    HeartbeatRefused {
        task_id: Uuid,
        code: String,
        message: String,
    },
    /// A workflow ended without reading all signals that it had received. `signals` has the number of unread signals
    /// by name.
    SignalsUnread {
        execution_id: Uuid,
        kind: String,
        signals: BTreeMap<String, usize>,
    },
    Stopped,
}

/// Counters of a worker.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    activations: AtomicU64,
    activations_failed: AtomicU64,
    continued: AtomicU64,
    cold_starts: AtomicU64,
    tasks: AtomicU64,
    tasks_failed: AtomicU64,
    tasks_acknowledged: AtomicU64,
    activations_refused: AtomicU64,
    tasks_refused: AtomicU64,
    connections: AtomicU64,
    duplicates_dropped: AtomicU64,
}

macro_rules! readings {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        impl WorkerMetrics {
            $($(#[$meta])* pub fn $name(&self) -> u64 { self.$name.load(Ordering::Relaxed) })*
        }
    };
}
readings! {
    /// Activations that ran.
    activations,
    activations_failed,
    /// Activations that were sent together with the result of the task that the workflow waited for, and that the
    /// server accepted.
    continued,
    /// Workflows that were replayed from the start of their history.
    cold_starts,
    /// Attempts of tasks that ran.
    tasks,
    tasks_failed,
    /// Attempts whose result the server has made durable.
    tasks_acknowledged,
    /// Activations that the server refused, for example because the claim had ended.
    activations_refused,
    /// Attempts whose result the server refused, for example because the claim had ended.
    tasks_refused,
    /// Successful connections.
    connections,
    /// Claims that were delivered while already running. They are dropped, not run again.
    duplicates_dropped,
}

type Hook = Arc<dyn Fn(&WorkerEvent) + Send + Sync>;
type AckHook = Arc<dyn Fn(Uuid, i64) + Send + Sync>;

/// The settings of a worker, and what its parts share while it runs.
struct Setup {
    channel: Channel,
    session: Uuid,
    name: String,
    queue: String,
    build_id: String,
    registry: Registry,
    extensions: Arc<Extensions>,
    max_workflows: u32,
    max_tasks: u32,
    drain: Duration,
    paused: bool,
    hook: Option<Hook>,
    ack_hook: Option<AckHook>,
    /// Limits of the server.
    limits: limits::ServerLimits,
    metrics: Arc<WorkerMetrics>,
}

impl Setup {
    fn tell(&self, event: &WorkerEvent) {
        if let Some(hook) = &self.hook {
            unharmed("in the event hook", || hook(event));
        }
    }
}

/// Runs code that may be user code, and logs a panic instead of passing it on, so that other work is not affected.
fn unharmed(place: &str, code: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        tracing::error!(message = panic_message(panic.as_ref()), place, "user code panicked");
    }
}

/// A worker that is ready to run.
pub struct Worker {
    setup: Arc<Setup>,
    cache: Arc<Cache>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("name", &self.setup.name).finish_non_exhaustive()
    }
}

impl Worker {
    /// Creates a builder for a worker of the server at this URL, with a worker token. A URL with `https://` uses TLS
    /// and trusts the system's CAs; see [`WorkerBuilder::tls`].
    pub fn builder(url: impl Into<String>, token: impl Into<String>) -> WorkerBuilder {
        WorkerBuilder::new(url.into(), token.into())
    }

    /// Starts the worker in the background.
    pub fn start(self) -> WorkerHandle {
        let desk = Arc::new(Desk::new(self.setup.max_workflows, self.setup.max_tasks));
        desk.pause(self.setup.paused);
        let runs = tokio::spawn(connection::run(self.setup.clone(), self.cache, desk.clone()));
        WorkerHandle { setup: self.setup, desk, runs }
    }

    /// Runs the worker until the future completes, for example on Ctrl-C. Then the worker stops as with
    /// [`WorkerHandle::stop`].
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let handle = self.start();
        stop.await;
        handle.stop().await;
    }
}

/// A running worker.
pub struct WorkerHandle {
    setup: Arc<Setup>,
    desk: Arc<Desk>,
    runs: JoinHandle<()>,
}

impl std::fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerHandle").field("name", &self.setup.name).finish_non_exhaustive()
    }
}

impl WorkerHandle {
    /// Pauses the worker: it takes no new work until [`resume`](Self::resume). In-flight work continues.
    pub fn pause(&self) {
        self.desk.pause(true);
    }

    pub fn resume(&self) {
        self.desk.pause(false);
    }

    pub fn metrics(&self) -> &WorkerMetrics {
        &self.setup.metrics
    }

    /// Stops the worker gracefully: it takes no new work, and in-flight work may complete within
    /// [`WorkerBuilder::drain_within`].
    pub async fn stop(self) {
        self.desk.stop();
        if let Err(error) = self.runs.await {
            tracing::error!(%error, "the worker's connection task failed");
        }
        self.setup.tell(&WorkerEvent::Stopped);
    }

    /// Stops the worker at once, as a crash would. In-flight work is lost and reassigned by the server.
    pub fn abort(self) {
        self.runs.abort();
    }
}
