//! The builder of a worker: its definitions, limits and hooks.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::cache::Cache;
use super::registry::Registry;
use super::{AckHook, Hook, Setup, Worker, WorkerEvent};
use crate::context::WorkflowContext;
use crate::definition::{
    Dynamic, DynamicTask, Schemas, TaskDefinition, TaskEntry, TaskSet, WorkflowDefinition,
};
use crate::error::Result;
use crate::task::{Extensions, TaskContext};
use crate::tls::Tls;
use crate::wire::Channel;

/// Default number of activations, and of tasks, that run at a time.
const SLOTS: u32 = 100;
/// Default number of waiting workflows kept in memory.
const CACHED: usize = 1_000;
/// Default time that in-flight work has to complete when the worker stops.
const DRAIN: Duration = Duration::from_secs(30);

/// Configures a worker. Made with [`Worker::builder`].
pub struct WorkerBuilder {
    url: String,
    token: String,
    tls: Option<Tls>,
    name: Option<String>,
    queue: String,
    build_id: String,
    registry: Registry,
    extensions: Extensions,
    max_workflows: u32,
    max_tasks: u32,
    cached: usize,
    drain: Duration,
    paused: bool,
    hook: Option<Hook>,
    ack_hook: Option<AckHook>,
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
            tls: None,
            name: None,
            queue: "default".into(),
            build_id: String::new(),
            registry: Registry::default(),
            extensions: Extensions::default(),
            max_workflows: SLOTS,
            max_tasks: SLOTS,
            cached: CACHED,
            drain: DRAIN,
            paused: false,
            hook: None,
            ack_hook: None,
        }
    }

    /// TLS settings, such as a private CA or a client certificate. A URL with `https://` needs no others.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The name of the worker in lists. The default has the process id and a number of the session.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The queue that the worker serves. The default is `default`.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Names the build. An execution that is held back after a failure of one build goes to another build at once.
    #[must_use]
    pub fn build_id(mut self, build_id: impl Into<String>) -> Self {
        self.build_id = build_id.into();
        self
    }

    /// Registers a workflow. Several versions of one kind may be registered: an execution that names a version runs
    /// on that version. An execution without a version runs on the definition without a version, or else on the
    /// definition that was registered first.
    #[must_use]
    pub fn workflow<W: WorkflowDefinition>(mut self, workflow: W) -> Self {
        self.registry.add_workflow(W::KIND, W::VERSION, W::schemas(), Arc::new(workflow));
        self
    }

    /// Registers a workflow made from a closure, with JSON values as input and output.
    #[must_use]
    pub fn workflow_fn<F, R>(mut self, kind: &str, run: F) -> Self
    where
        F: Fn(WorkflowContext, Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value>> + Send + 'static,
    {
        self.registry.add_workflow(kind, None, Schemas::default(), Arc::new(Dynamic(run)));
        self
    }

    #[must_use]
    pub fn task<T: TaskDefinition>(mut self, task: T) -> Self {
        self.registry.add_task(T::KIND, T::schemas(), Arc::new(task));
        self
    }

    /// Registers all tasks of a set, which share a dependency: see [`#[tasks]`](macro@crate::tasks).
    #[must_use]
    pub fn tasks<S: TaskSet>(mut self, tasks: S) -> Self {
        for TaskEntry { kind, schemas, definition } in Arc::new(tasks).tasks() {
            self.registry.add_task(kind, schemas, definition);
        }
        self
    }

    /// Adds a value that all tasks can read by its type with [`TaskContext::extension`]. At most one value of each
    /// type.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        if !self.extensions.add(value) {
            self.registry.refuse(format!(
                "two extensions have the type `{}`: wrap each in a type of its own",
                std::any::type_name::<T>()
            ));
        }
        self
    }

    /// Registers a task made from a closure, with JSON values as input and output.
    #[must_use]
    pub fn task_fn<F, R>(mut self, task_type: &str, run: F) -> Self
    where
        F: Fn(TaskContext, Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value>> + Send + 'static,
    {
        self.registry.add_task(task_type, Schemas::default(), Arc::new(DynamicTask(run)));
        self
    }

    /// Maximum number of activations that run at a time.
    #[must_use]
    pub fn max_workflows(mut self, count: u32) -> Self {
        self.max_workflows = count;
        self
    }

    /// Maximum number of tasks that run at a time.
    #[must_use]
    pub fn max_tasks(mut self, count: u32) -> Self {
        self.max_tasks = count;
        self
    }

    /// Maximum number of waiting workflows kept in memory. With 0 every activation replays its history; results are
    /// the same.
    #[must_use]
    pub fn cache_size(mut self, count: usize) -> Self {
        self.cached = count;
        self
    }

    /// How long in-flight work may take to complete after [`WorkerHandle::stop`](super::WorkerHandle::stop).
    #[must_use]
    pub fn drain_within(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// Starts the worker paused: it connects and takes no work before
    /// [`WorkerHandle::resume`](super::WorkerHandle::resume).
    #[must_use]
    pub fn paused(mut self) -> Self {
        self.paused = true;
        self
    }

    /// Sets a hook that is called for every [`WorkerEvent`].
    #[must_use]
    pub fn on_event(mut self, hook: impl Fn(&WorkerEvent) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Sets a hook that is called when the server has made the outcome of an attempt durable, success or failure. The
    /// hook receives the task's id and the number of the claim, which the task sees as
    /// [`TaskContext::fencing_token`].
    #[must_use]
    pub fn on_task_acknowledged(mut self, hook: impl Fn(Uuid, i64) + Send + Sync + 'static) -> Self {
        self.ack_hook = Some(Arc::new(hook));
        self
    }

    /// Builds the worker. It connects when it is started.
    ///
    /// # Errors
    /// Fails if nothing is registered, a definition or an extension is registered twice, or the URL, the token or a
    /// certificate cannot be used.
    pub fn build(self) -> Result<Worker> {
        self.registry.check()?;
        let session = Uuid::new_v4();
        let own_name = || format!("worker-{}-{}", std::process::id(), session.as_fields().0);
        let setup = Setup {
            channel: Channel::lazy(&self.url, &self.token, self.tls.as_ref())?,
            session,
            name: self.name.unwrap_or_else(own_name),
            queue: self.queue,
            build_id: self.build_id,
            registry: self.registry,
            extensions: Arc::new(self.extensions),
            max_workflows: self.max_workflows,
            max_tasks: self.max_tasks,
            drain: self.drain,
            paused: self.paused,
            hook: self.hook,
            ack_hook: self.ack_hook,
            limits: Default::default(),
            metrics: Arc::default(),
        };
        Ok(Worker { setup: Arc::new(setup), cache: Arc::new(Cache::new(self.cached)) })
    }
}
