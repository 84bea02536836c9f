//! The checker on real databases. Damage of every kind is planted by writing rows that break the rules, and the
//! checker must find it. Orphans are repaired, and a second check then finds nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

#[path = "../../../engine/tests/engine/damage.rs"]
mod damage;
#[path = "../../../engine/tests/engine/world.rs"]
#[allow(dead_code, reason = "the rules' own tests use all of it")]
mod world;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use flovyn_engine::invariants::{self, Promised, Subject, Violation};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::{Change, Limits, Loaded, Mutations, Row};
use flovyn_service::doctor::{self, Doctor};
use flovyn_store::memory::MemoryStore;
use flovyn_store::postgres::{PostgresOptions, PostgresStore};
use flovyn_store::sqlite::{Options, SqliteReader, SqliteStore};
use flovyn_store::{Decider, Inspect, ManualClock, Step, Store, TransactOptions};
use uuid::Uuid;

use damage::{BROKEN_LOGS, Damage, ORPHANS, sound};

/// Writes rows without any rule.
struct Write(Option<Box<Mutations>>);

impl Decider for Write {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        match loaded {
            None => Step::Load(Default::default()),
            Some(_) => self.0.take().map_or(Step::Done, Step::Commit),
        }
    }
}

async fn write(store: &dyn Store, mutations: Mutations) {
    let batch = Arc::new(Mutex::new(Write(Some(Box::new(mutations)))));
    store.transact(batch, TransactOptions { batch_id: Uuid::new_v4(), wait_for_locks: true }).await.unwrap();
}

fn delete<R: Row>(rows: Vec<R>) -> Vec<Change<R>> {
    let delete = |row: R| Change::Delete { expected_version: row.version(), row };
    rows.into_iter().map(delete).collect()
}

fn insert<R: Row>(mut rows: Vec<R>) -> Vec<Change<R>> {
    rows.sort_by_key(Row::key);
    rows.into_iter().map(Change::Insert).collect()
}

macro_rules! changes {
    ($snapshot:ident, $change:ident, [$($table:ident),*]) => {
        Mutations { $($table: $change($snapshot.$table),)* ..Mutations::default() }
    };
}

/// Replaces all rows of the database by these rows.
async fn plant(store: &dyn Store, rows: Snapshot) {
    let old = store.snapshot().await.unwrap();
    let gone = changes!(
        old,
        delete,
        [tenants, executions, quotas, events, states, timers, promises, tasks, attempts, keys, ready, due]
    );
    if !gone.is_empty() {
        write(store, gone).await;
    }
    let new = changes!(
        rows,
        insert,
        [tenants, executions, quotas, events, states, timers, promises, tasks, attempts, keys, ready, due]
    );
    write(store, new).await;
}

async fn examine(database: &Arc<dyn Inspect>, page_rows: usize) -> (Vec<Violation>, usize) {
    let mut doctor = Doctor::with_page_rows(Arc::clone(database), page_rows);
    let (mut findings, mut rows) = (Vec::new(), 0);
    while let Some(examined) = doctor.next().await.unwrap() {
        rows += examined.rows;
        findings.extend(examined.findings);
    }
    (findings, rows)
}

fn promises<'a>(findings: impl IntoIterator<Item = &'a Violation>) -> BTreeSet<Promised> {
    findings.into_iter().map(|found| found.promise).collect()
}

/// A store, and the reader with which the checker reads it.
struct Patient {
    store: Arc<dyn Store>,
    read: Arc<dyn Inspect>,
    _kept: Box<dyn std::any::Any>,
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(sound().now))
}

async fn memory() -> Patient {
    let store = Arc::new(MemoryStore::new(clock()));
    Patient { read: store.clone(), store, _kept: Box::new(()) }
}

/// The checker reads beside the process that holds the file.
async fn sqlite() -> Patient {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flovyn.db");
    let store = Arc::new(
        SqliteStore::open(&path, Options { clock: clock(), readers: 1, ..Default::default() }).unwrap(),
    );
    Patient { read: Arc::new(SqliteReader::open(&path).unwrap()), store, _kept: Box::new(folder) }
}

async fn postgres() -> Patient {
    let database = flovyn_testkit::fresh_database().await;
    let store = Arc::new(PostgresStore::connect(PostgresOptions::new(&database.url)).await.unwrap());
    let read = PostgresStore::connect_as_is(PostgresOptions::new(&database.url)).await.unwrap();
    Patient { read: Arc::new(read), store, _kept: Box::new(database) }
}

