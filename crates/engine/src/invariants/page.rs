//! A large database is checked page by page. Each page comes from one consistent read: the rows to be checked, and the
//! other rows that are needed to check them.
//!
//! The parts go in both directions: from executions and tasks to the rows that the search tables must have, and from
//! those rows to their subjects. So no direction needs an index that the product itself does not need.

use std::collections::{BTreeMap, BTreeSet};

use super::history;
use crate::ids::{Now, TenantId};
use crate::snapshot::Snapshot;
use crate::state::*;
use crate::table::Row;
use crate::working_set::{Scan, Wants};

/// Which rows to read next: the rows of one table after a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Executions, with all rows that belong to them.
    Executions(Option<<Execution as Row>::Key>),
    /// Standalone tasks; the other tasks come with their executions.
    Tasks(Option<<Task as Row>::Key>),
    Keys(Option<<IdempotencyKey as Row>::Key>),
    Ready(Option<<Ready as Row>::Key>),
    Due(Option<<Due as Row>::Key>),
    Quotas(Option<<Quota as Row>::Key>),
}

impl Part {
    pub const FIRST: Self = Self::Executions(None);

    /// The name for progress and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Executions(_) => "executions",
            Self::Tasks(_) => "tasks",
            Self::Keys(_) => "keys",
            Self::Ready(_) => "ready rows",
            Self::Due(_) => "due rows",
            Self::Quotas(_) => "quotas",
        }
    }

    /// The part that follows this one. `None`: this is the last part.
    pub fn following(&self) -> Option<Self> {
        match self {
            Self::Executions(_) => Some(Self::Tasks(None)),
            Self::Tasks(_) => Some(Self::Keys(None)),
            Self::Keys(_) => Some(Self::Ready(None)),
            Self::Ready(_) => Some(Self::Due(None)),
            Self::Due(_) => Some(Self::Quotas(None)),
            Self::Quotas(_) => None,
        }
    }

    /// This part, positioned after the last row of what was read. `None`: nothing was read.
    pub fn after(&self, read: &Snapshot) -> Option<Self> {
        fn last<R: Row>(rows: &[R]) -> Option<Option<R::Key>> {
            rows.last().map(|row| Some(row.key()))
        }
        match self {
            Self::Executions(_) => last(&read.executions).map(Self::Executions),
            Self::Tasks(_) => last(&read.tasks).map(Self::Tasks),
            Self::Keys(_) => last(&read.keys).map(Self::Keys),
            Self::Ready(_) => last(&read.ready).map(Self::Ready),
            Self::Due(_) => last(&read.due).map(Self::Due),
            Self::Quotas(_) => last(&read.quotas).map(Self::Quotas),
        }
    }
}

/// Rows to be checked against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct InspectPage {
    pub subjects: Snapshot,
    /// Rows that are needed for the checks but are not checked.
    pub context: Snapshot,
    /// For quotas: the number of counted open executions of each tenant.
    pub open_workflows: BTreeMap<TenantId, i64>,
    pub now: Now,
    pub next: Option<Part>,
}

/// The most children that are read to find those that a client started.
const CHILDREN: usize = 10_000;

impl InspectPage {
    /// How many rows of the part's own table were checked.
    pub fn rows(&self, part: &Part) -> usize {
        match part {
            Part::Executions(_) => self.subjects.executions.len(),
            Part::Tasks(_) => self.subjects.tasks.len(),
            Part::Keys(_) => self.subjects.keys.len(),
            Part::Ready(_) => self.subjects.ready.len(),
            Part::Due(_) => self.subjects.due.len(),
            Part::Quotas(_) => self.subjects.quotas.len(),
        }
    }

