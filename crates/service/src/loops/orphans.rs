//! Looks for orphans: open work that nothing would ever continue. There should be none. The loop counts and logs them,
//! so that a fault is visible in the metrics and not only as a workflow that hangs.
//!
//! The loop checks all open work page by page, again and again, in one process at a time. Each item is checked under a
//! lock, so that work in progress is never taken for an orphan.

use std::time::Duration;

use flovyn_engine::ids::TenantId;
use flovyn_engine::request::{CheckOrphans, Open};
use flovyn_engine::state::TaskStatus;
use flovyn_engine::{Code, Refusal, Reply};
use flovyn_store::{ExecutionFilter, Page, StoreResult, TaskFilter};
use futures::future::join_all;
use uuid::Uuid;

use crate::loops::{Options, Stopped, pause, turn};
use crate::service::Service;

/// Executions or tasks that one tick checks.
const PAGE: usize = 200;
/// Tenants without open work that one tick skips.
const TENANTS: usize = 100;
/// The kinds of open work that are checked for each tenant.
const STAGES: [Stage; 3] =
    [Stage::Executions, Stage::Tasks(TaskStatus::Pending), Stage::Tasks(TaskStatus::Running)];

#[derive(Debug, Clone, Copy)]
enum Stage {
    Executions,
    Tasks(TaskStatus),
}

#[derive(Debug)]
pub struct OrphanLoop {
    service: Service,
    every: Duration,
    place: Place,
}

/// Where the next tick continues.
#[derive(Debug, Default)]
struct Place {
    tenant: Option<TenantId>,
    stage: usize,
    after: Option<(i64, Uuid)>,
}

impl OrphanLoop {
    pub fn new(service: Service, options: &Options) -> Self {
        Self { service, every: options.orphans, place: Place::default() }
    }

    pub(crate) async fn run(mut self, mut stopped: Stopped) {
        while pause(&self.service, &mut stopped, turn::look_every(&self.service, self.every)).await {
            // The name is stored, and processes of an older version use it too.
            let done = match turn::take(&self.service, "look_for_orphans", self.every).await {
                Ok(true) => self.tick().await.map(|_| ()),
                Ok(false) => Ok(()),
                Err(refusal) => Err(refusal),
            };
            if let Err(refusal) = done {
                tracing::warn!(%refusal, "cannot look for orphans; trying again later");
            }
        }
    }

    /// Checks the next page. Returns how many orphans it found.
    pub async fn tick(&mut self) -> Result<usize, Refusal> {
        let page = self.next_page().await;
        let page = page.map_err(|error| Refusal::new(Code::StoreUnavailable, error.to_string()))?;
        let look = |(tenant, subject): &(TenantId, Open)| {
            self.service.call(*tenant, CheckOrphans { subject: *subject })
        };
        let mut found = 0;
        let looks: Vec<_> = page.iter().map(look).collect();
        for (reply, (tenant, subject)) in join_all(looks).await.into_iter().zip(&page) {
            let Reply::Looked { orphans } = reply? else { continue };
            self.service.shared.meters.orphans_checked.increment(1);
            for what in &orphans {
                tracing::warn!(%tenant, ?subject, what, "found an orphan: please report it as a fault of Flovyn");
            }
            found += orphans.len();
        }
        self.service.shared.meters.orphans.increment(found as u64);
        Ok(found)
    }

    /// At most a page of open work, from where the last page ended. The page is empty when all tenants have been
    /// checked; the next call then starts again from the beginning.
    async fn next_page(&mut self) -> StoreResult<Vec<(TenantId, Open)>> {
        for _ in 0..TENANTS {
            let Some(tenant) = self.tenant().await? else { break };
            let page = self.page_of(tenant).await?;
            if !page.is_empty() {
                return Ok(page);
            }
        }
        Ok(Vec::new())
    }

    async fn page_of(&mut self, tenant: TenantId) -> StoreResult<Vec<(TenantId, Open)>> {
        while let Some(stage) = STAGES.get(self.place.stage) {
            let found = self.list(tenant, *stage).await?;
            match found.last() {
                Some((place, _)) if found.len() == PAGE => self.place.after = Some(*place),
                _ => {
                    self.place.stage += 1;
                    self.place.after = None;
                }
            }
            if !found.is_empty() {
                return Ok(found.into_iter().map(|(_, subject)| (tenant, subject)).collect());
            }
        }
        self.place = Place { tenant: Some(tenant), stage: 0, after: None };
        Ok(Vec::new())
    }

    /// The tenant whose work is being checked, or the next tenant if all stages of the last one are finished.
    async fn tenant(&mut self) -> StoreResult<Option<TenantId>> {
        if (self.place.stage, self.place.after) != (0, None) {
            return Ok(self.place.tenant);
        }
        let next = self.service.store().tenant_list(self.place.tenant, 1).await?;
        self.place.tenant = next.first().map(|tenant| tenant.id);
        Ok(self.place.tenant)
    }

    async fn list(&self, tenant: TenantId, stage: Stage) -> StoreResult<Vec<((i64, Uuid), Open)>> {
        let page = Page { after: self.place.after, offset: 0, limit: PAGE };
        let store = self.service.store();
        Ok(match stage {
            Stage::Executions => {
                let filter = ExecutionFilter { open_only: true, ..ExecutionFilter::default() };
                let rows = store.execution_list(tenant, &filter, page).await?;
                rows.iter().map(|row| ((row.created_ms, row.id), Open::Execution(row.id))).collect()
            }
            Stage::Tasks(status) => {
                let filter = TaskFilter { status: Some(status), ..TaskFilter::default() };
                let rows = store.task_list(tenant, &filter, page).await?;
                rows.iter().map(|row| ((row.created_ms, row.id), Open::Task(row.id))).collect()
            }
        })
    }
}
