//! PostgreSQL: any number of server processes share one database.
//!
//! A batch is one transaction on one connection. Every step is a pipelined round of set-based statements, so the
//! number of round trips does not depend on the size of the batch. The store decides nothing. It does not wait for
//! locks unless the caller asks for that: rows that another process has locked are reported as busy.

mod apply;
mod backoff;
mod codec;
mod commit;
mod connect;
mod connection;
mod error;
mod inspect;
mod integrity;
mod lanes;
mod list;
mod load;
mod migrate;
mod notify;
mod pool;
mod query;
mod rows;
mod scan;
mod settle;
mod sql;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use flovyn_engine::Now;
use flovyn_engine::ids::{ExecutionId, PromiseId, TaskId, TenantId, WorkerId};
use flovyn_engine::invariants::{InspectPage, Part};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use tokio::sync::mpsc;

use crate::inspect::Inspect;
use crate::integrity::{Integrity, OnProgress};
use crate::port::*;
use crate::value::{Field, Value};
use connect::{Connector, Purpose};
use lanes::Starts;
use pool::Pool;

pub use connection::Traffic;

#[derive(Debug, Clone)]
pub struct PostgresOptions {
    pub url: String,
    /// Connections for batches, which is also the number of concurrent commits.
    pub write_connections: usize,
    /// Connections for reads. They are separate, so that many listings do not delay batches.
    pub read_connections: usize,
}

impl PostgresOptions {
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), write_connections: 4, read_connections: 8 }
    }
}

#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    notifier: notify::Notifier,
}

#[derive(Debug)]
struct Shared {
    connector: Arc<Connector>,
    writers: Arc<Pool>,
    readers: Arc<Pool>,
    starts: Arc<Starts>,
}

impl PostgresStore {
    /// Connects, checks the server and migrates its schema.
    pub async fn connect(options: PostgresOptions) -> StoreResult<Self> {
        let connector = Arc::new(Connector::new(&options.url)?);
        let writers = Pool::new(Arc::clone(&connector), Purpose::Batches, options.write_connections);
        // The first connection checks the server's version before anything is changed.
        drop(writers.take().await?);
        migrate::migrate(&connector).await?;
        Ok(Self::with(connector, writers, &options))
    }

    /// Connects to a database that has the schema of this binary, without changing it.
    pub async fn connect_as_is(options: PostgresOptions) -> StoreResult<Self> {
        let connector = Arc::new(Connector::new(&options.url)?);
        let writers = Pool::new(Arc::clone(&connector), Purpose::Batches, options.write_connections);
        drop(writers.take().await?);
        migrate::check(&connector).await?;
        Ok(Self::with(connector, writers, &options))
    }

    fn with(connector: Arc<Connector>, writers: Arc<Pool>, options: &PostgresOptions) -> Self {
        let shared = Shared {
            writers,
            readers: Pool::new(Arc::clone(&connector), Purpose::Reads, options.read_connections),
            starts: Arc::new(Starts::new(Instant::now())),
            connector: Arc::clone(&connector),
        };
        Self { shared: Arc::new(shared), notifier: notify::Notifier::start(connector) }
    }

    /// Checks tables and indexes with the checks that PostgreSQL offers, as far as they are available. Changes
    /// nothing.
    pub async fn integrity(url: &str, on_progress: &OnProgress) -> StoreResult<Integrity> {
        integrity::check(&Connector::new(url)?, on_progress).await
    }

    /// Counters of the traffic of batches and reads.
    pub fn traffic(&self) -> &Traffic {
        &self.shared.connector.traffic
    }
}

