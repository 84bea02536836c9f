//! Why an execution or a task waits: this module collects the facts, and the engine gives the answer.

use flovyn_engine::ids::{ExecutionId, TaskId, TenantId};
use flovyn_engine::state::Execution;
use flovyn_engine::why::{self, OpenItems, Surroundings, Waiting};
use flovyn_store::{ExecutionFilter, Page, StoreResult};

use crate::service::Service;

/// The most items of one kind that an answer names.
const MAX_ITEMS: usize = 100;

impl Service {
    /// What an execution waits for; `None` if there is no such execution.
    pub async fn why_execution(
        &self,
        tenant: TenantId,
        id: ExecutionId,
    ) -> StoreResult<Option<Vec<Waiting>>> {
        let store = self.store();
        let Some(row) = store.execution_get(tenant, id).await? else { return Ok(None) };
        let tasks = store.execution_tasks(tenant, id, true, None, MAX_ITEMS).await?;
        let timers = store.timer_list(tenant, id, true, MAX_ITEMS).await?;
        let promises = store.promise_list(tenant, id, true, MAX_ITEMS).await?;
        let children = self.open_children(tenant, &row).await?;
        let open = OpenItems { tasks: &tasks, timers: &timers, promises: &promises, children: &children };
        let (paused, workers) = self.surroundings(tenant, &row.queue).await?;
        let around = Surroundings {
            queue_paused: paused,
            workers: &workers,
            now: store.now().await?,
            limits: self.limits(),
        };
        Ok(Some(why::execution(&row, open, around)))
    }

    /// What a task waits for; `None` if there is no such task.
    pub async fn why_task(&self, tenant: TenantId, id: TaskId) -> StoreResult<Option<Waiting>> {
        let store = self.store();
        let Some(row) = store.task_get(tenant, id).await? else { return Ok(None) };
        let (paused, workers) = self.surroundings(tenant, &row.queue).await?;
        let around = Surroundings {
            queue_paused: paused,
            workers: &workers,
            now: store.now().await?,
            limits: self.limits(),
        };
        Ok(Some(why::task(&row, around)))
    }

    async fn open_children(&self, tenant: TenantId, row: &Execution) -> StoreResult<Vec<Execution>> {
        if row.open_children == 0 {
            return Ok(Vec::new());
        }
        let filter =
            ExecutionFilter { parent_id: Some(row.id), open_only: true, ..ExecutionFilter::default() };
        let page = Page { after: None, offset: 0, limit: MAX_ITEMS };
        self.store().execution_list(tenant, &filter, page).await
    }

    async fn surroundings(
        &self,
        tenant: TenantId,
        queue: &str,
    ) -> StoreResult<(bool, Vec<(flovyn_engine::state::Worker, Vec<flovyn_engine::state::WorkerCapability>)>)>
    {
        let paused = self.store().paused_queue_list(tenant).await?;
        let workers = self.store().worker_list(tenant).await?;
        Ok((paused.iter().any(|row| &*row.name == queue), workers))
    }
}
