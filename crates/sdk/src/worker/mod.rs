//! Runs workflows and tasks: one connection to a server, work as it comes, results as they are done.
//!
//! - `builder`: what a worker can run and how much at a time.
//! - `desk`: what is under way: slots, claims, results that are not acknowledged.
//! - `connection`: the stream, and connecting again when it broke.
//! - `activation`: one step of a workflow. `cache`: workflows that wait, in memory.
//! - `attempt`: one attempt of a task. `ahead`: the step of its workflow that follows, when both are here.

mod activation;
mod ahead;
mod attempt;
mod builder;
mod cache;
mod connection;
mod desk;
mod rows;

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use uuid::Uuid;

pub use self::builder::WorkerBuilder;
use self::cache::Cache;
use self::desk::Desk;
use crate::definition::{AnyTask, AnyWorkflow, Schemas};
use crate::replay::panic_message;
use crate::wire::Channel;

/// What happens to a worker, for whoever wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEvent {
    Connected,
    /// With the reason; it connects again by itself.
    Disconnected(String),
    /// An activation failed: the workflow is held back and tried again.
    ActivationFailed {
        execution_id: Uuid,
        code: String,
        message: String,
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
    /// Steps of workflows that were run.
    activations,
    activations_failed,
    /// Steps among them that went with the result of the task that the workflow waited for, and were accepted.
    continued,
    /// Workflows that were replayed from the start of their history.
    cold_starts,
    /// Attempts of tasks that were run.
    tasks,
    tasks_failed,
    /// Attempts whose result the server has made durable.
    tasks_acknowledged,
    /// Steps whose result the server did not take, because the claim had ended meanwhile or for another reason.
    activations_refused,
    /// Attempts whose result the server did not take, likewise.
    tasks_refused,
    /// Times it connected.
    connections,
    /// Work that came again under a claim that was under way, and was not run again.
    duplicates_dropped,
}

type Hook = Arc<dyn Fn(&WorkerEvent) + Send + Sync>;

struct RegisteredWorkflow {
    version: Option<String>,
    schemas: Schemas,
    definition: Arc<dyn AnyWorkflow>,
    /// It was seen to ask for what only the log can give, such as the time, or for more than fits: not to go ahead with.
    needs_log: AtomicBool,
}

struct RegisteredTask {
    schemas: Schemas,
    definition: Arc<dyn AnyTask>,
}

/// Everything that does not change while a worker runs.
struct Setup {
    channel: Channel,
    session: Uuid,
    name: String,
    queue: String,
    build_id: String,
    workflows: HashMap<String, RegisteredWorkflow>,
    tasks: HashMap<String, RegisteredTask>,
    max_workflows: u32,
    max_tasks: u32,
    drain: Duration,
    paused: bool,
    hook: Option<Hook>,
    metrics: Arc<WorkerMetrics>,
}

impl Setup {
    fn tell(&self, event: &WorkerEvent) {
        if let Some(hook) = &self.hook {
            unharmed("in the hook for events", || hook(event));
        }
    }
}

/// Runs what may be users' code where a panic would take others' work along.
fn unharmed(place: &str, code: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        tracing::error!(message = panic_message(panic.as_ref()), place, "users' code panicked");
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
    /// Says where the server is and with which token to work for it.
    pub fn builder(url: impl Into<String>, token: impl Into<String>) -> WorkerBuilder {
        WorkerBuilder::new(url.into(), token.into())
    }

    /// Starts it in the background.
    pub fn start(self) -> WorkerHandle {
        let desk = Arc::new(Desk::new(self.setup.max_workflows, self.setup.max_tasks));
        desk.pause(self.setup.paused);
        let runs = tokio::spawn(connection::run(self.setup.clone(), self.cache, desk.clone()));
        WorkerHandle { setup: self.setup, desk, runs }
    }

    /// Runs it until the future completes (Ctrl-C, say), then lets it finish what it has.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let handle = self.start();
        stop.await;
        handle.stop().await;
    }
}

/// A worker that runs.
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
    /// Takes no new work until [`resume`](Self::resume). What it has goes on.
    pub fn pause(&self) {
        self.desk.pause(true);
    }

    pub fn resume(&self) {
        self.desk.pause(false);
    }

    pub fn metrics(&self) -> &WorkerMetrics {
        &self.setup.metrics
    }

    /// Takes no new work, finishes what it has (for a bounded time), says goodbye.
    pub async fn stop(self) {
        self.desk.stop();
        if let Err(error) = self.runs.await {
            tracing::error!(%error, "the worker failed");
        }
        self.setup.tell(&WorkerEvent::Stopped);
    }

    /// Ends it at once, as a crash would.
    pub fn abort(self) {
        self.runs.abort();
    }
}
