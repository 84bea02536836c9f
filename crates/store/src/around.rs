//! A store that wraps another store, for tests and simulations. The wrapper implements some methods itself and
//! forwards every read.

/// Implements [`Store`](crate::Store) and [`Inspect`](crate::Inspect) for a type with a field
/// `inner: Arc<dyn Store>`. Every read first calls the wrapper's method `$before`. If that returns an error, the
/// read fails with it; otherwise the read goes to `inner`. The methods between the braces are the wrapper's own. They
/// must include `transact` and `now`, and should include `turn_take`, whose default always answers `true`.
#[macro_export]
macro_rules! store_around {
    ($wrapper:ty, $before:ident, { $($own:tt)* }) => {
        #[async_trait::async_trait]
        impl $crate::Inspect for $wrapper {
            async fn inspect_page(
                &self,
                part: &flovyn_engine::invariants::Part,
                limit: usize,
            ) -> $crate::StoreResult<flovyn_engine::invariants::InspectPage> {
                self.$before().await?;
                self.inner.inspect_page(part, limit).await
            }
        }

        use $crate::around::prelude::*;
        $crate::store_around! { @reads $wrapper, $before, { $($own)* }
            fn due_page(clock: ClockKind, until_ms: i64, limit: usize) -> Vec<Due>;
            fn due_next(clock: ClockKind) -> Option<i64>;
            fn tenant_list(after: Option<TenantId>, limit: usize) -> Vec<Tenant>;
            fn execution_finished(tenant: TenantId, before_ms: i64, limit: usize) -> Vec<ExecutionId>;
            fn task_finished(tenant: TenantId, before_ms: i64, limit: usize) -> Vec<TaskId>;
            fn lanes_with_work(lanes: &[Lane]) -> Vec<Lane>;
            fn lanes_of_queue(tenant: TenantId, class: WorkClass, queue: &str, limit: usize) -> Vec<Lane>;
            fn batch_cleanup(before_ms: i64, limit: usize) -> usize;
            fn tenant_get(id: TenantId) -> Option<Tenant>;
            fn tenant_by_slug(slug: &str) -> Option<Tenant>;
            fn quota_get(tenant: TenantId) -> Option<Quota>;
            fn worker_token_by_hash(hash: &[u8]) -> Option<WorkerToken>;
            fn audit_list(tenant: TenantId, filter: &AuditFilter, page: Page) -> Vec<AuditEntry>;
            fn worker_token_list(tenant: TenantId) -> Vec<WorkerToken>;
            fn worker_list(tenant: TenantId) -> Vec<(Worker, Vec<WorkerCapability>)>;
            fn worker_get(tenant: TenantId, id: WorkerId) -> Option<(Worker, Vec<WorkerCapability>)>;
            fn workers_named(tenant: TenantId, name: &str) -> Vec<Worker>;
            fn paused_queue_list(tenant: TenantId) -> Vec<PausedQueue>;
            fn queue_depths(tenant: TenantId, limit: i64) -> Vec<QueueDepth>;
            fn execution_get(tenant: TenantId, id: ExecutionId) -> Option<Execution>;
            fn execution_list(tenant: TenantId, filter: &ExecutionFilter, page: Page) -> Vec<Execution>;
            fn execution_labels(tenant: TenantId, id: ExecutionId) -> Vec<Label>;
            fn execution_states(tenant: TenantId, id: ExecutionId) -> Vec<StateEntry>;
            fn execution_ends(tenant: TenantId, ids: &[ExecutionId]) -> Vec<Event>;
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
    };
    (@reads $wrapper:ty, $before:ident, { $($own:tt)* }
        $(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        #[async_trait::async_trait]
        impl $crate::Store for $wrapper {
            $($own)*
            $(async fn $name(&self, $($argument: $type),*) -> $crate::StoreResult<$result> {
                self.$before().await?;
                self.inner.$name($($argument),*).await
            })*
        }
    };
}

/// The types in the signatures of the reads.
pub mod prelude {
    pub use flovyn_engine::ids::{ExecutionId, PromiseId, TaskId, TenantId, WorkerId};
    pub use flovyn_engine::snapshot::Snapshot;
    pub use flovyn_engine::state::*;

    pub use crate::port::{
        AuditFilter, ExecutionFilter, LoggedEvent, Page, QueueDepth, StoreResult, TaskFilter,
    };
}
