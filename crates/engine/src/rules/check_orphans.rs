//! Checks whether an open execution or task has a live cause. It changes nothing: the check is a predicate over rows,
//! and this rule loads the rows under lock, so that no other transaction changes them meanwhile.

use crate::code::Refusal;
use crate::ids::TenantId;
use crate::invariants;
use crate::reply::Reply;
use crate::request::{CheckOrphans, Open};
use crate::rules::{Rule, Work};
use crate::snapshot::Snapshot;
use crate::state::{Due, DueClass, Execution, Ready, Task, Timer};
use crate::table::{Known, Row};
use crate::working_set::{Needs, Scan, WorkingSet};

/// The most timers, and the most tasks, of one execution that are checked.
const ITEMS: usize = 100;

impl Rule for CheckOrphans {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        match self.subject {
            Open::Task(id) => needs_task(needs, tenant_id, id),
            Open::Execution(id) => {
                // A row that another transaction has locked is being worked on, so it is no orphan.
                let Some(row) = needs.candidate::<Execution>((tenant_id, id)) else { return };
                needs_causes(needs, execution_causes(row));
                if !scans(tenant_id, id).map(|scan| needs.scan(scan)).contains(&false) {
                    needs_causes(needs, timers(needs.set(), tenant_id, id).iter().map(timer_cause).collect());
                    for task in tasks(needs.set(), tenant_id, id) {
                        needs_task(needs, tenant_id, task.id);
                    }
                }
            }
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let tenant_id = work.tenant_id;
        let mut snapshot = Snapshot::default();
        match self.subject {
            Open::Task(id) => add_task(&mut snapshot, work.set, tenant_id, id),
            Open::Execution(id) => {
                let Some(row) = open_execution(work.set, tenant_id, id) else {
                    return Ok(Reply::Looked { orphans: Vec::new() });
                };
                add_causes(&mut snapshot, work.set, execution_causes(row));
                snapshot.executions.push(row.clone());
                for timer in timers(work.set, tenant_id, id) {
                    add_causes(&mut snapshot, work.set, timer_cause(&timer));
                    snapshot.timers.push(timer);
                }
                for task in tasks(work.set, tenant_id, id) {
                    add_task(&mut snapshot, work.set, tenant_id, task.id);
                }
            }
        }
        let found = invariants::orphans(&snapshot, work.now);
        Ok(Reply::Looked { orphans: found.into_iter().map(|violation| violation.message).collect() })
    }
}

/// Live causes: the ready row and the due rows of an execution, task or timer.
#[derive(Default)]
struct Causes {
    ready: Option<Ready>,
    due: Vec<Due>,
}

fn execution_causes(row: &Execution) -> Causes {
    let alarms = [(DueClass::ExecutionAlarm, row.alarm_ms), (DueClass::ExecutionLease, row.lease_alarm_ms)];
    causes(row.is_in_ready().then(|| row.ready()), alarms, row.key())
}

fn task_causes(row: &Task) -> Causes {
    let alarms = [(DueClass::TaskAlarm, row.alarm_ms), (DueClass::TaskLease, row.lease_alarm_ms)];
    causes(row.is_in_ready().then(|| row.ready()), alarms, row.key())
}

fn causes(
    ready: Option<Ready>,
    alarms: [(DueClass, Option<i64>); 2],
    (tenant_id, id): (TenantId, uuid::Uuid),
) -> Causes {
    let due = |(class, at): (DueClass, Option<i64>)| Some(Due::new(class, at?, tenant_id, id));
    Causes { ready, due: alarms.into_iter().filter_map(due).collect() }
}

fn timer_cause(timer: &Timer) -> Causes {
    let due = Due::new(DueClass::Timer, timer.fire_ms, timer.tenant_id, timer.execution_id);
    Causes { ready: None, due: vec![Due { name: timer.name.clone(), ..due }] }
}

impl FromIterator<Causes> for Causes {
    fn from_iter<I: IntoIterator<Item = Causes>>(all: I) -> Self {
        Causes { ready: None, due: all.into_iter().flat_map(|causes| causes.due).collect() }
    }
}

fn needs_causes(needs: &mut Needs<'_>, causes: Causes) {
    if let Some(ready) = causes.ready {
        needs.row::<Ready>(ready.key());
    }
    for due in causes.due {
        needs.row::<Due>(due.key());
    }
}

fn add_causes(snapshot: &mut Snapshot, set: &WorkingSet, causes: Causes) {
    snapshot.ready.extend(causes.ready.and_then(|row| set.ready.get(&row.key()).cloned()));
    snapshot.due.extend(causes.due.iter().filter_map(|row| set.due.get(&row.key()).cloned()));
}

fn needs_task(needs: &mut Needs<'_>, tenant_id: TenantId, id: uuid::Uuid) {
    if let Some(task) = needs.candidate::<Task>((tenant_id, id)) {
        needs_causes(needs, task_causes(task));
    }
}

/// Adds the task if its lock was available. A task that another transaction has locked is no orphan.
fn add_task(snapshot: &mut Snapshot, set: &WorkingSet, tenant_id: TenantId, id: uuid::Uuid) {
    if let Known::Row(task) = set.tasks.known(&(tenant_id, id), true)
        && !task.status.is_terminal()
    {
        add_causes(snapshot, set, task_causes(task));
        snapshot.tasks.push(task.clone());
    }
}

fn open_execution(set: &WorkingSet, tenant_id: TenantId, id: uuid::Uuid) -> Option<&Execution> {
    match set.executions.known(&(tenant_id, id), true) {
        Known::Row(row) if !row.status.is_terminal() => Some(row),
        _ => None,
    }
}

fn scans(tenant_id: TenantId, execution_id: uuid::Uuid) -> [Scan; 2] {
    [
        Scan::OpenTimers { tenant_id, execution_id, limit: ITEMS },
        Scan::OpenTasks { tenant_id, execution_id, limit: ITEMS },
    ]
}

fn timers(set: &WorkingSet, tenant_id: TenantId, id: uuid::Uuid) -> Vec<Timer> {
    let own = |row: &&Timer| (row.tenant_id, row.execution_id) == (tenant_id, id);
    let open = |row: &&Timer| row.status == crate::state::TimerStatus::Open;
    set.timers.current().filter(own).filter(open).cloned().collect()
}

fn tasks(set: &WorkingSet, tenant_id: TenantId, id: uuid::Uuid) -> Vec<&Task> {
    let own = |row: &&Task| (row.tenant_id, row.execution_id) == (tenant_id, Some(id));
    set.tasks.current().filter(own).collect()
}
