//! The embedded store: one SQLite file, one connection that writes, and several that read.
//!
//! The file belongs to one process at a time, whatever name it is opened by.

mod apply;
mod backup;
mod cache;
mod codec;
mod connect;
mod error;
mod held;
mod inspect;
mod integrity;
mod list;
mod load;
mod loader;
mod log;
mod migrate;
mod pool;
mod query;
mod reader;
mod scan;
mod session;
mod sql;
#[cfg(test)]
mod tests;
mod volume;
mod writer;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use flovyn_engine::Now;
use flovyn_engine::ids::{ExecutionId, PromiseId, TaskId, TenantId, WorkerId};
use flovyn_engine::invariants::{InspectPage, Part};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use rusqlite::Connection;
use tokio::sync::watch;

use crate::clock::{Clock, SystemClock};
use crate::inspect::Inspect;
use crate::integrity::FileHealth;
use crate::port::{
    AuditFilter, ExecutionFilter, LoggedEvent, Page, QueueDepth, SharedDecider, Store, StoreResult,
    TaskFilter, TransactOptions,
};
use crate::value::{Field, Value};

pub use backup::{Copied, backup, restore};
use codec::{limit, pair, rows};
use held::Held;
pub use integrity::{FileCheck, check};
pub use reader::SqliteReader;
use scan::owned;

/// The default number of connections for queries, which is also the number of concurrent queries.
pub const READERS: usize = 4;

pub struct Options {
    pub clock: Arc<dyn Clock>,
    /// Connections for queries.
    pub readers: usize,
    /// Called every two seconds by the writing thread, to free memory that the thread keeps for itself.
    pub thread_rests: fn(),
    /// How much of the file is checked before it is used.
    pub check: FileCheck,
    /// Whether an idle store frees statements, pages and threads that only make the next write faster.
    pub releases_at_rest: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            readers: READERS,
            thread_rests: || (),
            check: FileCheck::default(),
            releases_at_rest: true,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("readers", &self.readers).finish_non_exhaustive()
    }
}

pub struct SqliteStore {
    clock: Arc<dyn Clock>,
    // The fields are dropped in this order. The connection that is closed last removes the log, which only the writer
    // can do.
    /// `None`: the whole file was checked when it was opened, or only a sample was requested.
    _check: Option<integrity::Background>,
    readers: pool::Readers,
    writer: writer::Writer,
    health: Arc<FileHealth>,
    // This must be the last field: `Held` notifies its receivers after all connections are closed.
    held: Arc<Held>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens or creates the database and brings its schema up to date.
    pub fn open(path: impl AsRef<Path>, options: Options) -> StoreResult<Self> {
        let path = path.as_ref();
        connect::check_library(rusqlite::version_number())?;
        let held = Arc::new(Held::take(path)?);
        let health = Arc::new(FileHealth::new(held::with_suffix(held.database(), "-damaged")));
        let opened = Self::open_held(held, Arc::clone(&health), options);
        opened.inspect_err(|error| health.report(error))
    }

    fn open_held(held: Arc<Held>, health: Arc<FileHealth>, options: Options) -> StoreResult<Self> {
        let path = held.database();
        let mut conn = connect::open_writer(path)?;
        let is_checked = integrity::at_open(&mut conn, path, options.check, &health)?;
        migrate::migrate(&mut conn)?;
        let readers =
            pool::Readers::open(path, options.readers, Some(Arc::clone(&held)), Some(Arc::clone(&health)))?;
        let thread_rests = options.releases_at_rest.then_some(options.thread_rests);
        let writer = writer::Writer::start(conn, Arc::clone(&options.clock), readers.pool(), thread_rests)?;
        let checks = !is_checked && options.check != FileCheck::Quick;
        let check = checks.then(|| integrity::Background::start(&held, &health)).transpose()?;
        Ok(Self { clock: options.clock, _check: check, readers, writer, health, held })
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.readers.read(query).await
    }
}

