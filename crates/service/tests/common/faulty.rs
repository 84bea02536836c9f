//! A store that fails when told to, around one that does not. For one service: it decides and writes apart.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use flovyn_engine::ids::{ExecutionId, PromiseId, TaskId, TenantId, WorkerId};
use flovyn_engine::invariants::{AuditPage, Part};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Change, Loaded, Mutations, Now};
use flovyn_store::{
    Audit, AuditFilter, Decider, ExecutionFilter, LoggedEvent, Page, QueueDepth, SharedDecider, Step, Store,
    StoreError, StoreResult, TaskFilter, TransactOptions,
};
use tokio::sync::Semaphore;

/// Input of a workflow that this database cannot store.
pub(crate) const UNSTORABLE: &str = "\"unstorable\"";

/// As many transactions as anybody could begin at once.
const ALL: usize = 1 << 20;

/// What happens to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Goes through.
    None,
    /// Nothing is written: another writer was faster.
    Conflict,
    /// Nothing is written, and nobody can be asked.
    LostBefore,
    /// All is written, and nobody can be asked.
    LostAfter,
    /// The database cannot be reached.
    Unavailable,
    Fatal,
}

pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    faults: Mutex<VecDeque<Fault>>,
    /// One permit for each transaction that may begin.
    gate: Semaphore,
    waiting: AtomicUsize,
}

impl Faulty {
    /// Does what it is told to, commit by commit, and then works.
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Mutex::default(),
            gate: Semaphore::new(ALL),
            waiting: AtomicUsize::new(0),
        })
    }

    pub(crate) fn next(&self, faults: &[Fault]) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// From now on transactions wait.
    pub(crate) fn hold(&self) {
        assert_eq!(self.gate.forget_permits(ALL), ALL, "nothing is under way");
    }

    /// Lets the transactions that wait, and all later ones, go on.
    pub(crate) fn release(&self) {
        self.gate.add_permits(ALL);
    }

    /// How many transactions wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn take_fault(&self) -> Fault {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Fault::None)
    }

    async fn run(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _permit = self.gate.acquire().await.expect("the gate is never closed");
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let watched = Arc::new(Mutex::new(Watched { batch, held: None }));
        self.inner.transact(watched.clone(), options).await?;
        let Some(mutations) = watched.lock().unwrap_or_else(PoisonError::into_inner).held.take() else {
            return Ok(());
        };
        if is_unstorable(&mutations) {
            return Err(StoreError::Refused("it is marked".to_owned()));
        }
        match self.take_fault() {
            Fault::None => self.write(mutations, options).await,
            Fault::Conflict => Err(StoreError::Conflict("as ordered".to_owned())),
            Fault::LostBefore => Err(StoreError::OutcomeUnknown("as ordered".to_owned())),
            Fault::LostAfter => {
                self.write(mutations, options).await?;
                Err(StoreError::OutcomeUnknown("as ordered".to_owned()))
            }
            Fault::Unavailable => Err(StoreError::Unavailable("as ordered".to_owned())),
            Fault::Fatal => Err(StoreError::Fatal("as ordered".to_owned())),
        }
    }

    async fn write(&self, mutations: Box<Mutations>, options: TransactOptions) -> StoreResult<()> {
        self.inner.transact(Arc::new(Mutex::new(Write(Some(mutations)))), options).await
    }
}

/// Lets the batch decide, and keeps what it would write.
struct Watched {
    batch: SharedDecider,
    held: Option<Box<Mutations>>,
}

impl Decider for Watched {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        match self.batch.lock().unwrap_or_else(PoisonError::into_inner).step(loaded) {
            Step::Commit(mutations) => {
                self.held = Some(mutations);
                Step::Done
            }
            step => step,
        }
    }
}

struct Write(Option<Box<Mutations>>);

impl Decider for Write {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        match loaded {
            None => Step::Load(Default::default()),
            Some(_) => self.0.take().map_or(Step::Done, Step::Commit),
        }
    }
}

fn is_unstorable(mutations: &Mutations) -> bool {
    let marked = |change: &Change<Event>| match change {
        Change::Insert(event) => event.payload.as_deref() == Some(UNSTORABLE.as_bytes()),
        _ => false,
    };
    mutations.events.iter().any(marked)
}

