//! The rows one batch works on, what it still wants, what was loaded, and what is to be written.
//!
//! The list of tables stands once, in [`for_each_table!`]; stores use the same list.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{ExecutionId, Now, TaskId, TenantId, WorkerId};
use crate::state::*;
use crate::table::{Change, Found, Known, Row, Table};

/// Calls a macro with every table: `field: RowType`.
#[macro_export]
macro_rules! for_each_table {
    ($callback:ident) => {
        $callback! {
            tenants: Tenant,
            worker_tokens: WorkerToken,
            audit: AuditEntry,
            workers: Worker,
            capabilities: WorkerCapability,
            queues: PausedQueue,
            executions: Execution,
            quotas: Quota,
            labels: Label,
            events: Event,
            states: StateEntry,
            timers: Timer,
            promises: Promise,
            tasks: Task,
            attempts: Attempt,
            task_states: TaskState,
            task_logs: TaskLog,
            keys: IdempotencyKey,
            ready: Ready,
            due: Due,
        }
    };
}

/// Keys wanted from one table.
#[derive(Debug, Clone)]
pub struct KeySet<R: Row> {
    /// Rows that will be changed: locked, where the table has locks of its own.
    pub lock: BTreeSet<R::Key>,
    /// Rows that are only looked at.
    pub peek: BTreeSet<R::Key>,
}

impl<R: Row> Default for KeySet<R> {
    fn default() -> Self {
        Self { lock: BTreeSet::new(), peek: BTreeSet::new() }
    }
}

impl<R: Row> KeySet<R> {
    pub fn is_empty(&self) -> bool {
        self.lock.is_empty() && self.peek.is_empty()
    }
}