    /// The rows that are needed to check the subjects.
    pub fn wants(subjects: &Snapshot) -> Wants {
        let mut wants = Wants::default();
        for row in &subjects.executions {
            want_execution(&mut wants, row);
        }
        want_children(&mut wants, subjects);
        for row in &subjects.tasks {
            wants.ready.peek.insert(row.ready().key());
            want_alarm(&mut wants, DueClass::TaskAlarm, row.key(), row.alarm_ms);
            want_alarm(&mut wants, DueClass::TaskLease, row.key(), row.lease_alarm_ms);
        }
        for row in &subjects.timers {
            wants.due.peek.insert(row.due_row().key());
        }
        wants.due.peek.extend(subjects.promises.iter().filter_map(Promise::due_row).map(|due| due.key()));
        for row in &subjects.keys {
            match row.holder_class {
                HolderClass::Workflow => wants.executions.peek.insert((row.tenant_id, row.holder_id)),
                HolderClass::Task => wants.tasks.peek.insert((row.tenant_id, row.holder_id)),
                HolderClass::Promise => false,
            };
        }
        for row in &subjects.ready {
            let id = (row.lane.tenant_id, row.id);
            match row.lane.class {
                WorkClass::Task => wants.tasks.peek.insert(id),
                _ => wants.executions.peek.insert(id),
            };
        }
        for row in &subjects.due {
            want_subject(&mut wants, row);
        }
        wants
    }

    /// The follow-ups that must exist, by class, tenant and id. Only a search can find them.
    pub fn follow_ups(subjects: &Snapshot) -> BTreeSet<(DueClass, TenantId, uuid::Uuid)> {
        let mut wanted = BTreeSet::new();
        for row in &subjects.executions {
            if row.purging {
                wanted.insert((DueClass::PurgeExecution, row.tenant_id, row.id));
            } else if row.status.is_terminal() && row.open_tasks + row.open_timers + row.open_promises > 0 {
                wanted.insert((DueClass::CloseItems, row.tenant_id, row.id));
            }
        }
        for row in subjects.tasks.iter().filter(|row| row.purging) {
            wanted.insert((DueClass::PurgeTask, row.tenant_id, row.id));
        }
        wanted
    }

    /// Required follow-ups are due at this time or earlier: they were due when they were written.
    pub fn follow_ups_until_ms(subjects: &Snapshot, now: Now) -> i64 {
        let events = subjects.executions.iter().map(|row| row.last_event_ms);
        let ends = subjects.tasks.iter().map(|row| row.finished_ms.unwrap_or(row.created_ms));
        events.chain(ends).max().unwrap_or(now.ms).max(now.ms)
    }
}

fn want_execution(wants: &mut Wants, row: &Execution) {
    wants.ready.peek.insert(row.ready().key());
    want_alarm(wants, DueClass::ExecutionAlarm, row.key(), row.alarm_ms);
    want_alarm(wants, DueClass::ExecutionLease, row.key(), row.lease_alarm_ms);
    if let Some(name) = row.idempotency_key.as_ref().filter(|_| !row.status.is_terminal()) {
        wants.keys.peek.insert((row.tenant_id, KeySpace::Work, name.clone()));
    }
    if row.counted {
        wants.quotas.peek.insert((row.tenant_id,));
    }
}

fn want_alarm(wants: &mut Wants, class: DueClass, (tenant_id, id): super::Id, armed_ms: Option<i64>) {
    wants.due.peek.extend(armed_ms.map(|at| Due::new(class, at, tenant_id, id).key()));
}

/// Reads children only if the log alone does not explain the number of open children.
fn want_children(wants: &mut Wants, subjects: &Snapshot) {
    let events = super::group(&subjects.events, |row| (row.tenant_id, row.execution_id));
    for row in subjects.executions.iter().filter(|row| !row.status.is_terminal()) {
        let told = events.get(&row.key()).map_or(0, |events| history::open_children(events));
        if told as i64 != row.open_children {
            let (tenant_id, parent_id) = row.key();
            wants.scans.insert(Scan::Children { tenant_id, parent_id, after: None, limit: CHILDREN });
        }
    }
}

fn want_subject(wants: &mut Wants, due: &Due) {
    let id = (due.tenant_id, due.id);
    match due.class {
        DueClass::Timer => {
            wants.timers.peek.insert((due.tenant_id, due.id, due.name.clone()));
        }
        DueClass::PromiseTimeout => {
            wants.promises.peek.insert(id);
        }
        DueClass::ExecutionAlarm | DueClass::ExecutionLease => {
            wants.executions.peek.insert(id);
        }
        DueClass::TaskAlarm | DueClass::TaskLease => {
            wants.tasks.peek.insert(id);
        }
        _ => {}
    }
}