#[async_trait]
impl Inspect for PostgresStore {
    async fn inspect_page(&self, part: &Part, limit: usize) -> StoreResult<InspectPage> {
        inspect::page(&self.shared, part, limit).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn transact(&self, batch: SharedDecider, options: TransactOptions) -> StoreResult<()> {
        commit::transact(&self.shared, batch, options).await
    }

    async fn now(&self) -> StoreResult<Now> {
        query::now(&self.shared).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn hint_ready(&self, lanes: &[Lane]) {
        self.notifier.notify(lanes);
    }

    fn hints(&self) -> Option<mpsc::Receiver<Hint>> {
        Some(self.notifier.listen(Arc::clone(&self.shared.connector), Arc::clone(&self.shared.starts)))
    }

    async fn due_page(&self, clock: ClockKind, until_ms: i64, limit: usize) -> StoreResult<Vec<Due>> {
        let values = vec![clock.value(), Value::Int(until_ms), codec::limit(limit)];
        self.shared.records(query::DUE_PAGE, values).await
    }

    async fn due_next(&self, clock: ClockKind) -> StoreResult<Option<i64>> {
        query::due_next(&self.shared, clock).await
    }

    async fn tenant_list(&self, after: Option<TenantId>, limit: usize) -> StoreResult<Vec<Tenant>> {
        match after {
            None => self.shared.records("ORDER BY t.id LIMIT $1", vec![codec::limit(limit)]).await,
            Some(after) => {
                let rest = "WHERE t.id > $2 ORDER BY t.id LIMIT $1";
                self.shared.records(rest, vec![codec::limit(limit), after.value()]).await
            }
        }
    }

    async fn execution_finished(
        &self,
        tenant: TenantId,
        before_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionId>> {
        let text = "SELECT id FROM workflow_execution WHERE tenant_id = $1 AND finished_ms < $2 AND purging = 0 \
                    ORDER BY finished_ms, id LIMIT $3";
        self.shared.ids(text, vec![tenant.value(), Value::Int(before_ms), codec::limit(limit)]).await
    }

    async fn task_finished(
        &self,
        tenant: TenantId,
        before_ms: i64,
        limit: usize,
    ) -> StoreResult<Vec<TaskId>> {
        self.shared
            .ids(query::TASK_FINISHED, vec![tenant.value(), Value::Int(before_ms), codec::limit(limit)])
            .await
    }

    async fn lanes_with_work(&self, lanes: &[Lane]) -> StoreResult<Vec<Lane>> {
        query::lanes_with_work(&self.shared, lanes).await
    }

    async fn lanes_of_queue(
        &self,
        tenant: TenantId,
        class: WorkClass,
        queue: &str,
        limit: usize,
    ) -> StoreResult<Vec<Lane>> {
        query::lanes_of_queue(&self.shared, tenant, class, queue, limit).await
    }

    async fn turn_take(&self, name: &str, every_ms: i64) -> StoreResult<bool> {
        query::turn_take(&self.shared, name, every_ms).await
    }

    async fn batch_cleanup(&self, before_ms: i64, limit: usize) -> StoreResult<usize> {
        let text = "WITH gone AS (DELETE FROM batch WHERE id IN (\
                    SELECT id FROM batch WHERE committed_ms < $1 ORDER BY committed_ms LIMIT $2) RETURNING 1) \
                    SELECT count(*) FROM gone";
        let rows = self.shared.query(text, vec![Value::Int(before_ms), codec::limit(limit)]).await?;
        let count: i64 = rows.first().map_or(Ok(0), |row| codec::get(row, 0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    async fn tenant_get(&self, id: TenantId) -> StoreResult<Option<Tenant>> {
        self.shared.record("WHERE t.id = $1", vec![id.value()]).await
    }

    async fn tenant_by_slug(&self, slug: &str) -> StoreResult<Option<Tenant>> {
        self.shared.record("WHERE t.slug = $1", vec![Value::Text(slug)]).await
    }

    async fn quota_get(&self, tenant: TenantId) -> StoreResult<Option<Quota>> {
        self.shared.record("WHERE t.tenant_id = $1", vec![tenant.value()]).await
    }

    async fn worker_token_by_hash(&self, hash: &[u8]) -> StoreResult<Option<WorkerToken>> {
        self.shared.record("WHERE t.hash = $1", vec![Value::Bytes(hash)]).await
    }

    async fn audit_list(
        &self,
        tenant: TenantId,
        filter: &AuditFilter,
        page: Page,
    ) -> StoreResult<Vec<AuditEntry>> {
        list::audit_list(&self.shared, tenant, filter, page).await
    }

    async fn worker_token_list(&self, tenant: TenantId) -> StoreResult<Vec<WorkerToken>> {
        self.shared.records("WHERE t.tenant_id = $1 ORDER BY t.id", vec![tenant.value()]).await
    }

    async fn worker_list(&self, tenant: TenantId) -> StoreResult<Vec<(Worker, Vec<WorkerCapability>)>> {
        query::worker_list(&self.shared, tenant).await
    }

    async fn worker_get(
        &self,
        tenant: TenantId,
        id: WorkerId,
    ) -> StoreResult<Option<(Worker, Vec<WorkerCapability>)>> {
        query::worker_get(&self.shared, tenant, id).await
    }
    async fn workers_named(&self, tenant: TenantId, name: &str) -> StoreResult<Vec<Worker>> {
        let values = vec![tenant.value(), Value::Text(name)];
        self.shared.records("WHERE t.tenant_id = $1 AND t.name = $2 ORDER BY t.id", values).await
    }

    async fn paused_queue_list(&self, tenant: TenantId) -> StoreResult<Vec<PausedQueue>> {
        self.shared.records("WHERE t.tenant_id = $1 ORDER BY t.name", vec![tenant.value()]).await
    }

    async fn queue_depths(&self, tenant: TenantId, limit: i64) -> StoreResult<Vec<QueueDepth>> {
        query::queue_depths(&self.shared, tenant, limit).await
    }

    async fn execution_get(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Option<Execution>> {
        let rest = "WHERE t.tenant_id = $1 AND t.id = $2 AND t.purging = 0";
        self.shared.record(rest, vec![tenant.value(), id.value()]).await
    }

    async fn execution_list(
        &self,
        tenant: TenantId,
        filter: &ExecutionFilter,
        page: Page,
    ) -> StoreResult<Vec<Execution>> {
        list::execution_list(&self.shared, tenant, filter, page).await
    }

    async fn execution_labels(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Vec<Label>> {
        let rest = "WHERE t.tenant_id = $1 AND t.execution_id = $2 ORDER BY t.name";
        self.shared.records(rest, vec![tenant.value(), id.value()]).await
    }

    async fn execution_states(&self, tenant: TenantId, id: ExecutionId) -> StoreResult<Vec<StateEntry>> {
        let rest = "WHERE t.tenant_id = $1 AND t.execution_id = $2 ORDER BY t.name";
        self.shared.records(rest, vec![tenant.value(), id.value()]).await
    }

    async fn execution_ends(&self, tenant: TenantId, ids: &[ExecutionId]) -> StoreResult<Vec<Event>> {
        query::execution_ends(&self.shared, tenant, ids).await
    }

    async fn event_page(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<LoggedEvent>> {
        query::event_page(&self.shared, tenant, id, after, limit).await
    }

    async fn timer_list(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<Timer>> {
        let rest = match open_only {
            true => {
                "WHERE t.tenant_id = $1 AND t.execution_id = $2 AND t.status = 0 ORDER BY t.name LIMIT $3"
            }
            false => "WHERE t.tenant_id = $1 AND t.execution_id = $2 ORDER BY t.name LIMIT $3",
        };
        self.shared.records(rest, vec![tenant.value(), id.value(), codec::limit(limit)]).await
    }

    async fn promise_list(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<Promise>> {
        query::promise_list(&self.shared, tenant, id, open_only, limit).await
    }

    async fn promise_get(&self, tenant: TenantId, id: PromiseId) -> StoreResult<Option<Promise>> {
        self.shared.record("WHERE t.tenant_id = $1 AND t.id = $2", vec![tenant.value(), id.value()]).await
    }

    async fn idempotency_key_get(
        &self,
        tenant: TenantId,
        space: KeySpace,
        name: &str,
    ) -> StoreResult<Option<IdempotencyKey>> {
        let rest = "WHERE t.tenant_id = $1 AND t.space = $2 AND t.name = $3";
        self.shared.record(rest, vec![tenant.value(), space.value(), Value::Text(name)]).await
    }

    async fn execution_tasks(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreResult<Vec<Task>> {
        query::execution_tasks(&self.shared, tenant, id, open_only, after, limit).await
    }

    async fn task_get(&self, tenant: TenantId, id: TaskId) -> StoreResult<Option<Task>> {
        let rest = "WHERE t.tenant_id = $1 AND t.id = $2 AND t.purging = 0";
        self.shared.record(rest, vec![tenant.value(), id.value()]).await
    }

    async fn task_list(&self, tenant: TenantId, filter: &TaskFilter, page: Page) -> StoreResult<Vec<Task>> {
        list::task_list(&self.shared, tenant, filter, page).await
    }

    async fn task_count(&self, tenant: TenantId, filter: &TaskFilter, limit: i64) -> StoreResult<i64> {
        list::task_count(&self.shared, tenant, filter, limit).await
    }

    async fn attempt_list(&self, tenant: TenantId, id: TaskId) -> StoreResult<Vec<Attempt>> {
        let rest = "WHERE t.tenant_id = $1 AND t.task_id = $2 ORDER BY t.attempt";
        self.shared.records(rest, vec![tenant.value(), id.value()]).await
    }

    async fn task_log_page(
        &self,
        tenant: TenantId,
        id: TaskId,
        after_line: i64,
        limit: usize,
    ) -> StoreResult<Vec<TaskLog>> {
        let rest = "WHERE t.tenant_id = $1 AND t.task_id = $2 AND t.line > $3 ORDER BY t.line LIMIT $4";
        let values = vec![tenant.value(), id.value(), Value::Int(after_line), codec::limit(limit)];
        self.shared.records(rest, values).await
    }

    async fn task_state_list(&self, tenant: TenantId, id: TaskId) -> StoreResult<Vec<TaskState>> {
        let rest = "WHERE t.tenant_id = $1 AND t.task_id = $2 ORDER BY t.name";
        self.shared.records(rest, vec![tenant.value(), id.value()]).await
    }

    async fn snapshot(&self) -> StoreResult<Snapshot> {
        query::snapshot(&self.shared).await
    }
}
