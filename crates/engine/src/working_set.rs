//! The rows that one batch works on: what it still wants, what was loaded, and what is to be written.
//!
//! The list of tables is defined once, in [`for_each_table!`]; stores use the same list.

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

/// The keys that are wanted from one table.
#[derive(Debug, Clone)]
pub struct KeySet<R: Row> {
    /// Rows that will be changed. They are locked if the table has locks of its own.
    pub lock: BTreeSet<R::Key>,
    /// Rows that are only read.
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

/// A search that returns a set of rows, up to a limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scan {
    /// All paused queues of all tenants. Usually there are none.
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
    /// Workers of all tenants that were last seen before `before_ms`.
    SilentWorkers {
        before_ms: i64,
        limit: usize,
    },
    /// The newest execution that was started with this key. It may find none.
    NewestWithKey {
        tenant_id: TenantId,
        name: crate::ids::Text,
    },
    /// Keys that expire at or before `until_ms`.
    ExpiredKeys {
        until_ms: i64,
        limit: usize,
    },
    /// Audit log entries of all tenants from before `before_ms`, oldest first.
    AuditBefore {
        before_ms: i64,
        limit: usize,
    },
    /// Rows that belong to an execution and are purged with it: up to `limit` of each table.
    Belongings {
        tenant_id: TenantId,
        execution_id: ExecutionId,
        limit: usize,
    },
    /// Rows that belong to a standalone task and are purged with it: up to `limit` of each table.
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
            /// Known ready rows by lane, in order of work; claims take from the front.
            pub(crate) pool: BTreeMap<Lane, BTreeSet<PlaceInLane>>,
        }

        /// A point in a request's writes, to undo back to.
        #[derive(Debug, Default)]
        pub(crate) struct Mark {
            $($field: usize,)*
        }

        /// What a batch has to load before it can continue.
        #[derive(Debug, Clone, Default)]
        pub struct Wants {
            $(pub $field: KeySet<$row>,)*
            pub scans: BTreeSet<Scan>,
            /// How many ready rows of each lane to load.
            pub lanes: BTreeMap<Lane, usize>,
        }

        /// The result of a load. Wanted keys that are missing here do not exist.
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

        /// All row changes of a batch: one transaction. The changes of a table are sorted by key.
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
            /// Adds the rows that were loaded for `wants`.
            pub fn supply(&mut self, wants: &Wants, loaded: Loaded) {
                for row in &loaded.ready {
                    self.pool.entry(row.lane.clone()).or_default().insert(row.place());
                }
                $(
                    for row in loaded.$field {
                        let key = row.key();
                        // A row from a scan or a read is not locked, even if its lock was wanted but not available.
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

            /// The point that the request's writes have reached.
            pub(crate) fn mark(&self) -> Mark {
                Mark { $($field: self.$field.mark(),)* }
            }

            /// Undoes what the request wrote after a mark. The default mark undoes all of it.
            pub(crate) fn undo_to(&mut self, mark: &Mark) {
                let line_changed = self.ready.mark() > mark.ready;
                $(self.$field.undo_to(mark.$field);)*
                if line_changed {
                    self.rebuild_pool();
                }
            }

            /// Whether the request changes anything. Rows rewritten with the same content do not count.
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

    /// Removes work from the ready table, whether its row was loaded or not.
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

/// Collects what one request needs beyond what is already loaded.
#[derive(Debug)]
pub struct Needs<'a> {
    set: &'a WorkingSet,
    wants: &'a mut Wants,
    deferred: &'a BTreeSet<(TenantId, ExecutionId)>,
    /// A needed row is locked elsewhere, or an earlier request for the same execution has to wait.
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

    /// A row that may be changed. `None`: not loaded yet, or absent; `decide` can tell which.
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

    /// An execution that may be changed. It is remembered, so that later requests for it keep their order.
    pub(crate) fn execution(&mut self, key: (TenantId, ExecutionId)) -> Option<&'a Execution> {
        self.blocked |= self.deferred.contains(&key);
        self.executions.push(key);
        self.row::<Execution>(key)
    }

    /// A row that is only read, but must be known.
    pub(crate) fn peek<R: Row>(&mut self, key: R::Key) -> Option<&'a R>
    where
        WorkingSet: HasTable<R>,
        Wants: HasKeys<R>,
    {
        match HasTable::<R>::table(self.set).known(&key, false) {
            Known::Row(row) => return Some(row),
            Known::Absent => {}
            // Another request of this batch wanted the row's lock and could not get it: the row exists.
            Known::Busy => self.blocked = true,
            Known::No => {
                self.missing = true;
                HasKeys::<R>::keys(self.wants).peek.insert(key);
            }
        }
        None
    }

    /// A row that is read if possible. A busy row is no reason to wait, so `decide` must expect that it is missing.
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

    /// A row that is taken if its lock is available. A busy row is no reason to wait.
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
