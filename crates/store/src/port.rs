//! The storage port: what the service needs from a database, without how a database does it.
//!
//! A store loads rows and applies row changes as one transaction. It decides nothing: what to load and what to
//! write comes from the [`Decider`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use flovyn_engine::event::TaskPayloads;
use flovyn_engine::ids::{ExecutionId, PromiseId, TaskId, TenantId, Text, WorkerId};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Batch, BatchStep, Loaded, Mutations, Now, Wants};
use tokio::sync::watch;
use uuid::Uuid;

use crate::inspect::Inspect;
use crate::integrity::FileHealth;

/// What the store must do next for a batch.
#[derive(Debug)]
pub enum Step {
    Load(Arc<Wants>),
    /// Write all mutations or none, and make them durable.
    Commit(Box<Mutations>),
    /// There is nothing to write.
    Done,
}

/// What a store sees of a batch. The store asks for the next step until the batch commits or is done.
///
/// The first call of `step` receives `None`, and every later call receives the answer to the load before. The
/// first step is always a load, because only a load tells the time.
pub trait Decider: Send {
    fn step(&mut self, loaded: Option<Loaded>) -> Step;

    /// Whether the batch is so small that the store may run it on the caller's thread. That blocks the thread
    /// for one commit, but answers sooner than a second thread would.
    fn is_small(&self) -> bool {
        false
    }

    /// Whether another batch is about to come, which can be decided while this batch is being written.
    fn is_followed(&self) -> bool {
        false
    }
}

/// A batch on its own: load until everything is decided, then write.
impl Decider for Batch {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        match self.advance(loaded) {
            BatchStep::Load(wants) => Step::Load(wants),
            BatchStep::Decided => {
                let mutations = self.take_mutations();
                if mutations.is_empty() { Step::Done } else { Step::Commit(Box::new(mutations)) }
            }
        }
    }
}

/// A batch that can move to the store's own thread and back.
pub type SharedDecider = Arc<Mutex<dyn Decider>>;

/// Asks a batch for its next step. If the batch panics, nothing of it is written, and the store serves other
/// batches as before.
pub(crate) fn next_step(batch: &SharedDecider, loaded: Option<Loaded>) -> StoreResult<Step> {
    let step = || batch.lock().unwrap_or_else(PoisonError::into_inner).step(loaded);
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
        StoreError::Refused(format!("the batch panicked: {}", message.unwrap_or("no message")))
    })
}

#[derive(Debug, Clone, Copy)]
pub struct TransactOptions {
    /// PostgreSQL writes this id with the batch. If the answer to COMMIT is lost, the id shows whether the
    /// batch was written. SQLite ignores it.
    pub batch_id: Uuid,
    /// Wait (in key order) for rows that other transactions have locked, instead of reporting them as busy.
    pub wait_for_locks: bool,
}

/// Why a read or a batch failed. Nothing was written, except perhaps after `OutcomeUnknown` and `Fatal`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Another writer changed a row or inserted the same key first: decide again on fresh rows.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The database cannot store what the batch contains.
    #[error("refused by the database: {0}")]
    Refused(String),
    /// The database cannot be reached. Nothing was written.
    #[error("database unavailable: {0}")]
    Unavailable(String),
    /// The connection failed before the database said whether the batch was written, and asking again failed.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// The data on disk may no longer be the data that was acknowledged: the process must stop.
    #[error("fatal storage error: {0}")]
    Fatal(String),
    /// The database no longer contains what was written to it: the process must stop, and an operator has to
    /// restore a backup.
    #[error(
        "the database is damaged: {0}; restore a backup: https://github.com/flovyn/flovyn/blob/main/docs/errors/FLV0079.md"
    )]
    Damaged(String),
}

impl StoreError {
    /// Whether nothing may be written after this error.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Fatal(_) | Self::Damaged(_))
    }
}

pub type StoreResult<T> = Result<T, StoreError>;

/// Which executions to list. An execution must meet all given conditions; `None` is no condition.
#[derive(Debug, Clone, Default)]
pub struct ExecutionFilter {
    pub status: Option<ExecutionStatus>,
    /// Only executions that have not finished.
    pub open_only: bool,
    pub kind: Option<Text>,
    pub queue: Option<Text>,
    pub label: Option<(Text, Text)>,
    /// The idempotency key or workflow key of the start.
    pub key: Option<Text>,
    pub parent_id: Option<ExecutionId>,
    pub created_from_ms: Option<i64>,
    pub created_before_ms: Option<i64>,
}