#[async_trait]
impl Audit for Faulty {
    async fn audit_page(&self, part: &Part, limit: usize) -> StoreResult<AuditPage> {
        self.inner.audit_page(part, limit).await
    }
}

macro_rules! pass_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        #[async_trait]
        impl Store for Faulty {
            async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
                self.run(batch, options).await
            }
            $(async fn $name(&self, $($argument: $type),*) -> StoreResult<$result> {
                self.inner.$name($($argument),*).await
            })*
        }
    };
}

pass_on! {
    fn now() -> Now;
    fn due_page(clock: ClockKind, until_ms: i64, limit: usize) -> Vec<Due>;
    fn due_next(clock: ClockKind) -> Option<i64>;
    fn tenant_list(after: Option<TenantId>, limit: usize) -> Vec<Tenant>;
    fn execution_finished(tenant: TenantId, before_ms: i64, limit: usize) -> Vec<ExecutionId>;
    fn task_finished(tenant: TenantId, before_ms: i64, limit: usize) -> Vec<TaskId>;
    fn lanes_with_work(lanes: &[Lane]) -> Vec<Lane>;
    fn lanes_of_queue(tenant: TenantId, class: WorkClass, queue: &str, limit: usize) -> Vec<Lane>;
    fn turn_take(name: &str, every_ms: i64) -> bool;
    fn batch_cleanup(before_ms: i64, limit: usize) -> usize;
    fn tenant_get(id: TenantId) -> Option<Tenant>;
    fn tenant_by_slug(slug: &str) -> Option<Tenant>;
    fn quota_get(tenant: TenantId) -> Option<Quota>;
    fn worker_token_by_hash(hash: &[u8]) -> Option<WorkerToken>;
    fn audit_list(tenant: TenantId, filter: &AuditFilter, page: Page) -> Vec<AuditEntry>;
    fn worker_token_list(tenant: TenantId) -> Vec<WorkerToken>;
    fn worker_list(tenant: TenantId) -> Vec<(Worker, Vec<WorkerCapability>)>;
    fn worker_get(tenant: TenantId, id: WorkerId) -> Option<(Worker, Vec<WorkerCapability>)>;
    fn paused_queue_list(tenant: TenantId) -> Vec<PausedQueue>;
    fn queue_depths(tenant: TenantId, limit: i64) -> Vec<QueueDepth>;
    fn execution_get(tenant: TenantId, id: ExecutionId) -> Option<Execution>;
    fn execution_list(tenant: TenantId, filter: &ExecutionFilter, page: Page) -> Vec<Execution>;
    fn execution_labels(tenant: TenantId, id: ExecutionId) -> Vec<Label>;
    fn execution_states(tenant: TenantId, id: ExecutionId) -> Vec<StateEntry>;
    fn event_page(tenant: TenantId, id: ExecutionId, after: i64, limit: usize) -> Vec<LoggedEvent>;
    fn timer_list(tenant: TenantId, id: ExecutionId, open_only: bool, limit: usize) -> Vec<Timer>;
    fn promise_list(tenant: TenantId, id: ExecutionId, open_only: bool, limit: usize) -> Vec<Promise>;
    fn promise_get(tenant: TenantId, id: PromiseId) -> Option<Promise>;
    fn idempotency_key_get(tenant: TenantId, space: KeySpace, name: &str) -> Option<IdempotencyKey>;
    fn execution_tasks(tenant: TenantId, id: ExecutionId, open_only: bool, after: Option<TaskId>, limit: usize) -> Vec<Task>;
    fn task_get(tenant: TenantId, id: TaskId) -> Option<Task>;
    fn task_list(tenant: TenantId, filter: &TaskFilter, page: Page) -> Vec<Task>;
    fn task_count(tenant: TenantId, filter: &TaskFilter, limit: i64) -> i64;
    fn attempt_list(tenant: TenantId, id: TaskId) -> Vec<Attempt>;
    fn task_log_page(tenant: TenantId, id: TaskId, after_line: i64, limit: usize) -> Vec<TaskLog>;
    fn task_state_list(tenant: TenantId, id: TaskId) -> Vec<TaskState>;
    fn snapshot() -> Snapshot;
}