/// A search whose result is a set of rows. Each has a limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scan {
    /// All queues that are paused, of all tenants: nearly always none.
    PausedQueues,
    TenantBySlug {
        slug: crate::ids::Text,
    },
    /// Children of an execution, by id, after a cursor.
    Children {
        tenant_id: TenantId,
        parent_id: ExecutionId,
        after: Option<ExecutionId>,
        limit: usize,
    },
    /// Tasks of an execution that are not finished.
    OpenTasks {
        tenant_id: TenantId,
        execution_id: ExecutionId,
        limit: usize,
    },
    OpenTimers {
        tenant_id: TenantId,
        execution_id: ExecutionId,
        limit: usize,
    },
    OpenPromises {
        tenant_id: TenantId,
        execution_id: ExecutionId,
        limit: usize,
    },
    Labels {
        tenant_id: TenantId,
        execution_id: ExecutionId,
    },
    TaskStateKeys {
        tenant_id: TenantId,
        task_id: TaskId,
        limit: usize,
    },
    Capabilities {
        tenant_id: TenantId,
        worker_id: WorkerId,
    },
    /// Workers last heard of before a moment, of all tenants.
    SilentWorkers {
        before_ms: i64,
        limit: usize,
    },
    /// The execution that was started with this key last, if one was.
    NewestWithKey {
        tenant_id: TenantId,
        name: crate::ids::Text,
    },
    /// Keys that expire at or before a moment.
    ExpiredKeys {
        until_ms: i64,
        limit: usize,
    },
    /// What was written into the audit log before a moment, of all tenants, oldest first.
    AuditBefore {
        before_ms: i64,
        limit: usize,
    },
    /// Rows that belong to an execution and go when it is purged: up to `limit` of each table.
    Belongings {
        tenant_id: TenantId,
        execution_id: ExecutionId,
        limit: usize,
    },
    /// The same for a standalone task.
    TaskBelongings {
        tenant_id: TenantId,
        task_id: TaskId,
        limit: usize,
    },
}

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        #[derive(Debug, Default)]
        pub struct WorkingSet {
            $(pub $field: Table<$row>,)*
            scanned: BTreeSet<Scan>,
            lanes_scanned: BTreeSet<Lane>,
            /// Ready rows by lane in order of work, as far as they are known; claims take from the front.
            pub(crate) pool: BTreeMap<Lane, BTreeSet<PlaceInLane>>,
        }

        /// A place in what a request writes, to come back to.
        #[derive(Debug, Default)]
        pub(crate) struct Mark {
            $($field: usize,)*
        }

        /// What a batch has to load before it can go on.
        #[derive(Debug, Clone, Default)]
        pub struct Wants {
            $(pub $field: KeySet<$row>,)*
            pub scans: BTreeSet<Scan>,
            /// How many ready rows of each lane.
            pub lanes: BTreeMap<Lane, usize>,
        }

        /// What a load found. Keys that were wanted and are not here are absent.
        #[derive(Debug)]
        pub struct Loaded {
            $(pub $field: Vec<$row>,)*
            /// Executions, tasks and promises that exist but are locked by another process.
            pub busy: Busy,
            /// The clock, read after the locks were taken.
            pub now: Now,
        }

        impl Loaded {
            pub fn at(now: Now) -> Self {
                Self { $($field: Vec::new(),)* busy: Busy::default(), now }
            }
        }

        /// Keys that exist but could not be locked, by table.
        #[derive(Debug, Clone, Default)]
        pub struct Busy {
            $(pub $field: Vec<<$row as Row>::Key>,)*
        }

        /// All row changes of a batch: one transaction. Those of a table are in the order of their keys.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Mutations {
            $(pub $field: Vec<Change<$row>>,)*
        }

        impl Mutations {
            pub fn len(&self) -> usize { 0 $(+ self.$field.len())* }
            pub fn is_empty(&self) -> bool { self.len() == 0 }
        }

        impl Wants {
            pub fn is_empty(&self) -> bool {
                self.scans.is_empty() && self.lanes.is_empty() $(&& self.$field.is_empty())*
            }
        }

        impl WorkingSet {
            /// Takes in the answer to `wants`.
            pub fn supply(&mut self, wants: &Wants, loaded: Loaded) {
                for row in &loaded.ready {
                    self.pool.entry(row.lane.clone()).or_default().insert(row.place());
                }
                $(
                    for row in loaded.$field {
                        let key = row.key();
                        // What a scan or a look brought is not locked, be it that its lock was wanted and could not be had.
                        let had = wants.$field.lock.contains(&key) && !loaded.busy.$field.contains(&key);
                        self.$field.supply(key, Found::Row(row), !<$row as Row>::LOCKED || had);
                    }
                    for key in loaded.busy.$field { self.$field.supply(key, Found::Busy, false); }
                    for key in &wants.$field.lock {
                        if self.$field.known(key, true) == Known::No {
                            self.$field.supply(key.clone(), Found::Absent, true);
                        }
                    }
                    for key in &wants.$field.peek {
                        if self.$field.known(key, false) == Known::No {
                            self.$field.supply(key.clone(), Found::Absent, false);
                        }
                    }
                )*
                self.scanned.extend(wants.scans.iter().cloned());
                self.lanes_scanned.extend(wants.lanes.keys().cloned());
            }

            pub fn keep(&mut self) { $(self.$field.keep();)* }

            /// How much the request has written so far.
            pub(crate) fn mark(&self) -> Mark {
                Mark { $($field: self.$field.mark(),)* }
            }

            /// Takes back what the request wrote after a mark; all of it with the default.
            pub(crate) fn undo_to(&mut self, mark: &Mark) {
                let line_changed = self.ready.mark() > mark.ready;
                $(self.$field.undo_to(mark.$field);)*
                if line_changed {
                    self.rebuild_pool();
                }
            }

            /// Whether the request changes anything: rows written as they were do not count.
            pub(crate) fn is_changed(&self) -> bool { false $(|| self.$field.is_changed())* }

            pub fn take_mutations(&mut self) -> Mutations {
                Mutations { $($field: self.$field.take_changes(),)* }
            }
        }

        $(
            impl HasTable<$row> for WorkingSet {
                fn table(&self) -> &Table<$row> { &self.$field }
            }
            impl HasKeys<$row> for Wants {
                fn keys(&mut self) -> &mut KeySet<$row> { &mut self.$field }
            }
        )*
    };
}

for_each_table!(define);

/// Finds the table of a row type.
pub trait HasTable<R: Row> {
    fn table(&self) -> &Table<R>;
}

/// Finds the wanted keys of a row type.
pub trait HasKeys<R: Row> {
    fn keys(&mut self) -> &mut KeySet<R>;
}

impl WorkingSet {
    pub fn is_scanned(&self, scan: &Scan) -> bool {
        self.scanned.contains(scan)
    }

    pub fn is_lane_scanned(&self, lane: &Lane) -> bool {
        self.lanes_scanned.contains(lane)
    }

    /// Makes work claimable.
    pub(crate) fn add_ready(&mut self, row: Ready) {
        self.pool.entry(row.lane.clone()).or_default().insert(row.place());
        self.ready.put(row);
    }

    /// Takes work out of the ready table, whether its row was loaded or not.
    pub(crate) fn remove_ready(&mut self, row: Ready) {
        if let Some(lane) = self.pool.get_mut(&row.lane) {
            lane.remove(&row.place());
        }
        self.ready.delete_known(row);
    }

    fn rebuild_pool(&mut self) {
        self.pool.clear();
        for row in self.ready.current() {
            self.pool.entry(row.lane.clone()).or_default().insert(row.place());
        }
    }
}

