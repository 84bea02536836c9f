//! The promises of the product as predicates over a snapshot. Tests, the simulator and checkers use them.
//!
//! Each finding names its promise. An empty result means that the promises P2 to P8 and P11 to P13 hold.

mod claims;
mod history;
mod orphans;
mod page;
mod quotas;
pub(crate) mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::ids::{ExecutionId, Now, PromiseId, TaskId, TenantId, Text};
use crate::snapshot::Snapshot;
use crate::state::*;

pub use page::{InspectPage, Part};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promised {
    /// One idempotency key, one execution.
    P2,
    /// History is gap-free and append-only, with exactly one terminal event, and it is last.
    P3,
    /// At most one accepted outcome per task; a stale claim changes nothing.
    P4,
    /// Effects on the log happen exactly once.
    P5,
    /// No orphan: everything that is open has a live cause.
    P6,
    /// Stored state equals the fold of the history.
    P7,
    /// Timers never fire early.
    P8,
    /// An execution does not complete or fail by its own command while it has an unseen signal.
    P11,
    /// A refusal that a retry cannot cure moves its execution or task on, visibly, with its code.
    P12,
    /// At most one open execution holds a key that was taken by signal-with-start.
    P13,
}

/// The subject of a finding.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    Execution(ExecutionId),
    Task(TaskId),
    Timer {
        execution_id: ExecutionId,
        name: Text,
    },
    Promise(PromiseId),
    Key(Text),
    Quota,
    /// A row of the search tables themselves.
    Ready(Ready),
    Due(Due),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Execution(id) => write!(f, "execution {id}"),
            Self::Task(id) => write!(f, "task {id}"),
            Self::Timer { execution_id, name } => write!(f, "timer {name} of {execution_id}"),
            Self::Promise(id) => write!(f, "promise {id}"),
            Self::Key(name) => write!(f, "key '{name}'"),
            Self::Quota => f.write_str("quota"),
            Self::Ready(row) => write!(f, "ready row of {}", row.id),
            Self::Due(row) => write!(f, "due row {} of {}", row.class, row.id),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    pub promise: Promised,
    pub tenant_id: TenantId,
    pub subject: Subject,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.message)
    }
}

type Id = (TenantId, uuid::Uuid);

/// The rows to be checked, with the look-ups that the checks share.
pub(crate) struct View<'a> {
    /// The rows that are checked. All other rows are context.
    subjects: &'a Snapshot,
    now: Now,
    executions: BTreeMap<Id, &'a Execution>,
    tasks: BTreeMap<Id, &'a Task>,
    events: BTreeMap<Id, Vec<&'a Event>>,
    timers: BTreeMap<Id, Vec<&'a Timer>>,
    promises: BTreeMap<Id, Vec<&'a Promise>>,
    promise_ids: BTreeMap<Id, &'a Promise>,
    due: BTreeMap<(DueClass, TenantId, uuid::Uuid), Vec<&'a Due>>,
    ready: BTreeMap<Id, Vec<&'a Ready>>,
    work_keys: BTreeMap<(TenantId, Text), &'a IdempotencyKey>,
    quota_tenants: BTreeSet<TenantId>,
    found: Vec<Violation>,
}

impl<'a> View<'a> {
    fn new(subjects: &'a Snapshot, context: &'a Snapshot, now: Now) -> Self {
        let promises = || subjects.promises.iter().chain(&context.promises);
        let keys = subjects.keys.iter().chain(&context.keys).filter(|key| key.space == KeySpace::Work);
        let quotas = subjects.quotas.iter().chain(&context.quotas);
        // If a row is both a subject and context, the subject counts.
        Self {
            subjects,
            now,
            executions: context
                .executions
                .iter()
                .chain(&subjects.executions)
                .map(|row| (row.key(), row))
                .collect(),
            tasks: context.tasks.iter().chain(&subjects.tasks).map(|row| (row.key(), row)).collect(),
            events: group(&subjects.events, |row| (row.tenant_id, row.execution_id)),
            timers: group(subjects.timers.iter().chain(&context.timers), |row| {
                (row.tenant_id, row.execution_id)
            }),
            promises: group(promises(), |row| (row.tenant_id, row.execution_id)),
            promise_ids: promises().map(|row| ((row.tenant_id, row.id), row)).collect(),
            due: group(subjects.due.iter().chain(&context.due), |row| (row.class, row.tenant_id, row.id)),
            ready: group(subjects.ready.iter().chain(&context.ready), |row| (row.lane.tenant_id, row.id)),
            work_keys: keys.map(|key| ((key.tenant_id, key.name.clone()), key)).collect(),
            quota_tenants: quotas.map(|row| row.tenant_id).collect(),
            found: Vec::new(),
        }
    }

    fn report(&mut self, promise: Promised, tenant_id: TenantId, subject: Subject, message: String) {
        self.found.push(Violation { promise, tenant_id, subject, message });
    }

    fn has_due(&self, class: DueClass, (tenant_id, id): Id, due_ms: i64) -> bool {
        self.due.get(&(class, tenant_id, id)).is_some_and(|rows| rows.iter().any(|row| row.due_ms == due_ms))
    }

    fn has_follow_up(&self, class: DueClass, (tenant_id, id): Id) -> bool {
        self.due.contains_key(&(class, tenant_id, id))
    }

    fn check(mut self, open: &BTreeMap<TenantId, i64>) -> Vec<Violation> {
        history::check(&mut self);
        claims::check(&mut self);
        orphans::check(&mut self);
        quotas::check(&mut self, open);
        self.found
    }
}

/// Checks every promise on a consistent snapshot taken at `now`.
pub fn check(snapshot: &Snapshot, now: Now) -> Vec<Violation> {
    View::new(snapshot, &Snapshot::default(), now).check(&quotas::count_open(snapshot))
}

/// Checks P6 alone, on an open execution or task and the rows that were found as its causes.
pub(crate) fn orphans(snapshot: &Snapshot, now: Now) -> Vec<Violation> {
    let nothing = Snapshot::default();
    let mut view = View::new(snapshot, &nothing, now);
    orphans::check(&mut view);
    view.found
}

/// Checks the rows of one page. All pages of all parts together check as much as [`check`].
pub fn check_page(page: &InspectPage) -> Vec<Violation> {
    View::new(&page.subjects, &page.context, page.now).check(&page.open_workflows)
}

fn group<'a, K: Ord, R: 'a>(
    rows: impl IntoIterator<Item = &'a R>,
    key: impl Fn(&R) -> K,
) -> BTreeMap<K, Vec<&'a R>> {
    let mut groups: BTreeMap<K, Vec<&R>> = BTreeMap::new();
    for row in rows {
        groups.entry(key(row)).or_default().push(row);
    }
    groups
}
