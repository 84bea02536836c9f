//! The promises of the product as predicates over a snapshot: used by tests, by the simulator and by checkers.
//!
//! Each finding names its promise. An empty result means that the promises P2 to P8 hold.

mod claims;
mod history;
mod orphans;
mod quotas;

use std::collections::BTreeMap;
use std::fmt;

use crate::ids::{Now, TenantId};
use crate::snapshot::Snapshot;
use crate::state::*;

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
    /// No orphan: whatever is not terminal has a live cause.
    P6,
    /// Stored state equals the fold of the history.
    P7,
    /// Timers never fire early.
    P8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub promise: Promised,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.message)
    }
}

type Id = (TenantId, uuid::Uuid);

/// A snapshot with the look-ups that the checks share.
pub(crate) struct View<'a> {
    snapshot: &'a Snapshot,
    now: Now,
    executions: BTreeMap<Id, &'a Execution>,
    tasks: BTreeMap<Id, &'a Task>,
    events: BTreeMap<Id, Vec<&'a Event>>,
    timers: BTreeMap<Id, Vec<&'a Timer>>,
    promises: BTreeMap<Id, Vec<&'a Promise>>,
    due: BTreeMap<(DueClass, TenantId, uuid::Uuid), Vec<&'a Due>>,
    ready: BTreeMap<Id, Vec<&'a Ready>>,
    found: Vec<Violation>,
}

impl View<'_> {
    fn report(&mut self, promise: Promised, message: String) {
        self.found.push(Violation { promise, message });
    }

    fn has_due(&self, class: DueClass, (tenant_id, id): Id, due_ms: i64) -> bool {
        self.due.get(&(class, tenant_id, id)).is_some_and(|rows| rows.iter().any(|row| row.due_ms == due_ms))
    }

    fn has_follow_up(&self, class: DueClass, (tenant_id, id): Id) -> bool {
        self.due.contains_key(&(class, tenant_id, id))
    }
}

/// Checks every promise on a consistent snapshot taken at `now`.
pub fn check(snapshot: &Snapshot, now: Now) -> Vec<Violation> {
    let mut view = view(snapshot, now);
    history::check(&mut view);
    claims::check(&mut view);
    orphans::check(&mut view);
    quotas::check(&mut view);
    view.found
}

/// Checks P6 alone, on rows that belong together: something open, and what was found of its causes.
pub(crate) fn orphans(snapshot: &Snapshot, now: Now) -> Vec<Violation> {
    let mut view = view(snapshot, now);
    orphans::check(&mut view);
    view.found
}

fn view(snapshot: &Snapshot, now: Now) -> View<'_> {
    View {
        snapshot,
        now,
        executions: snapshot.executions.iter().map(|row| (row.key(), row)).collect(),
        tasks: snapshot.tasks.iter().map(|row| (row.key(), row)).collect(),
        events: group(&snapshot.events, |row| (row.tenant_id, row.execution_id)),
        timers: group(&snapshot.timers, |row| (row.tenant_id, row.execution_id)),
        promises: group(&snapshot.promises, |row| (row.tenant_id, row.execution_id)),
        due: group(&snapshot.due, |row| (row.class, row.tenant_id, row.id)),
        ready: group(&snapshot.ready, |row| (row.lane.tenant_id, row.id)),
        found: Vec::new(),
    }
}

fn group<K: Ord, R>(rows: &[R], key: impl Fn(&R) -> K) -> BTreeMap<K, Vec<&R>> {
    let mut groups: BTreeMap<K, Vec<&R>> = BTreeMap::new();
    for row in rows {
        groups.entry(key(row)).or_default().push(row);
    }
    groups
}
