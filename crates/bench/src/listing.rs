//! Latency of one page of executions in a very large table: by status, kind, queue and label, for the first page and
//! for a page far down.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use flovyn_engine::state::{Due, DueClass, Execution, ExecutionStatus as Status, Label, SmallEnum};
use flovyn_engine::{Change, Loaded, Mutations, Reply, Row};
use flovyn_store::{Decider, ExecutionFilter, Page, Step, Store, TransactOptions};
use indicatif::{ProgressBar, ProgressStyle};
use uuid::Uuid;

use crate::figures::{Latencies, Line};
use crate::target::{Database, Target};
use crate::workload::{self, TENANT};

/// Executions in one transaction.
const BULK: usize = 2_000;
/// Queries for each kind of page.
const QUERIES: usize = 200;
const LIMIT: usize = 50;
const KINDS: usize = 40;
const QUEUES: usize = 10;
const CUSTOMERS: usize = 1_000;
/// One execution in this many has the rare kind and is in the rare queue.
const RARE: usize = 5_000;

pub(crate) async fn run(database: Database, executions: usize) -> Result<String, String> {
    let target = Target::new(database).await?;
    let store = target.service.store().clone();
    let template = template(&target).await?;
    fill(store.as_ref(), &template, executions).await?;
    target.analyze().await?;
    let mut line =
        Line::new("listing").text("store", database.name()).number("executions", executions as f64);
    // The position one tenth from the oldest end: nine tenths of the rows are newer.
    let deep = (template.created_ms + (executions / 10) as i64, Uuid::max());
    let mut worst: f64 = 0.0;
    for (name, filter) in filters() {
        for (place, after) in [("", None), ("_deep", Some(deep))] {
            let found = pages(store.as_ref(), &filter, after).await?;
            let (p50, p99) = (found.percentile_ms(50.0), found.percentile_ms(99.0));
            eprintln!("{name}{place}: p50 {p50} ms, p99 {p99} ms");
            worst = worst.max(p50);
            line = line.number(&format!("{name}{place}_p50_ms"), p50);
            line = line.number(&format!("{name}{place}_p99_ms"), p99);
        }
    }
    target.service.stop().await;
    Ok(line.number("worst_p50_ms", worst).finish())
}

fn filters() -> Vec<(String, ExecutionFilter)> {
    let mut filters = vec![("all".to_owned(), ExecutionFilter::default())];
    for status in Status::ALL {
        let filter = ExecutionFilter { status: Some(*status), ..ExecutionFilter::default() };
        filters.push((format!("status_{}", status.name().to_lowercase()), filter));
    }
    let kind = |kind: &str| ExecutionFilter { kind: Some(kind.into()), ..ExecutionFilter::default() };
    let queue = |queue: &str| ExecutionFilter { queue: Some(queue.into()), ..ExecutionFilter::default() };
    let label = |name: &str, value: &str| ExecutionFilter {
        label: Some((name.into(), value.into())),
        ..ExecutionFilter::default()
    };
    filters.push(("kind".to_owned(), kind("kind-1")));
    filters.push(("kind_rare".to_owned(), kind("rare")));
    filters.push(("queue".to_owned(), queue("queue-1")));
    filters.push(("queue_rare".to_owned(), queue("rare")));
    filters.push(("label".to_owned(), label("environment", "production")));
    filters.push(("label_rare".to_owned(), label("customer", "customer-1")));
    filters
}

async fn pages(
    store: &dyn Store,
    filter: &ExecutionFilter,
    after: Option<(i64, Uuid)>,
) -> Result<Latencies, String> {
    let mut latencies = Latencies::default();
    for _ in 0..QUERIES {
        let begin = Instant::now();
        let page = Page { after, offset: 0, limit: LIMIT };
        let found = store.execution_list(TENANT, filter, page).await.map_err(|error| error.to_string())?;
        latencies.add(begin.elapsed());
        if found.is_empty() {
            return Err(format!("no execution matches {filter:?}"));
        }
    }
    Ok(latencies)
}

