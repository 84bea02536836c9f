//! Loads the rows that a batch wants, by plain loops over all rows.

use flovyn_engine::ids::{ExecutionId, TaskId, TenantId};
use flovyn_engine::state::*;
use flovyn_engine::{Loaded, Now, Scan, Wants};

use super::MemoryTables;

impl MemoryTables {
    pub fn load(&self, wants: &Wants, now: Now) -> Loaded {
        let mut loaded = Loaded::at(now);
        self.load_keys(wants, &mut loaded);
        for scan in &wants.scans {
            self.scan(scan, &mut loaded);
        }
        for (lane, limit) in &wants.lanes {
            let in_lane = self.ready.values().filter(|row| row.lane == *lane);
            loaded.ready.extend(in_lane.take(*limit).cloned());
        }
        loaded
    }

    fn scan(&self, scan: &Scan, loaded: &mut Loaded) {
        match scan {
            Scan::PausedQueues => loaded.queues.extend(self.queues.values().cloned()),
            Scan::TenantBySlug { slug } => {
                loaded.tenants.extend(self.tenants.values().filter(|row| row.slug == *slug).cloned());
            }
            Scan::Children { tenant_id, parent_id, after, limit } => {
                let children = self.executions.values().filter(|row| {
                    row.tenant_id == *tenant_id
                        && row.parent_id == Some(*parent_id)
                        && after.is_none_or(|after| row.id > after)
                });
                loaded.executions.extend(children.take(*limit).cloned());
            }
            Scan::OpenTasks { tenant_id, execution_id, limit } => {
                let owner = (*tenant_id, Some(*execution_id));
                let open = self
                    .tasks
                    .values()
                    .filter(|row| (row.tenant_id, row.execution_id) == owner && !row.status.is_terminal());
                loaded.tasks.extend(open.take(*limit).cloned());
            }
            Scan::OpenTimers { tenant_id, execution_id, limit } => {
                let owner = (*tenant_id, *execution_id);
                let open = self.timers.values().filter(|row| {
                    (row.tenant_id, row.execution_id) == owner && row.status == TimerStatus::Open
                });
                loaded.timers.extend(open.take(*limit).cloned());
            }
            Scan::OpenPromises { tenant_id, execution_id, limit } => {
                let owner = (*tenant_id, *execution_id);
                let open = self.promises.values().filter(|row| {
                    (row.tenant_id, row.execution_id) == owner && row.status == PromiseStatus::Open
                });
                loaded.promises.extend(open.take(*limit).cloned());
            }
            Scan::Labels { tenant_id, execution_id } => {
                let owner = (*tenant_id, *execution_id);
                let own = self.labels.values().filter(|row| (row.tenant_id, row.execution_id) == owner);
                loaded.labels.extend(own.cloned());
            }
            Scan::TaskStateKeys { tenant_id, task_id, limit } => {
                let owner = (*tenant_id, *task_id);
                let own = self.task_states.values().filter(|row| (row.tenant_id, row.task_id) == owner);
                loaded.task_states.extend(own.take(*limit).cloned());
            }
            Scan::Capabilities { tenant_id, worker_id } => {
                let owner = (*tenant_id, *worker_id);
                let own = self.capabilities.values().filter(|row| (row.tenant_id, row.worker_id) == owner);
                loaded.capabilities.extend(own.cloned());
            }
            Scan::SilentWorkers { before_ms, limit } => {
                let silent = self.workers.values().filter(|row| row.last_heartbeat_ms < *before_ms);
                loaded.workers.extend(silent.take(*limit).cloned());
            }
            Scan::NewestWithKey { tenant_id, name } => {
                let started = self.executions.values().filter(|row| {
                    row.tenant_id == *tenant_id && !row.purging && row.idempotency_key.as_ref() == Some(name)
                });
                loaded.executions.extend(started.max_by_key(|row| (row.created_ms, row.id)).cloned());
            }
            Scan::ExpiredKeys { until_ms, limit } => {
                let mut expired: Vec<_> =
                    self.keys.values().filter(|row| row.expires_ms <= *until_ms).collect();
                expired.sort_by_key(|row| row.expires_ms);
                loaded.keys.extend(expired.into_iter().take(*limit).cloned());
            }
            Scan::AuditBefore { before_ms, limit } => {
                let mut old: Vec<_> = self.audit.values().filter(|row| row.time_ms < *before_ms).collect();
                old.sort_by_key(|row| (row.time_ms, row.tenant_id, row.id));
                loaded.audit.extend(old.into_iter().take(*limit).cloned());
            }
            Scan::Belongings { tenant_id, execution_id, limit } => {
                self.belongings((*tenant_id, *execution_id), *limit, loaded);
            }
            Scan::TaskBelongings { tenant_id, task_id, limit } => {
                self.task_belongings(*tenant_id, &[*task_id], *limit, loaded);
            }
        }
    }

    fn belongings(&self, owner: (TenantId, ExecutionId), limit: usize, loaded: &mut Loaded) {
        let events = self.events.values().filter(|row| (row.tenant_id, row.execution_id) == owner);
        loaded.events.extend(events.take(limit).cloned());
        let labels = self.labels.values().filter(|row| (row.tenant_id, row.execution_id) == owner);
        loaded.labels.extend(labels.take(limit).cloned());
        let states = self.states.values().filter(|row| (row.tenant_id, row.execution_id) == owner);
        loaded.states.extend(states.take(limit).cloned());
        let timers = self.timers.values().filter(|row| (row.tenant_id, row.execution_id) == owner);
        loaded.timers.extend(timers.take(limit).cloned());
        let promises = self.promises.values().filter(|row| (row.tenant_id, row.execution_id) == owner);
        loaded.promises.extend(promises.take(limit).cloned());

        let (tenant_id, execution_id) = owner;
        let tasks = self
            .tasks
            .values()
            .filter(|row| row.tenant_id == tenant_id && row.execution_id == Some(execution_id));
        let tasks: Vec<Task> = tasks.take(limit).cloned().collect();
        let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
        loaded.tasks.extend(tasks);
        self.task_belongings(tenant_id, &ids, limit, loaded);
    }

    /// Rows that belong to these tasks: of each table up to `limit` rows for all tasks together.
    fn task_belongings(&self, tenant_id: TenantId, ids: &[TaskId], limit: usize, loaded: &mut Loaded) {
        let owns = |owner: TenantId, task_id: &TaskId| owner == tenant_id && ids.contains(task_id);
        let attempts = self.attempts.values().filter(|row| owns(row.tenant_id, &row.task_id));
        loaded.attempts.extend(attempts.take(limit).cloned());
        let states = self.task_states.values().filter(|row| owns(row.tenant_id, &row.task_id));
        loaded.task_states.extend(states.take(limit).cloned());
        let logs = self.task_logs.values().filter(|row| owns(row.tenant_id, &row.task_id));
        loaded.task_logs.extend(logs.take(limit).cloned());
    }
}