#[async_trait]
impl Inspect for SqliteStore {
    async fn inspect_page(&self, part: &Part, limit: usize) -> StoreResult<InspectPage> {
        let (clock, part) = (Arc::clone(&self.clock), part.clone());
        self.read(move |conn| inspect::page(conn, clock.as_ref(), &part, limit)).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    /// Only one process writes, and each commit reports its outcome. So no batch id is needed, and no row is ever
    /// busy.
    async fn transact(&self, batch: SharedDecider, _options: TransactOptions) -> StoreResult<()> {
        self.writer.transact(batch).await.inspect_err(|error| self.health.report(error))
    }

    fn file_health(&self) -> Option<Arc<FileHealth>> {
        Some(Arc::clone(&self.health))
    }

    fn serves_at(&self, addresses: &str) {
        // `take` has already reported a file system that cannot store the record.
        let _ = self.held.say(addresses);
    }

    fn closes(&self) -> Option<watch::Receiver<()>> {
        Some(self.held.closes())
    }

    fn overlaps_batches(&self) -> bool {
        true
    }

    async fn now(&self) -> StoreResult<Now> {
        Ok(self.clock.now())
    }

    async fn due_page(&self, clock: ClockKind, until_ms: i64, limit: usize) -> StoreResult<Vec<Due>> {
        self.read(move |conn| query::due_page(conn, clock, until_ms, limit)).await
    }

    async fn due_next(&self, clock: ClockKind) -> StoreResult<Option<i64>> {
        self.read(move |conn| query::due_next(conn, clock)).await
    }

    async fn tenant_list(&self, after: Option<TenantId>, wanted: usize) -> StoreResult<Vec<Tenant>> {
        self.read(move |conn| {
            let after = after.as_ref().map_or(Value::Bytes(&[]), Field::value);
            rows(conn, "WHERE id > ?1 ORDER BY id LIMIT ?2", &[after, limit(wanted)])
        })
        .await
    }

    async fn execution_finished(
        &self,
        tenant: TenantId,
        before_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionId>> {
        self.read(move |conn| query::finished(conn, query::EXECUTION_FINISHED, tenant, before_ms, limit))
            .await
    }

    async fn task_finished(
        &self,
        tenant: TenantId,
        before_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<TaskId>> {
        self.read(move |conn| query::finished(conn, query::TASK_FINISHED, tenant, before_ms, limit)).await
    }

    async fn lanes_with_work(&self, lanes: &[Lane]) -> StoreResult<Vec<Lane>> {
        let lanes = lanes.to_vec();
        self.read(move |conn| query::lanes_with_work(conn, lanes)).await
    }

    async fn lanes_of_queue(
        &self,
        tenant: TenantId,
        class: WorkClass,
        queue: &str,
        limit: usize,
    ) -> StoreResult<Vec<Lane>> {
        let queue = queue.to_owned();
        self.read(move |conn| query::lanes_of_queue(conn, tenant, class, &queue, limit)).await
    }

    async fn batch_cleanup(&self, _before_ms: i64, _limit: usize) -> StoreResult<usize> {
        Ok(0)
    }

    async fn tenant_get(&self, id: TenantId) -> StoreResult<Option<Tenant>> {
        self.read(move |conn| query::one(conn, "WHERE id = ?1", &[id.value()])).await
    }

    async fn tenant_by_slug(&self, slug: &str) -> StoreResult<Option<Tenant>> {
        let slug = slug.to_owned();
        self.read(move |conn| query::one(conn, "WHERE slug = ?1", &[Value::Text(&slug)])).await
    }

    async fn quota_get(&self, tenant: TenantId) -> StoreResult<Option<Quota>> {
        self.read(move |conn| query::one(conn, "WHERE tenant_id = ?1", &[tenant.value()])).await
    }

    async fn worker_token_by_hash(&self, hash: &[u8]) -> StoreResult<Option<WorkerToken>> {
        let hash = hash.to_owned();
        self.read(move |conn| query::one(conn, "WHERE hash = ?1", &[Value::Bytes(&hash)])).await
    }

    async fn audit_list(
        &self,
        tenant: TenantId,
        filter: &AuditFilter,
        page: Page,
    ) -> StoreResult<Vec<AuditEntry>> {
        let filter = filter.clone();
        self.read(move |conn| list::audit_list(conn, tenant, &filter, page)).await
    }

    async fn worker_token_list(&self, tenant: TenantId) -> StoreResult<Vec<WorkerToken>> {
        self.read(move |conn| rows(conn, "WHERE tenant_id = ?1 ORDER BY id", &[tenant.value()])).await
    }

    async fn worker_list(&self, tenant: TenantId) -> StoreResult<Vec<(Worker, Vec<WorkerCapability>)>> {
        self.read(move |conn| query::worker_list(conn, tenant)).await
    }

    async fn worker_get(
        &self,
        tenant: TenantId,
        id: WorkerId,
    ) -> StoreResult<Option<(Worker, Vec<WorkerCapability>)>> {
        self.read(move |conn| query::worker_get(conn, tenant, id)).await
    }
    async fn workers_named(&self, tenant: TenantId, name: &str) -> StoreResult<Vec<Worker>> {
        let (name, tail) = (name.to_owned(), "WHERE tenant_id = ?1 AND name = ?2 ORDER BY id");
        self.read(move |conn| rows(conn, tail, &[tenant.value(), Value::Text(&name)])).await
    }

    async fn paused_queue_list(&self, tenant: TenantId) -> StoreResult<Vec<PausedQueue>> {
        self.read(move |conn| rows(conn, "WHERE tenant_id = ?1 ORDER BY name", &[tenant.value()])).await
    }

    async fn queue_depths(&self, tenant: TenantId, limit: i64) -> StoreResult<Vec<QueueDepth>> {
        self.read(move |conn| query::queue_depths(conn, tenant, limit)).await
    }

    async fn execution_get(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Option<Execution>> {
        self.read(move |conn| query::one(conn, VISIBLE, &pair(tenant, id))).await
    }

    async fn execution_list(
        &self,
        tenant: TenantId,
        filter: &ExecutionFilter,
        page: Page,
    ) -> StoreResult<Vec<Execution>> {
        let filter = filter.clone();
        self.read(move |conn| list::execution_list(conn, tenant, &filter, page)).await
    }

    async fn execution_labels(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Vec<Label>> {
        self.read(move |conn| owned(conn, tenant, id, usize::MAX)).await
    }

    async fn execution_states(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Vec<StateEntry>> {
        self.read(move |conn| owned(conn, tenant, id, usize::MAX)).await
    }

    async fn execution_ends(&self, tenant: TenantId, ids: &[ExecutionId]) -> StoreResult<Vec<Event>> {
        let ids: BTreeSet<ExecutionId> = ids.iter().copied().collect();
        self.read(move |conn| query::execution_ends(conn, tenant, &ids)).await
    }

    async fn event_page(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<LoggedEvent>> {
        self.read(move |conn| query::event_page(conn, tenant, id, after, limit)).await
    }

    async fn timer_list(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<Timer>> {
        self.read(move |conn| query::timer_list(conn, tenant, id, open_only, limit)).await
    }

    async fn promise_list(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<Promise>> {
        self.read(move |conn| query::promise_list(conn, tenant, id, open_only, limit)).await
    }

    async fn promise_get(&self, tenant: TenantId, id: PromiseId) -> StoreResult<Option<Promise>> {
        self.read(move |conn| query::one(conn, "WHERE tenant_id = ?1 AND id = ?2", &pair(tenant, id))).await
    }

    async fn idempotency_key_get(
        &self,
        tenant: TenantId,
        space: KeySpace,
        name: &str,
    ) -> StoreResult<Option<IdempotencyKey>> {
        let name = name.to_owned();
        self.read(move |conn| {
            let values = [tenant.value(), space.value(), Value::Text(&name)];
            query::one(conn, "WHERE tenant_id = ?1 AND space = ?2 AND name = ?3", &values)
        })
        .await
    }

    async fn execution_tasks(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreResult<Vec<Task>> {
        self.read(move |conn| query::execution_tasks(conn, tenant, id, open_only, after, limit)).await
    }

    async fn task_get(&self, tenant: TenantId, id: TaskId) -> StoreResult<Option<Task>> {
        self.read(move |conn| query::one(conn, VISIBLE, &pair(tenant, id))).await
    }

    async fn task_list(&self, tenant: TenantId, filter: &TaskFilter, page: Page) -> StoreResult<Vec<Task>> {
        let filter = filter.clone();
        self.read(move |conn| list::task_list(conn, tenant, &filter, page)).await
    }

    async fn task_count(&self, tenant: TenantId, filter: &TaskFilter, limit: i64) -> StoreResult<i64> {
        let filter = filter.clone();
        self.read(move |conn| list::task_count(conn, tenant, &filter, limit)).await
    }

    async fn attempt_list(&self, tenant: TenantId, id: TaskId) -> StoreResult<Vec<Attempt>> {
        self.read(move |conn| owned(conn, tenant, id, usize::MAX)).await
    }

    async fn task_log_page(
        &self,
        tenant: TenantId,
        id: TaskId,
        after_line: i64,
        wanted: usize,
    ) -> StoreResult<Vec<TaskLog>> {
        self.read(move |conn| {
            let tail = "WHERE tenant_id = ?1 AND task_id = ?2 AND line > ?3 ORDER BY line LIMIT ?4";
            rows(conn, tail, &[tenant.value(), id.value(), Value::Int(after_line), limit(wanted)])
        })
        .await
    }

    async fn task_state_list(&self, tenant: TenantId, id: TaskId) -> StoreResult<Vec<TaskState>> {
        self.read(move |conn| owned(conn, tenant, id, usize::MAX)).await
    }

    async fn snapshot(&self) -> StoreResult<Snapshot> {
        self.read(query::snapshot).await
    }
}

/// A row that is not being purged.
const VISIBLE: &str = "WHERE tenant_id = ?1 AND id = ?2 AND purging = 0";
