//! The row changes of the workload, as the engine produces them, as plain values.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use flovyn_engine::request::Op;
use flovyn_engine::state::WorkClass;
use flovyn_engine::{
    Batch, BatchStep, Change, Decided, Limits, Mutations, Now, Reply, Request, for_each_table, state::*,
};
use flovyn_store::memory::MemoryTables;
use flovyn_store::record::{Column, Record};
use flovyn_store::value::Value;
use uuid::Uuid;

use crate::workload::{self, TENANT};

/// An owned copy of a column value.
#[derive(Debug, Clone)]
pub(crate) enum Owned {
    Null,
    Small(i16),
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    Uuid(Uuid),
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Small(value) => Self::Small(value),
            Value::Int(value) => Self::Int(value),
            Value::Real(value) => Self::Real(value),
            Value::Text(value) => Self::Text(value.to_owned()),
            Value::Bytes(value) => Self::Bytes(value.to_vec()),
            Value::Uuid(value) => Self::Uuid(value),
        }
    }
}

/// All changes to one table in one transaction.
#[derive(Debug)]
pub(crate) struct TableChanges {
    pub(crate) table: &'static str,
    pub(crate) columns: &'static [Column],
    pub(crate) key_columns: usize,
    pub(crate) inserts: Vec<Vec<Owned>>,
    pub(crate) updates: Vec<Vec<Owned>>,
    pub(crate) deletes: Vec<Vec<Owned>>,
}

/// All changes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Changes(pub(crate) Vec<TableChanges>);

impl Changes {
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|table| table.inserts.len() + table.updates.len() + table.deletes.len()).sum()
    }
}

fn table<R: Record>(changes: &[Change<R>]) -> TableChanges {
    let mut out = TableChanges {
        table: R::TABLE,
        columns: R::COLUMNS,
        key_columns: R::KEY_COLUMNS,
        inserts: Vec::new(),
        updates: Vec::new(),
        deletes: Vec::new(),
    };
    for change in changes {
        let (row, list) = match change {
            Change::Insert(row) => (row, &mut out.inserts),
            Change::Update { row, .. } => (row, &mut out.updates),
            Change::Delete { row, .. } => (row, &mut out.deletes),
        };
        let mut values = Vec::new();
        row.values(&mut values);
        list.push(values.into_iter().map(Owned::from).collect());
    }
    out
}

macro_rules! lay_out {
    ($($field:ident: $row:ident,)*) => {
        fn lay_out(mutations: &Mutations) -> Changes {
            let mut tables = vec![$(table::<$row>(&mutations.$field),)*];
            tables.retain(|table| table.inserts.len() + table.updates.len() + table.deletes.len() > 0);
            Changes(tables)
        }
    };
}
for_each_table!(lay_out);

/// Seeds never repeat within a run, so ids do not repeat either.
static SEED: AtomicU64 = AtomicU64::new(1);

fn request(op: impl Into<Op>) -> Arc<Request> {
    Arc::new(Request::new(TENANT, SEED.fetch_add(1, Ordering::Relaxed), op))
}

fn now() -> Now {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now::same(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// Decides requests on the memory tables and returns the answers and the row changes.
fn decide(tables: &mut MemoryTables, requests: Vec<Arc<Request>>) -> (Vec<Decided>, Mutations) {
    let mut batch = Batch::new(requests, Arc::new(Limits::default()));
    let mut step = batch.advance(None);
    while let BatchStep::Load(wants) = step {
        step = batch.advance(Some(tables.load(&wants, now())));
    }
    let mutations = batch.take_mutations();
    tables.apply(&mutations).expect("no other writer uses these tables");
    (batch.into_decided(), mutations)
}

/// The row changes of a start without a waiting worker.
pub(crate) fn of_start() -> Changes {
    lay_out(&decide(&mut MemoryTables::default(), vec![request(workload::start())]).1)
}

/// The transactions of `count` one-task workflows with direct hand-off: start, schedule, complete task, complete.
pub(crate) fn of_workflows(count: usize) -> Vec<Changes> {
    let mut tables = MemoryTables::default();
    let session = Uuid::from_u128(7);
    let claim = |class| request(workload::claim(class, count, session));
    let mut steps = Vec::new();

    let mut requests: Vec<_> = (0..count).map(|_| request(workload::start())).collect();
    requests.push(claim(WorkClass::Workflow));
    let (decided, mutations) = decide(&mut tables, requests);
    steps.push(lay_out(&mutations));

    let mut requests: Vec<_> = claimed(&decided)
        .workflows
        .iter()
        .map(|item| {
            let row = &item.execution;
            request(workload::schedule(row.id, item.token, row.last_sequence, workload::task_id(row.id)))
        })
        .collect();
    requests.push(claim(WorkClass::Task));
    let (decided, mutations) = decide(&mut tables, requests);
    steps.push(lay_out(&mutations));

    let mut requests: Vec<_> = claimed(&decided)
        .tasks
        .iter()
        .map(|item| request(workload::finish_task(item.task.id, item.token)))
        .collect();
    requests.push(claim(WorkClass::Workflow));
    let (decided, mutations) = decide(&mut tables, requests);
    steps.push(lay_out(&mutations));

    let requests = claimed(&decided)
        .workflows
        .iter()
        .map(|item| {
            let row = &item.execution;
            request(workload::complete(row.id, item.token, row.last_sequence))
        })
        .collect();
    steps.push(lay_out(&decide(&mut tables, requests).1));
    steps
}

fn claimed(decided: &[Decided]) -> flovyn_engine::reply::Claimed {
    match decided.last() {
        Some(Decided::Reply(Reply::Claimed(claimed))) => claimed.clone(),
        other => panic!("the claim was answered with {other:?}"),
    }
}
