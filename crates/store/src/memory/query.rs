//! The reads, answered by plain loops over all rows. The databases must give the same answers.

use std::collections::{BTreeMap, BTreeSet};

use flovyn_engine::event::TaskPayloads;
use flovyn_engine::ids::{ExecutionId, TaskId, TenantId, Text};
use flovyn_engine::state::*;
use uuid::Uuid;

use super::MemoryTables;
use crate::port::{AuditFilter, ExecutionFilter, LoggedEvent, Page, QueueDepth, TaskFilter};

impl MemoryTables {
    pub(super) fn execution_finished(
        &self,
        tenant: TenantId,
        before_ms: i64,
        limit: usize,
    ) -> Vec<ExecutionId> {
        let visible = self.executions.values().filter(|row| row.tenant_id == tenant && !row.purging);
        oldest(visible.filter_map(|row| Some((row.finished_ms?, row.id))), before_ms, limit)
    }

    pub(super) fn task_finished(&self, tenant: TenantId, before_ms: i64, limit: usize) -> Vec<TaskId> {
        let finished = self.standalone(tenant).filter_map(|row| Some((row.finished_ms?, row.id)));
        oldest(finished, before_ms, limit)
    }

    fn standalone(&self, tenant: TenantId) -> impl Iterator<Item = &Task> {
        self.tasks
            .values()
            .filter(move |row| row.tenant_id == tenant && row.execution_id.is_none() && !row.purging)
    }

    pub(super) fn has_work(&self, lane: &Lane) -> bool {
        self.ready.values().any(|row| row.lane == *lane)
    }

    pub(super) fn lanes_of_queue(
        &self,
        tenant: TenantId,
        class: WorkClass,
        queue: &str,
        limit: usize,
    ) -> Vec<Lane> {
        let in_queue = self
            .ready
            .values()
            .map(|row| &row.lane)
            .filter(|lane| lane.tenant_id == tenant && lane.class == class && *lane.queue == *queue);
        let distinct: BTreeSet<&Lane> = in_queue.collect();
        distinct.into_iter().take(limit).cloned().collect()
    }

    /// Sorted by class, then by name.
    pub(super) fn queue_depths(&self, tenant: TenantId, limit: i64) -> Vec<QueueDepth> {
        let mut depths: BTreeMap<(WorkClass, &str), QueueDepth> = BTreeMap::new();
        for row in self.ready.values().filter(|row| row.lane.tenant_id == tenant) {
            let depth = depths.entry((row.lane.class, &row.lane.queue)).or_insert_with(|| QueueDepth {
                queue: row.lane.queue.clone(),
                class: row.lane.class,
                ready: 0,
                oldest_sort_ms: None,
            });
            depth.ready = limit.min(depth.ready + 1);
            let oldest = depth.oldest_sort_ms.unwrap_or(row.sort_ms);
            depth.oldest_sort_ms = Some(oldest.min(row.sort_ms));
        }
        depths.into_values().collect()
    }

    pub(super) fn worker_list(&self, tenant: TenantId) -> Vec<(Worker, Vec<WorkerCapability>)> {
        let workers = self.workers.values().filter(|row| row.tenant_id == tenant);
        workers
            .map(|worker| {
                let owner = (worker.tenant_id, worker.id);
                let own = self.capabilities.values().filter(|row| (row.tenant_id, row.worker_id) == owner);
                (worker.clone(), own.cloned().collect())
            })
            .collect()
    }

    pub(super) fn execution_list(
        &self,
        tenant: TenantId,
        filter: &ExecutionFilter,
        page: Page,
    ) -> Vec<Execution> {
        let has_label = |id: ExecutionId, name: &Text, value: &Text| {
            self.labels.get(&(tenant, id, name.clone())).is_some_and(|label| label.value == *value)
        };
        let found = self.executions.values().filter(|row| {
            row.tenant_id == tenant
                && !row.purging
                && filter.status.is_none_or(|status| row.status == status)
                && filter.kind.as_ref().is_none_or(|kind| row.kind == *kind)
                && filter.queue.as_ref().is_none_or(|queue| row.queue == *queue)
                && (!filter.open_only || !row.status.is_terminal())
                && filter.key.as_ref().is_none_or(|key| row.idempotency_key.as_ref() == Some(key))
                && filter.parent_id.is_none_or(|parent| row.parent_id == Some(parent))
                && filter.created_from_ms.is_none_or(|from| row.created_ms >= from)
                && filter.created_before_ms.is_none_or(|before| row.created_ms < before)
                && filter.label.as_ref().is_none_or(|(name, value)| has_label(row.id, name, value))
        });
        newest(found, |row| (row.created_ms, row.id), page)
    }