/// Which standalone tasks to list.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    pub status: Option<TaskStatus>,
    pub task_type: Option<Text>,
    pub queue: Option<Text>,
}

/// Which entries of the audit log to list.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub actor: Option<Text>,
    pub action: Option<AuditAction>,
    pub target: Option<Text>,
}

/// A page of a listing, newest first.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Creation time and id of the last item of the previous page. `None`: the first page.
    pub after: Option<(i64, Uuid)>,
    pub offset: usize,
    pub limit: usize,
}

/// An event with the data that is needed to show it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedEvent {
    pub event: Event,
    /// Payloads of the task that the event is about. They are stored with the task, not with the event. `None` if
    /// the event needs no payload of a task.
    pub task: Option<TaskPayloads>,
}

/// One queue's backlog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDepth {
    pub queue: Text,
    pub class: WorkClass,
    /// Number of ready rows: exact up to the limit of the read, then the limit.
    pub ready: i64,
    /// Sort time of the first row in order of work.
    pub oldest_sort_ms: Option<i64>,
}

/// Another process made work ready in this queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hint {
    pub tenant_id: TenantId,
    pub class: WorkClass,
    pub queue: Text,
}

/// Reading and writing. Every read names its tenant, except the reads of the loops.
#[async_trait]
pub trait Store: Inspect + 'static {
    /// Runs one batch as one transaction. `Ok` means that the mutations of the decider are durable. The rows
    /// on which the batch was decided are durable too.
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()>;

    async fn now(&self) -> StoreResult<Now>;

    /// Whether other processes may write to the same database.
    fn is_shared(&self) -> bool {
        false
    }

    /// The health of the database file while it is in use. `None` if the database is not a file of this process.
    fn file_health(&self) -> Option<Arc<FileHealth>> {
        None
    }

    /// Records the addresses of this server beside the database file. A process that fails to open the same
    /// file shows them in its error. A database of many processes records nothing.
    fn serves_at(&self, _addresses: &str) {}

    /// A channel that closes once the database is closed: after the store was dropped and the last read has
    /// ended. `None` if other processes may use the database too, so that nobody has to wait for this one.
    fn closes(&self) -> Option<watch::Receiver<()>> {
        None
    }

    /// Whether a batch can be decided while another one is being written.
    fn overlaps_batches(&self) -> bool {
        self.is_shared()
    }

    /// Sends a hint to other processes on the same database that these lanes have work. Returns at once. Hints
    /// may be lost: polling finds the work anyway. A database of one process sends none.
    fn hint_ready(&self, _lanes: &[Lane]) {}

    /// Receives hints of other processes until the receiver is dropped. `None` if the database has no other
    /// processes.
    fn hints(&self) -> Option<tokio::sync::mpsc::Receiver<Hint>> {
        None
    }

    // For loops: all tenants.
    /// Rows of `due` up to this time, earliest first.
    async fn due_page(&self, clock: ClockKind, until_ms: i64, limit: usize) -> StoreResult<Vec<Due>>;
    /// Time of the earliest row of `due`. `None` if there is no row.
    async fn due_next(&self, clock: ClockKind) -> StoreResult<Option<i64>>;
    async fn tenant_list(&self, after: Option<TenantId>, limit: usize) -> StoreResult<Vec<Tenant>>;
    /// Executions that finished before a time, oldest first.
    async fn execution_finished(
        &self,
        tenant: TenantId,
        before_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionId>>;
    /// Standalone tasks that finished before a time, oldest first.
    async fn task_finished(&self, tenant: TenantId, before_ms: i64, limit: usize)
    -> StoreResult<Vec<TaskId>>;
    /// Which of these lanes have work in the ready table.
    async fn lanes_with_work(&self, lanes: &[Lane]) -> StoreResult<Vec<Lane>>;
    /// Lanes with work in a queue, for claims that name no kinds.
    async fn lanes_of_queue(
        &self,
        tenant: TenantId,
        class: WorkClass,
        queue: &str,
        limit: usize,
    ) -> StoreResult<Vec<Lane>>;
    /// Whether this process may do the job of this name now. Only one process does it, once in `every_ms`: the
    /// first process that asks after that time takes the turn. If that process dies, the turn is free again after
    /// `every_ms`.
    async fn turn_take(&self, _name: &str, _every_ms: i64) -> StoreResult<bool> {
        Ok(true)
    }
    /// Deletes up to `limit` ids of batches that were written before a time, and returns how many it deleted. No
    /// process asks for the outcome of such an old batch.
    async fn batch_cleanup(&self, before_ms: i64, limit: usize) -> StoreResult<usize>;

    // For people and workers.
    async fn tenant_get(&self, id: TenantId) -> StoreResult<Option<Tenant>>;
    async fn tenant_by_slug(&self, slug: &str) -> StoreResult<Option<Tenant>>;
    /// `None` if no quota was ever set for the tenant.
    async fn quota_get(&self, tenant: TenantId) -> StoreResult<Option<Quota>>;
    async fn worker_token_by_hash(&self, hash: &[u8]) -> StoreResult<Option<WorkerToken>>;
    async fn audit_list(
        &self,
        tenant: TenantId,
        filter: &AuditFilter,
        page: Page,
    ) -> StoreResult<Vec<AuditEntry>>;
    async fn worker_token_list(&self, tenant: TenantId) -> StoreResult<Vec<WorkerToken>>;
    async fn worker_list(&self, tenant: TenantId) -> StoreResult<Vec<(Worker, Vec<WorkerCapability>)>>;
    async fn worker_get(
        &self,
        tenant: TenantId,
        id: WorkerId,
    ) -> StoreResult<Option<(Worker, Vec<WorkerCapability>)>>;
    /// All workers with this name. Several processes may share a name; each has its own id.
    async fn workers_named(&self, tenant: TenantId, name: &str) -> StoreResult<Vec<Worker>>;
    async fn paused_queue_list(&self, tenant: TenantId) -> StoreResult<Vec<PausedQueue>>;
    async fn queue_depths(&self, tenant: TenantId, limit: i64) -> StoreResult<Vec<QueueDepth>>;

    async fn execution_get(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Option<Execution>>;
    async fn execution_list(
        &self,
        tenant: TenantId,
        filter: &ExecutionFilter,
        page: Page,
    ) -> StoreResult<Vec<Execution>>;
    async fn execution_labels(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Vec<Label>>;
    async fn execution_states(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Vec<StateEntry>>;
    /// The last event of each of these executions that has ended, ordered by execution id.
    async fn execution_ends(&self, tenant: TenantId, ids: &[ExecutionId]) -> StoreResult<Vec<Event>>;
    /// Events after a sequence number, in order, with the payloads of the execution's tasks.
    async fn event_page(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<LoggedEvent>>;
    async fn timer_list(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<Timer>>;
    async fn promise_list(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<Promise>>;
    async fn promise_get(&self, tenant: TenantId, id: PromiseId) -> StoreResult<Option<Promise>>;
    async fn idempotency_key_get(
        &self,
        tenant: TenantId,
        space: KeySpace,
        name: &str,
    ) -> StoreResult<Option<IdempotencyKey>>;
    async fn execution_tasks(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreResult<Vec<Task>>;

    async fn task_get(&self, tenant: TenantId, id: TaskId) -> StoreResult<Option<Task>>;
    /// Standalone tasks only.
    async fn task_list(&self, tenant: TenantId, filter: &TaskFilter, page: Page) -> StoreResult<Vec<Task>>;
    /// Number of standalone tasks: exact up to the limit, then the limit.
    async fn task_count(&self, tenant: TenantId, filter: &TaskFilter, limit: i64) -> StoreResult<i64>;
    async fn attempt_list(&self, tenant: TenantId, id: TaskId) -> StoreResult<Vec<Attempt>>;
    async fn task_log_page(
        &self,
        tenant: TenantId,
        id: TaskId,
        after_line: i64,
        limit: usize,
    ) -> StoreResult<Vec<TaskLog>>;
    async fn task_state_list(&self, tenant: TenantId, id: TaskId) -> StoreResult<Vec<TaskState>>;

    /// Every row of every table in key order, for tests and checkers.
    async fn snapshot(&self) -> StoreResult<Snapshot>;
}