async fn every_damage_is_named_and_orphans_are_mended(patient: Patient) {
    let world = sound();
    plant(&*patient.store, world.snapshot()).await;
    for page_rows in [1, 3, 1_000] {
        let (findings, rows) = examine(&patient.read, page_rows).await;
        assert_eq!(findings, [], "a sound database, {page_rows} at a time");
        assert!(rows > 40, "only {rows} rows were looked at");
    }
    let mut mended = 0;
    for (what, promise, damage) in ORPHANS.iter().chain(BROKEN_LOGS) {
        mended += check_one(&patient, &world, (*what, *promise, *damage)).await;
    }
    assert!(mended >= ORPHANS.len(), "only {mended} findings were mended");
}

async fn check_one(patient: &Patient, world: &world::World, (what, promise, damage): Damage) -> usize {
    let mut damaged = world.snapshot();
    damage(&mut damaged);
    let expected = promises(&invariants::check(&damaged, world.now));
    plant(&*patient.store, damaged).await;
    let (findings, _) = examine(&patient.read, 50).await;
    assert!(promises(&findings).contains(&promise), "{what} is not found: {findings:?}");
    assert_eq!(promises(&findings), expected, "{what}: {findings:?}");

    let limits = Arc::new(Limits::default());
    let mut mended = 0;
    for finding in findings.iter().filter(|finding| doctor::can_mend(finding)) {
        mended += usize::from(!doctor::mend(&*patient.store, &limits, finding).await.unwrap().is_empty());
    }
    let (left, _) = examine(&patient.read, 50).await;
    let others = expected.into_iter().filter(|promise| *promise != Promised::P6).collect();
    assert_eq!(promises(&left), others, "{what} after repair: {left:?}");
    mended
}

#[tokio::test]
async fn on_the_oracle() {
    every_damage_is_named_and_orphans_are_mended(memory().await).await;
}

#[tokio::test]
async fn on_sqlite() {
    every_damage_is_named_and_orphans_are_mended(sqlite().await).await;
}

#[tokio::test]
async fn on_postgres() {
    every_damage_is_named_and_orphans_are_mended(postgres().await).await;
}

/// Returns a fault on the first read of a part, and none on the second.
struct Passing {
    inner: Arc<dyn Inspect>,
    looks: Mutex<BTreeSet<String>>,
}

#[async_trait::async_trait]
impl Inspect for Passing {
    async fn inspect_page(
        &self,
        part: &invariants::Part,
        limit: usize,
    ) -> flovyn_store::StoreResult<invariants::InspectPage> {
        let mut page = self.inner.inspect_page(part, limit).await?;
        if self.looks.lock().unwrap().insert(format!("{part:?}")) {
            page.context.ready.clear();
        }
        Ok(page)
    }
}

#[tokio::test]
async fn what_has_gone_at_the_second_look_is_not_reported() {
    let patient = memory().await;
    plant(&*patient.store, sound().snapshot()).await;
    let first = patient.read.inspect_page(&invariants::Part::FIRST, 1_000).await.unwrap();
    let mut without = first.clone();
    without.context.ready.clear();
    assert_ne!(invariants::check_page(&without), [], "the fault is one");
    let passing: Arc<dyn Inspect> =
        Arc::new(Passing { inner: patient.read.clone(), looks: Mutex::default() });
    assert_eq!(examine(&passing, 1_000).await.0, []);
}

#[tokio::test]
async fn a_mended_execution_says_what_was_done() {
    let patient = memory().await;
    let mut rows = sound().snapshot();
    let lost = rows.executions.iter_mut().find(|row| &*row.kind == "waiting").unwrap();
    lost.base_sequence -= 1;
    let id = lost.id;
    plant(&*patient.store, rows).await;
    let (findings, _) = examine(&patient.read, 10).await;
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding.subject, Subject::Execution(id));
    let limits = Arc::new(Limits::default());
    let done = doctor::mend(&*patient.store, &limits, finding).await.unwrap();
    assert_eq!(done.iter().map(ToString::to_string).collect::<Vec<_>>(), ["queued again"]);
    assert_eq!(
        doctor::mend(&*patient.store, &limits, finding).await.unwrap(),
        [],
        "the second repair has nothing to do"
    );
}