/// An execution that the engine created. The other executions are copies that differ in the columns used by filters.
async fn template(target: &Target) -> Result<Execution, String> {
    let reply =
        target.service.call(TENANT, workload::start()).await.map_err(|refusal| refusal.to_string())?;
    let Reply::Started(started) = reply else {
        return Err("a start returned an unexpected reply".into());
    };
    let found = target.service.store().execution_get(TENANT, started.execution_id).await;
    found.map_err(|error| error.to_string())?.ok_or_else(|| "the started execution was not found".into())
}

/// A mix of statuses as after months of operation: nearly all executions have finished, and most open ones wait.
fn status(number: usize) -> Status {
    match number % 1_000 {
        0 => Status::Running,
        1..=4 => Status::Pending,
        5..=39 => Status::Waiting,
        40..=89 => Status::Failed,
        90..=99 => Status::Cancelled,
        _ => Status::Completed,
    }
}

fn execution(template: &Execution, number: usize) -> Execution {
    let created_ms = template.created_ms + number as i64;
    // Statuses, kinds, queues and labels must not be correlated with each other.
    let mixed = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let mixed = usize::try_from(mixed).unwrap_or_default();
    let rare = number % RARE == 7;
    let status = status(mixed);
    let lease_ms = (status == Status::Running).then_some(created_ms + 1_000_000_000);
    Execution {
        id: workload::ordered_id(created_ms, number as u64),
        kind: if rare { "rare".into() } else { format!("kind-{}", mixed / 7 % KINDS).into() },
        queue: if rare { "rare".into() } else { format!("queue-{}", mixed / 11 % QUEUES).into() },
        created_ms,
        last_event_ms: created_ms,
        status,
        finished_ms: status.is_terminal().then_some(created_ms),
        lease_until_ms: lease_ms,
        lease_alarm_ms: lease_ms,
        ..template.clone()
    }
}

/// Adds the rows that the engine would have written, as far as any query reads them.
fn add(mutations: &mut Mutations, row: Execution, number: usize) {
    let label = |name: &str, value: String| {
        Change::Insert(Label {
            tenant_id: row.tenant_id,
            execution_id: row.id,
            name: name.into(),
            value: value.into(),
            created_ms: row.created_ms,
        })
    };
    let environment = if number.is_multiple_of(4) { "staging" } else { "production" };
    mutations.labels.push(label("customer", format!("customer-{}", number % CUSTOMERS)));
    mutations.labels.push(label("environment", environment.to_owned()));
    if row.is_in_ready() {
        mutations.ready.push(Change::Insert(row.ready()));
    }
    if let Some(at) = row.lease_alarm_ms {
        mutations.due.push(Change::Insert(Due::new(DueClass::ExecutionLease, at, row.tenant_id, row.id)));
    }
    mutations.executions.push(Change::Insert(row));
}

/// Writes given rows without asking the engine.
struct Write(Option<Box<Mutations>>);

impl Decider for Write {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        match loaded {
            None => Step::Load(Arc::default()),
            Some(_) => self.0.take().map_or(Step::Done, Step::Commit),
        }
    }
}

async fn fill(store: &dyn Store, template: &Execution, count: usize) -> Result<(), String> {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} executions");
    let bar = ProgressBar::new(count as u64).with_style(style.map_err(|error| error.to_string())?);
    for first in (1..=count).step_by(BULK) {
        let mut mutations = Mutations::default();
        for number in first..(first + BULK).min(count + 1) {
            add(&mut mutations, execution(template, number), number);
        }
        mutations.labels.sort_by_key(key);
        mutations.ready.sort_by_key(key);
        mutations.due.sort_by_key(key);
        let options = TransactOptions { batch_id: Uuid::from_u128(first as u128), wait_for_locks: false };
        let write = Arc::new(Mutex::new(Write(Some(Box::new(mutations)))));
        store.transact(write, options).await.map_err(|error| error.to_string())?;
        bar.inc(BULK as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

fn key<R: Row>(change: &Change<R>) -> R::Key {
    match change {
        Change::Insert(row) | Change::Update { row, .. } | Change::Delete { row, .. } => row.key(),
    }
}