/// Collects what one request needs, against what is already there.
#[derive(Debug)]
pub struct Needs<'a> {
    set: &'a WorkingSet,
    wants: &'a mut Wants,
    deferred: &'a BTreeSet<(TenantId, ExecutionId)>,
    /// Something it needs is locked elsewhere, or an earlier request for the same execution has to wait.
    pub(crate) blocked: bool,
    pub(crate) missing: bool,
    pub(crate) executions: Vec<(TenantId, ExecutionId)>,
}

impl<'a> Needs<'a> {
    pub(crate) fn new(
        set: &'a WorkingSet,
        wants: &'a mut Wants,
        deferred: &'a BTreeSet<(TenantId, ExecutionId)>,
    ) -> Self {
        Self { set, wants, deferred, blocked: false, missing: false, executions: Vec::new() }
    }

    /// A row that may be changed. `None`: not loaded yet, or absent; `decide` tells which.
    pub(crate) fn row<R: Row>(&mut self, key: R::Key) -> Option<&'a R>
    where
        WorkingSet: HasTable<R>,
        Wants: HasKeys<R>,
    {
        match HasTable::<R>::table(self.set).known(&key, true) {
            Known::Row(row) => return Some(row),
            Known::Absent => {}
            Known::Busy => self.blocked = true,
            Known::No => {
                self.missing = true;
                HasKeys::<R>::keys(self.wants).lock.insert(key);
            }
        }
        None
    }

    /// An execution that may be changed; remembered, so that later requests keep their order behind this one.
    pub(crate) fn execution(&mut self, key: (TenantId, ExecutionId)) -> Option<&'a Execution> {
        self.blocked |= self.deferred.contains(&key);
        self.executions.push(key);
        self.row::<Execution>(key)
    }

    /// A row that is only looked at, but must be known.
    pub(crate) fn peek<R: Row>(&mut self, key: R::Key) -> Option<&'a R>
    where
        WorkingSet: HasTable<R>,
        Wants: HasKeys<R>,
    {
        match HasTable::<R>::table(self.set).known(&key, false) {
            Known::Row(row) => return Some(row),
            Known::Absent => {}
            // Another request of this batch wanted its lock and could not have it: absent it is not.
            Known::Busy => self.blocked = true,
            Known::No => {
                self.missing = true;
                HasKeys::<R>::keys(self.wants).peek.insert(key);
            }
        }
        None
    }

    /// A row that is looked at if it can be: busy is no reason to wait, and `decide` must expect it.
    pub(crate) fn glance<R: Row>(&mut self, key: R::Key) -> Option<&'a R>
    where
        WorkingSet: HasTable<R>,
        Wants: HasKeys<R>,
    {
        let was_blocked = self.blocked;
        let row = self.peek::<R>(key);
        self.blocked = was_blocked;
        row
    }

    /// A row that is taken if it can be had: busy is no reason to wait.
    pub(crate) fn candidate<R: Row>(&mut self, key: R::Key) -> Option<&'a R>
    where
        WorkingSet: HasTable<R>,
        Wants: HasKeys<R>,
    {
        let was_blocked = self.blocked;
        let row = self.row::<R>(key);
        self.blocked = was_blocked;
        row
    }

    /// Whether the scan has been made.
    pub(crate) fn scan(&mut self, scan: Scan) -> bool {
        if self.set.is_scanned(&scan) {
            return true;
        }
        self.missing = true;
        self.wants.scans.insert(scan);
        false
    }

    /// Whether the lane has been searched; claims of one batch add up.
    pub(crate) fn lane(&mut self, lane: &Lane, limit: usize) -> bool {
        if self.set.is_lane_scanned(lane) {
            return true;
        }
        self.missing = true;
        *self.wants.lanes.entry(lane.clone()).or_default() += limit;
        false
    }

    pub(crate) fn set(&self) -> &'a WorkingSet {
        self.set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_busy_row_that_a_scan_brought_is_busy_and_in_sight() {
        let row = Tenant {
            id: Uuid::nil(),
            version: 1,
            slug: "acme".into(),
            name: "Acme".into(),
            created_ms: 1,
            retention_ms: None,
        };
        let (mut set, mut wants) = (WorkingSet::default(), Wants::default());
        wants.tenants.lock.insert(row.key());
        let mut loaded = Loaded::at(Now::same(1));
        loaded.tenants.push(row.clone());
        loaded.busy.tenants.push(row.key());
        set.supply(&wants, loaded);
        assert_eq!(set.tenants.known(&row.key(), true), Known::Busy);
        assert_eq!(
            set.tenants.current().collect::<Vec<_>>(),
            [&row],
            "whoever goes through the rows finds it"
        );
    }
}
