//! The storage port: what the service asks of a database, and nothing of how it is done.
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

/// What a batch wants the store to do next.
#[derive(Debug)]
pub enum Step {
    Load(Arc<Wants>),
    /// Write all of it, or nothing, and make it durable.
    Commit(Box<Mutations>),
    /// There is nothing to write.
    Done,
}

/// A batch, as a store sees it: asked for the next step until it commits or is done.
///
/// The first call gets `None`; every later one the answer to the load it asked for. The first step is always a
/// load, since only a load tells the time.
pub trait Decider: Send {
    fn step(&mut self, loaded: Option<Loaded>) -> Step;

    /// Whether so few wait for it that their latency counts more than what others could do meanwhile.
    fn is_small(&self) -> bool {
        false
    }

    /// Whether others are about to come that can be decided while it is being written.
    fn is_followed(&self) -> bool {
        false
    }
}

/// A plain batch: load until decided, then write.
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

/// A batch travels to the store's own thread and back.
pub type SharedDecider = Arc<Mutex<dyn Decider>>;

/// Asks a batch for its next step. A panic in it is the batch's own fault: nothing of it is written, and the
/// store goes on.
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
    /// Written with the batch where a commit's outcome can get lost, to find out afterwards.
    pub batch_id: Uuid,
    /// Wait for rows that others have locked (in key order) instead of reporting them as busy.
    pub wait_for_locks: bool,
}

/// Why nothing was written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Another writer was faster (a version, or a key that is taken): decide again on fresh rows.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The database cannot store what the batch contains.
    #[error("refused by the database: {0}")]
    Refused(String),
    /// The database cannot be reached. Nothing was written.
    #[error("database unavailable: {0}")]
    Unavailable(String),
    /// The database did not say whether the batch was written, and cannot be asked.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// What is on disk can no longer be trusted to be what was acknowledged: the process must stop.
    #[error("fatal storage error: {0}")]
    Fatal(String),
    /// The database is not what was written to it: the process must stop, and somebody has to restore it.
    #[error(
        "the database is damaged: {0}; restore a backup: https://github.com/flovyn/flovyn/blob/main/docs/errors/FLV0079.md"
    )]
    Damaged(String),
}

impl StoreError {
    /// Whether nothing may be written after it.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Fatal(_) | Self::Damaged(_))
    }
}

pub type StoreResult<T> = Result<T, StoreError>;

/// Which executions to list. All given conditions hold.
#[derive(Debug, Clone, Default)]
pub struct ExecutionFilter {
    pub status: Option<ExecutionStatus>,
    /// Only those that have not finished.
    pub open_only: bool,
    pub kind: Option<Text>,
    pub queue: Option<Text>,
    pub label: Option<(Text, Text)>,
    /// The key that they were started with.
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
    /// Creation time and id of the last item of the page before.
    pub after: Option<(i64, Uuid)>,
    pub offset: usize,
    pub limit: usize,
}

/// An event with what it takes to render it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedEvent {
    pub event: Event,
    /// Payloads of the own task it is about.
    pub task: Option<TaskPayloads>,
}

/// One queue's backlog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDepth {
    pub queue: Text,
    pub class: WorkClass,
    /// Exact up to the limit given, then the limit.
    pub ready: i64,
    pub oldest_sort_ms: Option<i64>,
}

/// There is work in a queue, made ready by another process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hint {
    pub tenant_id: TenantId,
    pub class: WorkClass,
    pub queue: Text,
}

/// Reading and writing. Every read names its tenant, except those of the loops.
#[async_trait]
pub trait Store: Inspect + 'static {
    /// Runs one batch as one transaction. `Ok` means that what the decider committed is durable, and what it was decided on.
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()>;

    async fn now(&self) -> StoreResult<Now>;

    /// Whether other processes may write to the same database.
    fn is_shared(&self) -> bool {
        false
    }

    /// What is known of the file while it is in use. None: the database is no file of this process.
    fn file_health(&self) -> Option<Arc<FileHealth>> {
        None
    }

    /// Tells those who try to open the same file in vain where its holder serves. A database of many processes tells nobody.
    fn serves_at(&self, _addresses: &str) {}

    /// A channel that closes once the database is closed: after the store was dropped and the last read has ended. `None`: a
    /// database of many processes, which nobody has to wait for.
    fn closes(&self) -> Option<watch::Receiver<()>> {
        None
    }

    /// Whether a batch can be decided while another one is being written.
    fn overlaps_batches(&self) -> bool {
        self.is_shared()
    }

    /// Tells other processes on the same database that these lanes have work. Returns at once; hints may get
    /// lost, and everything works without them. A database of one process needs none.
    fn hint_ready(&self, _lanes: &[Lane]) {}

    /// Hints of other processes, for as long as the receiver is kept.
    fn hints(&self) -> Option<tokio::sync::mpsc::Receiver<Hint>> {
        None
    }

    // For loops: all tenants.
    /// Rows of `due` whose time has come, earliest first.
    async fn due_page(&self, clock: ClockKind, until_ms: i64, limit: usize) -> StoreResult<Vec<Due>>;
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
    /// Versions and kinds with work in a queue, for claims that name no kinds.
    async fn lanes_of_queue(
        &self,
        tenant: TenantId,
        class: WorkClass,
        queue: &str,
        limit: usize,
    ) -> StoreResult<Vec<Lane>>;
    /// Whether it is this process's turn to do what only one of them does, once in `every_ms`. Whoever asks first
    /// once the time is over has the turn; one that dies with it is not waited for beyond that.
    async fn turn_take(&self, _name: &str, _every_ms: i64) -> StoreResult<bool> {
        Ok(true)
    }
    /// Forgets up to `limit` ids of batches that nobody can ask about any more. Returns how many.
    async fn batch_cleanup(&self, before_ms: i64, limit: usize) -> StoreResult<usize>;

    // For people and workers.
    async fn tenant_get(&self, id: TenantId) -> StoreResult<Option<Tenant>>;
    async fn tenant_by_slug(&self, slug: &str) -> StoreResult<Option<Tenant>>;
    /// `None`: the tenant was never given a quota.
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
    /// All workers of this name: each process has its own id.
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
    /// The last events of those among these executions that have ended, by execution.
    async fn execution_ends(&self, tenant: TenantId, ids: &[ExecutionId]) -> StoreResult<Vec<Event>>;
    /// Events after a sequence, in order, with the payloads of own tasks.
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
    /// Exact up to the limit, then the limit.
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
