//! Pages for the checker, found by plain loops over whole tables.

use std::collections::{BTreeMap, BTreeSet};

use flovyn_engine::Now;
use flovyn_engine::ids::TenantId;
use flovyn_engine::invariants::{InspectPage, Part};
use flovyn_engine::snapshot::Snapshot;

use super::MemoryTables;
use crate::inspect::{Owner, cut, next};

fn after<K: Ord + Clone, R: Clone>(
    table: &BTreeMap<K, R>,
    key: Option<&K>,
    limit: usize,
    wanted: impl Fn(&R) -> bool,
) -> Vec<R> {
    let beyond = table.iter().filter(|(found, row)| key.is_none_or(|key| *found > key) && wanted(row));
    beyond.take(limit).map(|(_, row)| row.clone()).collect()
}

impl MemoryTables {
    pub(super) fn inspect_page(&self, part: &Part, limit: usize, now: Now) -> InspectPage {
        let mut subjects = Snapshot::default();
        let mut complete = None;
        match part {
            Part::Executions(key) => {
                subjects.executions = after(&self.executions, key.as_ref(), limit, |_| true);
                let range = cut(*key, &mut subjects.executions, limit);
                complete = Some(range.up_to == (uuid::Uuid::max(), uuid::Uuid::max()));
                self.add_belongings(&mut subjects, |owner| range.after < owner && owner <= range.up_to);
            }
            Part::Tasks(key) => {
                subjects.tasks = after(&self.tasks, key.as_ref(), limit, |row| row.execution_id.is_none());
            }
            Part::Keys(key) => subjects.keys = after(&self.keys, key.as_ref(), limit, |_| true),
            Part::Ready(key) => subjects.ready = after(&self.ready, key.as_ref(), limit, |_| true),
            Part::Due(key) => subjects.due = after(&self.due, key.as_ref(), limit, |_| true),
            Part::Quotas(key) => subjects.quotas = after(&self.quotas, key.as_ref(), limit, |_| true),
        }
        let tasks: BTreeSet<Owner> = subjects.tasks.iter().map(|row| (row.tenant_id, row.id)).collect();
        let attempts = self.attempts.values().filter(|row| tasks.contains(&(row.tenant_id, row.task_id)));
        subjects.attempts = attempts.cloned().collect();
        let mut context: Snapshot = self.load(&InspectPage::wants(&subjects), now).into();
        let follow_ups = InspectPage::follow_ups(&subjects);
        let due = self.due.values().filter(|row| follow_ups.contains(&(row.class, row.tenant_id, row.id)));
        context.due.extend(due.cloned());
        let complete = complete.unwrap_or_else(|| part.after(&subjects).is_none());
        InspectPage {
            next: next(part, &subjects, complete),
            open_workflows: self.open_workflows(&subjects),
            subjects,
            context,
            now,
        }
    }

    fn add_belongings(&self, subjects: &mut Snapshot, within: impl Fn(Owner) -> bool) {
        macro_rules! owned {
            ($($table:ident),*) => {
                $(subjects.$table = self
                    .$table
                    .values()
                    .filter(|row| within((row.tenant_id, row.execution_id)))
                    .cloned()
                    .collect();)*
            };
        }
        owned!(events, states, timers, promises);
        let owned =
            self.tasks.values().filter(|row| row.execution_id.is_some_and(|id| within((row.tenant_id, id))));
        subjects.tasks = owned.cloned().collect();
    }

    fn open_workflows(&self, subjects: &Snapshot) -> BTreeMap<TenantId, i64> {
        let mut open = BTreeMap::new();
        for quota in &subjects.quotas {
            let counted = self
                .executions
                .values()
                .filter(|row| row.tenant_id == quota.tenant_id && row.counted && !row.status.is_terminal());
            open.insert(quota.tenant_id, i64::try_from(counted.count()).unwrap_or(i64::MAX));
        }
        open
    }
}
