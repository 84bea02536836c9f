//! Deletes finished executions and tasks after the tenant's retention time, and old entries of the audit log.

use std::time::Duration;

use flovyn_engine::Reply;
use flovyn_engine::request::{CleanAudit, DeleteTask, DeleteWorkflow, Op};
use flovyn_engine::state::Tenant;
use flovyn_store::StoreResult;
use futures::future::join_all;
use uuid::Uuid;

use crate::loops::{Options, Stopped, pause};
use crate::service::Service;

/// Executions or tasks that are deleted at once. `MAX_PAGES` is the number of pages that one tick deletes for one
/// tenant.
const PAGE: usize = 200;
const MAX_PAGES: usize = 500;
const TENANTS: usize = 1_000;

#[derive(Debug)]
pub struct RetentionLoop {
    service: Service,
    every: Duration,
    audit_kept: Duration,
}

impl RetentionLoop {
    pub fn new(service: Service, options: &Options) -> Self {
        Self { service, every: options.retention, audit_kept: options.audit_kept }
    }

    pub(crate) async fn run(self, mut stopped: Stopped) {
        while pause(&self.service, &mut stopped, self.every).await {
            if let Err(error) = self.tick().await {
                tracing::warn!(%error, "the retention loop cannot read the database; trying again later");
            }
        }
    }

    /// Deletes everything whose retention time is over. Returns how many items it deleted.
    pub async fn tick(&self) -> StoreResult<usize> {
        let mut total = self.tick_audit().await?;
        let mut after = None;
        loop {
            let tenants = self.service.store().tenant_list(after, TENANTS).await?;
            for tenant in &tenants {
                total += self.tick_tenant(tenant).await?;
            }
            match tenants.last() {
                Some(last) if tenants.len() == TENANTS => after = Some(last.id),
                _ => return Ok(total),
            }
        }
    }

    /// Entries that cannot be removed now are tried again in the next tick.
    async fn tick_audit(&self) -> StoreResult<usize> {
        let kept_ms = i64::try_from(self.audit_kept.as_millis()).unwrap_or(i64::MAX);
        let before_ms = self.service.store().now().await?.ms.saturating_sub(kept_ms);
        let mut total = 0;
        for _ in 0..MAX_PAGES {
            let clean = CleanAudit { before_ms, max: PAGE };
            let Ok(Reply::Cleaned { count }) = self.service.call(Uuid::nil(), clean).await else { break };
            total += count;
            if count < PAGE {
                break;
            }
        }
        Ok(total)
    }

    async fn tick_tenant(&self, tenant: &Tenant) -> StoreResult<usize> {
        let mut total = 0;
        for _ in 0..MAX_PAGES {
            let deleted = self.delete_page(tenant).await?;
            total += deleted;
            if deleted < PAGE {
                break;
            }
        }
        Ok(total)
    }

    async fn delete_page(&self, tenant: &Tenant) -> StoreResult<usize> {
        let Some(retention_ms) = tenant.retention_ms else { return Ok(0) };
        let store = self.service.store();
        let before_ms = store.now().await?.ms.saturating_sub(retention_ms);
        let executions = store.execution_finished(tenant.id, before_ms, PAGE).await?;
        let tasks = store.task_finished(tenant.id, before_ms, PAGE).await?;
        let ops = executions
            .into_iter()
            .map(|execution_id| Op::from(DeleteWorkflow { execution_id }))
            .chain(tasks.into_iter().map(|task_id| Op::from(DeleteTask { task_id })));
        let results = join_all(ops.map(|op| self.service.call(tenant.id, op))).await;
        // If another process deleted an item first, the call fails, but the item is gone as wanted.
        Ok(results.iter().filter(|result| result.is_ok()).count())
    }
}