    pub(super) fn audit_list(&self, tenant: TenantId, filter: &AuditFilter, page: Page) -> Vec<AuditEntry> {
        let found = self.audit.values().filter(|row| {
            row.tenant_id == tenant
                && filter.actor.as_ref().is_none_or(|actor| row.actor == *actor)
                && filter.action.is_none_or(|action| row.action == action)
                && filter.target.as_ref().is_none_or(|target| row.target == *target)
        });
        newest(found, |row| (row.time_ms, row.id), page)
    }

    pub(super) fn execution_ends(&self, tenant: TenantId, ids: &[ExecutionId]) -> Vec<Event> {
        let wanted = |row: &&Execution| row.tenant_id == tenant && ids.contains(&row.id) && !row.purging;
        let ended = self.executions.values().filter(wanted).filter(|row| row.finished_ms.is_some());
        ended.filter_map(|row| self.events.get(&(tenant, row.id, row.last_sequence)).cloned()).collect()
    }

    pub(super) fn event_page(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        after: i64,
        limit: usize,
    ) -> Vec<LoggedEvent> {
        let own = self.events.values().filter(|row| (row.tenant_id, row.execution_id) == (tenant, id));
        own.filter(|row| row.sequence > after)
            .take(limit)
            .map(|event| {
                let task = event.task_needed().and_then(|task| self.tasks.get(&(tenant, task)));
                LoggedEvent { event: event.clone(), task: task.map(payloads) }
            })
            .collect()
    }

    pub(super) fn execution_tasks(
        &self,
        tenant: TenantId,
        id: ExecutionId,
        open_only: bool,
        after: Option<TaskId>,
        limit: usize,
    ) -> Vec<Task> {
        let found = self.tasks.values().filter(|row| {
            (row.tenant_id, row.execution_id) == (tenant, Some(id))
                && !row.purging
                && !(open_only && row.status.is_terminal())
                && after.is_none_or(|after| row.id > after)
        });
        found.take(limit).cloned().collect()
    }

    pub(super) fn task_list(&self, tenant: TenantId, filter: &TaskFilter, page: Page) -> Vec<Task> {
        newest(self.filtered(tenant, filter), |row| (row.created_ms, row.id), page)
    }

    pub(super) fn task_count(&self, tenant: TenantId, filter: &TaskFilter, limit: i64) -> i64 {
        let count = self.filtered(tenant, filter).count();
        limit.min(i64::try_from(count).unwrap_or(i64::MAX))
    }

    fn filtered(&self, tenant: TenantId, filter: &TaskFilter) -> impl Iterator<Item = &Task> {
        self.standalone(tenant).filter(move |row| {
            filter.status.is_none_or(|status| row.status == status)
                && filter.task_type.as_ref().is_none_or(|task_type| row.task_type == *task_type)
                && filter.queue.as_ref().is_none_or(|queue| row.queue == *queue)
        })
    }
}

fn payloads(task: &Task) -> TaskPayloads {
    let Task { input, output, error, failure, .. } = task;
    TaskPayloads {
        input: Some(input.clone()),
        output: output.clone(),
        error: error.clone(),
        failure: failure.clone(),
    }
}

fn oldest(finished: impl Iterator<Item = (i64, Uuid)>, before_ms: i64, limit: usize) -> Vec<Uuid> {
    let mut found: Vec<(i64, Uuid)> = finished.filter(|(finished_ms, _)| *finished_ms < before_ms).collect();
    found.sort_unstable();
    found.into_iter().take(limit).map(|(_, id)| id).collect()
}

fn newest<'a, R: Clone + 'a>(
    found: impl Iterator<Item = &'a R>,
    place: impl Fn(&R) -> (i64, Uuid),
    page: Page,
) -> Vec<R> {
    let mut rows: Vec<&R> = found.filter(|row| page.after.is_none_or(|after| place(row) < after)).collect();
    rows.sort_unstable_by_key(|row| std::cmp::Reverse(place(row)));
    rows.into_iter().skip(page.offset).take(page.limit).cloned().collect()
}
