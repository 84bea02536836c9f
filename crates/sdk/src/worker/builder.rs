//! What a worker can run, and how much of it at a time.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::cache::Cache;
use super::{Hook, RegisteredTask, RegisteredWorkflow, Setup, Worker, WorkerEvent};
use crate::context::WorkflowContext;
use crate::definition::{Dynamic, DynamicTask, Schemas, TaskDefinition, WorkflowDefinition};
use crate::error::{Error, Result};
use crate::task::TaskContext;
use crate::wire::Channel;

/// Slots of each kind, unless it is told otherwise.
const SLOTS: u32 = 100;
/// Workflows that wait in memory, unless it is told otherwise.
const CACHED: usize = 1_000;
/// How long a worker that stops may finish what it has, unless it is told otherwise.
const DRAIN: Duration = Duration::from_secs(30);

/// Says what a worker is to be.
pub struct WorkerBuilder {
    url: String,
    token: String,
    name: Option<String>,
    queue: String,
    build_id: String,
    workflows: HashMap<String, RegisteredWorkflow>,
    tasks: HashMap<String, RegisteredTask>,
    max_workflows: u32,
    max_tasks: u32,
    cached: usize,
    drain: Duration,
    paused: bool,
    hook: Option<Hook>,
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl WorkerBuilder {
    pub(super) fn new(url: String, token: String) -> Self {
        Self {
            url,
            token,
            name: None,
            queue: "default".into(),
            build_id: String::new(),
            workflows: HashMap::new(),
            tasks: HashMap::new(),
            max_workflows: SLOTS,
            max_tasks: SLOTS,
            cached: CACHED,
            drain: DRAIN,
            paused: false,
            hook: None,
        }
    }

    /// How people see it; host and process by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The queue it takes work from; `default`.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Names the build: workflows that one build fails on are tried by another at once.
    #[must_use]
    pub fn build_id(mut self, build_id: impl Into<String>) -> Self {
        self.build_id = build_id.into();
        self
    }

    #[must_use]
    pub fn workflow<W: WorkflowDefinition>(mut self, workflow: W) -> Self {
        let version = W::VERSION.map(str::to_owned);
        let registered = RegisteredWorkflow {
            version,
            schemas: W::schemas(),
            definition: Arc::new(workflow),
            needs_log: AtomicBool::default(),
        };
        self.workflows.insert(W::KIND.to_owned(), registered);
        self
    }

    /// A workflow made of a closure, with plain JSON.
    #[must_use]
    pub fn workflow_fn<F, R>(mut self, kind: &str, run: F) -> Self
    where
        F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value>> + Send + 'static,
    {
        let registered = RegisteredWorkflow {
            version: None,
            schemas: Schemas::default(),
            definition: Arc::new(Dynamic(run)),
            needs_log: AtomicBool::default(),
        };
        self.workflows.insert(kind.to_owned(), registered);
        self
    }

    #[must_use]
    pub fn task<T: TaskDefinition>(mut self, task: T) -> Self {
        let registered = RegisteredTask { schemas: T::schemas(), definition: Arc::new(task) };
        self.tasks.insert(T::KIND.to_owned(), registered);
        self
    }

    /// A task made of a closure, with plain JSON.
    #[must_use]
    pub fn task_fn<F, R>(mut self, task_type: &str, run: F) -> Self
    where
        F: Fn(TaskContext, Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value>> + Send + 'static,
    {
        let registered =
            RegisteredTask { schemas: Schemas::default(), definition: Arc::new(DynamicTask(run)) };
        self.tasks.insert(task_type.to_owned(), registered);
        self
    }

    /// Steps of workflows that run at a time.
    #[must_use]
    pub fn max_workflows(mut self, count: u32) -> Self {
        self.max_workflows = count;
        self
    }

    /// Tasks that run at a time.
    #[must_use]
    pub fn max_tasks(mut self, count: u32) -> Self {
        self.max_tasks = count;
        self
    }

    /// Waiting workflows that are kept in memory. Results are the same with 0; it only replays more.
    #[must_use]
    pub fn cache_size(mut self, count: usize) -> Self {
        self.cached = count;
        self
    }

    /// How long it may finish what it has when it stops.
    #[must_use]
    pub fn drain_within(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// It connects and takes nothing before [`WorkerHandle::resume`](super::WorkerHandle::resume).
    #[must_use]
    pub fn paused(mut self) -> Self {
        self.paused = true;
        self
    }

    /// Called for everything that happens to the worker.
    #[must_use]
    pub fn on_event(mut self, hook: impl Fn(&WorkerEvent) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// # Errors
    /// When it could run nothing, or the URL or token cannot be one.
    pub fn build(self) -> Result<Worker> {
        if self.workflows.is_empty() && self.tasks.is_empty() {
            return Err(Error::failed("a worker without workflows and tasks: register some first"));
        }
        let session = Uuid::new_v4();
        let own_name = || format!("worker-{}-{}", std::process::id(), session.as_fields().0);
        let setup = Setup {
            channel: Channel::lazy(&self.url, &self.token)?,
            session,
            name: self.name.unwrap_or_else(own_name),
            queue: self.queue,
            build_id: self.build_id,
            workflows: self.workflows,
            tasks: self.tasks,
            max_workflows: self.max_workflows,
            max_tasks: self.max_tasks,
            drain: self.drain,
            paused: self.paused,
            hook: self.hook,
            metrics: Arc::default(),
        };
        Ok(Worker { setup: Arc::new(setup), cache: Arc::new(Cache::new(self.cached)) })
    }
}
