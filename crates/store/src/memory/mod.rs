//! The reference store: ordered maps, plain loops, no index. Tests compare the databases with it, and the
//! simulator runs on it.

mod inspect;
mod load;
mod query;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use flovyn_engine::Now;
use flovyn_engine::ids::{ExecutionId, PromiseId, TaskId, TenantId, Text, WorkerId};
use flovyn_engine::invariants::{InspectPage, Part};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;

use crate::clock::Clock;
use crate::inspect::Inspect;
use crate::port::{
    AuditFilter, ExecutionFilter, LoggedEvent, Page, QueueDepth, SharedDecider, Step, Store, StoreResult,
    TaskFilter, TransactOptions, next_step,
};

pub use tables::MemoryTables;

/// [`MemoryTables`] as a [`Store`]. Batches run one after the other.
pub struct MemoryStore {
    tables: Mutex<MemoryTables>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl MemoryStore {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_tables(MemoryTables::default(), clock)
    }

    pub fn with_tables(tables: MemoryTables, clock: Arc<dyn Clock>) -> Self {
        Self { tables: Mutex::new(tables), clock }
    }

    /// Locks the tables. `apply` writes everything or nothing, so the tables are usable even if a panic has
    /// poisoned the lock.
    fn tables(&self) -> MutexGuard<'_, MemoryTables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rows that meet a condition, in key order, up to a limit.
macro_rules! rows {
    ($self:ident.$table:ident, $limit:expr, |$row:ident| $condition:expr) => {
        Ok($self.tables().$table.values().filter(|$row| $condition).take($limit).cloned().collect())
    };
}

#[async_trait]
impl Inspect for MemoryStore {
    async fn inspect_page(&self, part: &Part, limit: usize) -> StoreResult<InspectPage> {
        Ok(self.tables().inspect_page(part, limit, self.clock.now()))
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn transact(&self, batch: SharedDecider, _options: TransactOptions) -> StoreResult<()> {
        let mut tables = self.tables();
        let mut loaded = None;
        loop {
            match next_step(&batch, loaded)? {
                Step::Load(wants) => loaded = Some(tables.load(&wants, self.clock.now())),
                Step::Commit(mutations) => return tables.apply(&mutations),
                Step::Done => return Ok(()),
            }
        }
    }

    async fn now(&self) -> StoreResult<Now> {
        Ok(self.clock.now())
    }

    async fn due_page(&self, clock: ClockKind, until_ms: i64, limit: usize) -> StoreResult<Vec<Due>> {
        rows!(self.due, limit, |row| row.clock == clock && row.due_ms <= until_ms)
    }

    async fn due_next(&self, clock: ClockKind) -> StoreResult<Option<i64>> {
        Ok(self.tables().due.values().filter(|row| row.clock == clock).map(|row| row.due_ms).min())
    }

    async fn tenant_list(&self, after: Option<TenantId>, limit: usize) -> StoreResult<Vec<Tenant>> {
        rows!(self.tenants, limit, |row| after.is_none_or(|after| row.id > after))
    }

    async fn execution_finished(
        &self,
        tenant: TenantId,
        before_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionId>> {
        Ok(self.tables().execution_finished(tenant, before_ms, limit))
    }

    async fn task_finished(
        &self,
        tenant: TenantId,
        before_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<TaskId>> {
        Ok(self.tables().task_finished(tenant, before_ms, limit))
    }

    async fn lanes_with_work(&self, lanes: &[Lane]) -> StoreResult<Vec<Lane>> {
        let tables = self.tables();
        Ok(lanes.iter().filter(|lane| tables.has_work(lane)).cloned().collect())
    }

    async fn lanes_of_queue(
        &self,
        tenant: TenantId,
        class: WorkClass,
        queue: &str,
        limit: usize,
    ) -> StoreResult<Vec<Lane>> {
        Ok(self.tables().lanes_of_queue(tenant, class, queue, limit))
    }

    async fn batch_cleanup(&self, _before_ms: i64, _limit: usize) -> StoreResult<usize> {
        Ok(0)
    }

    async fn tenant_get(&self, id: TenantId) -> StoreResult<Option<Tenant>> {
        Ok(self.tables().tenants.get(&(id,)).cloned())
    }

    async fn tenant_by_slug(&self, slug: &str) -> StoreResult<Option<Tenant>> {
        Ok(self.tables().tenants.values().find(|row| *row.slug == *slug).cloned())
    }

    async fn quota_get(&self, tenant: TenantId) -> StoreResult<Option<Quota>> {
        Ok(self.tables().quotas.get(&(tenant,)).cloned())
    }

    async fn worker_token_by_hash(&self, hash: &[u8]) -> StoreResult<Option<WorkerToken>> {
        Ok(self.tables().worker_tokens.values().find(|row| *row.hash == *hash).cloned())
    }

    async fn audit_list(
        &self,
        tenant: TenantId,
        filter: &AuditFilter,
        page: Page,
    ) -> StoreResult<Vec<AuditEntry>> {
        Ok(self.tables().audit_list(tenant, filter, page))
    }

    async fn worker_token_list(&self, tenant: TenantId) -> StoreResult<Vec<WorkerToken>> {
        rows!(self.worker_tokens, usize::MAX, |row| row.tenant_id == tenant)
    }

    async fn worker_list(&self, tenant: TenantId) -> StoreResult<Vec<(Worker, Vec<WorkerCapability>)>> {
        Ok(self.tables().worker_list(tenant))
    }

    async fn worker_get(
        &self,
        tenant: TenantId,
        id: WorkerId,
    ) -> StoreResult<Option<(Worker, Vec<WorkerCapability>)>> {
        let found = self.tables().worker_list(tenant).into_iter().find(|(worker, _)| worker.id == id);
        Ok(found)
    }
    async fn workers_named(&self, tenant: TenantId, name: &str) -> StoreResult<Vec<Worker>> {
        let all = self.tables().worker_list(tenant).into_iter().map(|(worker, _)| worker);
        Ok(all.filter(|worker| &*worker.name == name).collect())
    }

    async fn paused_queue_list(&self, tenant: TenantId) -> StoreResult<Vec<PausedQueue>> {
        rows!(self.queues, usize::MAX, |row| row.tenant_id == tenant)
    }

    async fn queue_depths(&self, tenant: TenantId, limit: i64) -> StoreResult<Vec<QueueDepth>> {
        Ok(self.tables().queue_depths(tenant, limit))
    }

    async fn execution_get(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Option<Execution>> {
        Ok(self.tables().executions.get(&(tenant, id)).filter(|row| !row.purging).cloned())
    }

    async fn execution_list(
        &self,
        tenant: TenantId,
        filter: &ExecutionFilter,
        page: Page,
    ) -> StoreResult<Vec<Execution>> {
        Ok(self.tables().execution_list(tenant, filter, page))
    }

    async fn execution_labels(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Vec<Label>> {
        rows!(self.labels, usize::MAX, |row| (row.tenant_id, row.execution_id) == (tenant, id))
    }

    async fn execution_states(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Vec<StateEntry>> {
        rows!(self.states, usize::MAX, |row| (row.tenant_id, row.execution_id) == (tenant, id))
    }

    async fn execution_ends(&self, tenant: TenantId, ids: &[ExecutionId]) -> StoreResult<Vec<Event>> {
        Ok(self.tables().execution_ends(tenant, ids))
    }

    async fn event_page(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<LoggedEvent>> {
        Ok(self.tables().event_page(tenant, id, after, limit))
    }

    async fn timer_list(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<Timer>> {
        rows!(self.timers, limit, |row| (row.tenant_id, row.execution_id) == (tenant, id)
            && !(open_only && row.status != TimerStatus::Open))
    }

    async fn promise_list(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<Promise>> {
        rows!(self.promises, limit, |row| (row.tenant_id, row.execution_id) == (tenant, id)
            && !(open_only && row.status != PromiseStatus::Open))
    }

    async fn promise_get(&self, tenant: TenantId, id: PromiseId) -> StoreResult<Option<Promise>> {
        Ok(self.tables().promises.get(&(tenant, id)).cloned())
    }

    async fn idempotency_key_get(
        &self,
        tenant: TenantId,
        space: KeySpace,
        name: &str,
    ) -> StoreResult<Option<IdempotencyKey>> {
        Ok(self.tables().keys.get(&(tenant, space, Text::from(name))).cloned())
    }

    async fn execution_tasks(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreResult<Vec<Task>> {
        Ok(self.tables().execution_tasks(tenant, id, open_only, after, limit))
    }

    async fn task_get(&self, tenant: TenantId, id: TaskId) -> StoreResult<Option<Task>> {
        Ok(self.tables().tasks.get(&(tenant, id)).filter(|row| !row.purging).cloned())
    }

    async fn task_list(&self, tenant: TenantId, filter: &TaskFilter, page: Page) -> StoreResult<Vec<Task>> {
        Ok(self.tables().task_list(tenant, filter, page))
    }

    async fn task_count(&self, tenant: TenantId, filter: &TaskFilter, limit: i64) -> StoreResult<i64> {
        Ok(self.tables().task_count(tenant, filter, limit))
    }

    async fn attempt_list(&self, tenant: TenantId, id: TaskId) -> StoreResult<Vec<Attempt>> {
        rows!(self.attempts, usize::MAX, |row| (row.tenant_id, row.task_id) == (tenant, id))
    }

    async fn task_log_page(
        &self,
        tenant: TenantId,
        id: TaskId,
        after_line: i64,
        limit: usize,
    ) -> StoreResult<Vec<TaskLog>> {
        rows!(self.task_logs, limit, |row| (row.tenant_id, row.task_id) == (tenant, id)
            && row.line > after_line)
    }

    async fn task_state_list(&self, tenant: TenantId, id: TaskId) -> StoreResult<Vec<TaskState>> {
        rows!(self.task_states, usize::MAX, |row| (row.tenant_id, row.task_id) == (tenant, id))
    }

    async fn snapshot(&self) -> StoreResult<Snapshot> {
        Ok(self.tables().snapshot())
    }
}
