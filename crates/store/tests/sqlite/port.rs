//! Opening, locking, conflicts, and that a batch is written completely or not at all.
//!
//! Tests that do not concern the file also run on the oracle.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::support::{OPTIONS, Random, commit, load, script};
use flovyn_engine::ids::Text;
use flovyn_engine::state::*;
use flovyn_engine::{Change, Loaded, Mutations, Now, Scan, Wants};
use flovyn_store::memory::MemoryStore;
use flovyn_store::record::Record;
use flovyn_store::sqlite::{Options, SqliteStore};
use flovyn_store::value::Value;
use flovyn_store::{Decider, ExecutionFilter, ManualClock, Page, Step, Store, StoreError, SystemClock};
use tempfile::TempDir;
use uuid::Uuid;

const TENANT: Uuid = Uuid::from_u128(7);

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, Options { readers: 2, ..Default::default() })
}

/// Each store, empty, with the directory of its files.
fn stores() -> Vec<(Box<dyn Store>, TempDir)> {
    let directory = tempfile::tempdir().unwrap();
    let sqlite = open(&directory.path().join("flovyn.db")).unwrap();
    let memory = MemoryStore::new(Arc::new(SystemClock));
    vec![(Box::new(sqlite), directory), (Box::new(memory), tempfile::tempdir().unwrap())]
}

fn tenant(number: u128, slug: &str) -> Tenant {
    Tenant {
        id: id(number),
        version: 1,
        slug: slug.into(),
        name: slug.into(),
        created_ms: 5,
        retention_ms: None,
    }
}

fn ready(kind: &str, sort_ms: i64, number: u128) -> Ready {
    let lane = Lane {
        tenant_id: TENANT,
        class: WorkClass::Task,
        queue: "default".into(),
        kind: kind.into(),
        version: Text::default(),
    };
    Ready { lane, sort_ms, id: id(number) }
}

/// A row with the given columns. The other columns have random values.
fn row_with<R: Record>(given: &[(&str, Value<'static>)]) -> R {
    Random(1).row_like(|index| {
        let name = R::COLUMNS[index].name;
        given.iter().find(|(column, _)| *column == name).map(|(_, value)| *value)
    })
}

fn execution(number: u128, created_ms: i64, status: ExecutionStatus) -> Execution {
    row_with(&[
        ("tenant_id", Value::Uuid(TENANT)),
        ("id", Value::Uuid(id(number))),
        ("created_ms", Value::Int(created_ms)),
        ("status", Value::Small(status.number())),
        ("version", Value::Int(1)),
        ("purging", Value::Small(0)),
    ])
}

fn tenants(changes: Vec<Change<Tenant>>) -> Mutations {
    Mutations { tenants: changes, ..Default::default() }
}

fn inserts<R: Clone>(rows: &[R]) -> Vec<Change<R>> {
    rows.iter().cloned().map(Change::Insert).collect()
}

#[tokio::test]
async fn what_was_written_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flovyn.db");
    let store = open(&path).unwrap();
    commit(&store, tenants(inserts(&[tenant(1, "one")]))).await.unwrap();
    drop(store);
    let files: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files.len(), 2, "the log is removed at the end: {files:?}");
    let store = open(&path).unwrap();
    assert_eq!(store.tenant_by_slug("one").await.unwrap(), Some(tenant(1, "one")));
}

/// A copy of the files at some time is what a killed process leaves behind.
#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("flovyn.db")).unwrap();
    commit(&store, tenants(inserts(&[tenant(1, "one")]))).await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in ["flovyn.db", "flovyn.db-wal"] {
        std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    let revived = open(&copy.path().join("flovyn.db")).unwrap();
    assert_eq!(revived.snapshot().await.unwrap(), store.snapshot().await.unwrap());
}

#[tokio::test]
async fn one_process_at_a_time_may_open_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flovyn.db");
    let store = open(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("flovyn.db.lock")), "{error}");
    drop(store);
    open(&path).unwrap();
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flovyn.db");
    drop(open(&path).unwrap());
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("INSERT INTO schema_version (version) VALUES (99)", []).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(&error, StoreError::Fatal(why) if why.contains("has schema 99")), "{error}");
    raw.execute("DELETE FROM schema_version WHERE version = 99", []).unwrap();
    open(&path).unwrap();
}

#[tokio::test]
async fn every_kind_of_conflict_is_one_and_writes_nothing() {
    for (store, _directory) in stores() {
        let stored = tenants(inserts(&[tenant(1, "one"), tenant(2, "two")]));
        commit(&*store, stored).await.unwrap();
        let lane = Mutations { ready: inserts(&[ready("a", 1, 1)]), ..Default::default() };
        commit(&*store, lane).await.unwrap();
        let before = store.snapshot().await.unwrap();

        let update = |row: Tenant, expected| Change::Update { row, expected_version: Some(expected) };
        let delete = |row: Tenant, expected| Change::Delete { row, expected_version: Some(expected) };
        let gone = Change::Delete { row: ready("a", 2, 1), expected_version: None };
        let cases = [
            ("key taken", tenants(inserts(&[tenant(1, "other")]))),
            ("slug taken", tenants(inserts(&[tenant(3, "one")]))),
            ("update of a missing row", tenants(vec![update(tenant(3, "three"), 1)])),
            ("update of a changed row", tenants(vec![update(tenant(1, "one"), 2)])),
            ("delete of a missing row", tenants(vec![delete(tenant(3, "three"), 1)])),
            ("delete of a changed row", tenants(vec![delete(tenant(1, "one"), 2)])),
            (
                "insert of work that is already ready",
                Mutations { ready: inserts(&[ready("a", 1, 1)]), ..Default::default() },
            ),
            ("delete of work that is not ready", Mutations { ready: vec![gone], ..Default::default() }),
        ];
        for (name, mut mutations) in cases {
            // Valid changes, written before and after the conflict.
            mutations.tenants.insert(0, Change::Insert(tenant(9, "nine")));
            mutations.ready.push(Change::Insert(ready("z", 1, 9)));
            let error = commit(&*store, mutations).await.unwrap_err();
            assert!(matches!(error, StoreError::Conflict(_)), "{name}: {error}");
            assert_eq!(store.snapshot().await.unwrap(), before, "{name}");
        }
    }
}

/// More rows than one statement takes, plus some more.
#[tokio::test]
async fn many_rows_of_a_table_are_inserted_all_or_none() {
    const MANY: u128 = 150;
    for (store, _directory) in stores() {
        let status = |number: u128| match number % 2 {
            0 => ExecutionStatus::Failed,
            _ => ExecutionStatus::Running,
        };
        let rows: Vec<Execution> =
            (1..=MANY).map(|number| execution(number, number as i64, status(number))).collect();
        let lane: Vec<Ready> = (1..=MANY).map(|number| ready("a", number as i64, number)).collect();
        let all = Mutations { executions: inserts(&rows), ready: inserts(&lane), ..Default::default() };
        commit(&*store, all).await.unwrap();
        let before = store.snapshot().await.unwrap();
        assert_eq!((before.executions.as_slice(), before.ready.as_slice()), (&rows[..], &lane[..]));
        let filter = ExecutionFilter { status: Some(ExecutionStatus::Failed), ..Default::default() };
        let page = Page { after: None, offset: 0, limit: 100 };
        assert_eq!(store.execution_list(TENANT, &filter, page).await.unwrap().len(), MANY as usize / 2);

        let new = |number| execution(MANY + number, 1, ExecutionStatus::Running);
        for taken in [1, 40, 100] {
            let mut rows: Vec<Execution> = (1..=100).map(new).collect();
            rows[taken - 1].id = id(taken as u128);
            let error = commit(&*store, Mutations { executions: inserts(&rows), ..Default::default() }).await;
            assert!(matches!(error, Err(StoreError::Conflict(_))), "{error:?}");
            assert_eq!(store.snapshot().await.unwrap(), before, "row {taken} already exists");
        }
        let names: Vec<Tenant> = (1..=33).map(|number| tenant(number, &format!("name-{number}"))).collect();
        for count in [15, 16, 17, 33] {
            let mut same_name = names[..count].to_vec();
            same_name[count - 1].slug = same_name[0].slug.clone();
            let error = commit(&*store, tenants(inserts(&same_name))).await;
            assert!(matches!(error, Err(StoreError::Conflict(_))), "{count}: {error:?}");
            assert_eq!(store.snapshot().await.unwrap(), before, "{count} tenants, two with the same name");
        }
        commit(&*store, tenants(inserts(&names))).await.unwrap();
        assert_eq!(store.snapshot().await.unwrap().tenants, names);
    }
}

#[tokio::test]
async fn a_unique_value_may_move_within_a_batch() {
    for (store, _directory) in stores() {
        commit(&*store, tenants(inserts(&[tenant(2, "name")]))).await.unwrap();
        let moved = vec![
            Change::Insert(tenant(1, "name")),
            Change::Delete { row: tenant(2, "name"), expected_version: Some(1) },
        ];
        commit(&*store, tenants(moved)).await.unwrap();
        assert_eq!(store.tenant_by_slug("name").await.unwrap(), Some(tenant(1, "name")));
    }
}

#[tokio::test]
async fn a_row_that_never_changes_is_not_updated() {
    for (store, _directory) in stores() {
        let row = ready("a", 1, 1);
        let ready = inserts(std::slice::from_ref(&row));
        commit(&*store, Mutations { ready, ..Default::default() }).await.unwrap();
        let update = vec![Change::Update { row, expected_version: None }];
        let error = commit(&*store, Mutations { ready: update, ..Default::default() }).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error}");
    }
}

struct Panics;

impl Decider for Panics {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        assert!(loaded.is_none(), "a fault in a rule");
        Step::Load(Arc::default())
    }
}

#[tokio::test]
async fn a_batch_that_panics_hurts_nobody_else() {
    for (store, _directory) in stores() {
        let error = store.transact(Arc::new(Mutex::new(Panics)), OPTIONS).await.unwrap_err();
        assert!(matches!(&error, StoreError::Refused(why) if why.contains("a fault in a rule")), "{error}");
        commit(&*store, tenants(inserts(&[tenant(1, "one")]))).await.unwrap();
    }
}

#[tokio::test]
async fn a_batch_whose_caller_is_gone_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("flovyn.db")).unwrap();
    let batch = script(Wants::default(), Some(tenants(inserts(&[tenant(1, "one")]))));
    {
        let mut transact = store.transact(batch, OPTIONS);
        // Polled once, which passes the batch to the store, and then dropped.
        assert!(futures::poll!(&mut transact).is_pending());
    }
    commit(&store, tenants(inserts(&[tenant(2, "two")]))).await.unwrap();
    assert_eq!(store.tenant_list(None, 9).await.unwrap(), [tenant(1, "one"), tenant(2, "two")]);
}

#[tokio::test]
async fn a_load_tells_the_time_of_the_clock() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Now { ms: 1_000, lease_ms: 2_000 }));
    let options = Options { clock: clock.clone(), readers: 1, ..Default::default() };
    let store = SqliteStore::open(directory.path().join("flovyn.db"), options).unwrap();
    assert_eq!(load(&store, Wants::default()).await.unwrap().now, Now { ms: 1_000, lease_ms: 2_000 });
    clock.set_ms(86_400_000);
    assert_eq!(store.now().await.unwrap(), Now { ms: 86_400_000, lease_ms: 2_000 });
}

#[tokio::test]
async fn a_lane_is_read_in_order_and_up_to_its_limit() {
    for (store, _directory) in stores() {
        let rows =
            [ready("a", 30, 1), ready("a", -5, 2), ready("a", 30, 0), ready("a", 10, 4), ready("b", 0, 5)];
        commit(&*store, Mutations { ready: inserts(&rows), ..Default::default() }).await.unwrap();
        for (limit, expected) in [(9, vec![(-5, 2), (10, 4), (30, 0), (30, 1)]), (2, vec![(-5, 2), (10, 4)])]
        {
            let mut wants = Wants::default();
            wants.lanes.insert(ready("a", 0, 0).lane, limit);
            let loaded = load(&*store, wants).await.unwrap();
            let found: Vec<(i64, u128)> =
                loaded.ready.iter().map(|row| (row.sort_ms, row.id.as_u128())).collect();
            assert_eq!(found, expected);
        }
    }
}

#[tokio::test]
async fn what_is_being_purged_is_hidden_from_people_but_not_from_batches() {
    for (store, _directory) in stores() {
        let mut row = execution(1, 5, ExecutionStatus::Completed);
        row.purging = true;
        commit(&*store, Mutations { executions: inserts(&[row.clone()]), ..Default::default() })
            .await
            .unwrap();
        assert_eq!(store.execution_get(TENANT, id(1)).await.unwrap(), None);
        let page = Page { after: None, offset: 0, limit: 10 };
        assert_eq!(store.execution_list(TENANT, &ExecutionFilter::default(), page).await.unwrap(), []);
        let mut wants = Wants::default();
        wants.executions.lock.insert((TENANT, id(1)));
        assert_eq!(load(&*store, wants).await.unwrap().executions, [row]);
    }
}

#[tokio::test]
async fn listings_by_status_follow_the_status() {
    for (store, _directory) in stores() {
        let rows: Vec<Execution> =
            (1..=4).map(|number| execution(number, 10, ExecutionStatus::Running)).collect();
        commit(&*store, Mutations { executions: inserts(&rows), ..Default::default() }).await.unwrap();
        let finish = |row: &Execution, status| {
            let row = Execution { status, version: 2, ..row.clone() };
            Change::Update { row, expected_version: Some(1) }
        };
        let executions =
            vec![finish(&rows[0], ExecutionStatus::Failed), finish(&rows[1], ExecutionStatus::Waiting)];
        commit(&*store, Mutations { executions, ..Default::default() }).await.unwrap();
        let page = Page { after: None, offset: 0, limit: 10 };
        for (status, expected) in [
            (ExecutionStatus::Failed, vec![1]),
            (ExecutionStatus::Waiting, vec![2]),
            (ExecutionStatus::Running, vec![4, 3]),
            (ExecutionStatus::Completed, vec![]),
        ] {
            let filter = ExecutionFilter { status: Some(status), ..Default::default() };
            let found = store.execution_list(TENANT, &filter, page).await.unwrap();
            let found: Vec<u128> = found.iter().map(|row| row.id.as_u128()).collect();
            assert_eq!(found, expected, "{status}");
        }
    }
}

#[tokio::test]
async fn belongings_are_limited_per_table_and_logs_only_of_the_tasks_found() {
    for (store, _directory) in stores() {
        let task = |number: u128| -> Task {
            row_with(&[
                ("tenant_id", Value::Uuid(TENANT)),
                ("id", Value::Uuid(id(number))),
                ("execution_id", Value::Uuid(id(100))),
            ])
        };
        let line = |number: u128, line: i64| -> TaskLog {
            row_with(&[
                ("tenant_id", Value::Uuid(TENANT)),
                ("task_id", Value::Uuid(id(number))),
                ("line", Value::Int(line)),
            ])
        };
        let mutations = Mutations {
            tasks: inserts(&[task(1), task(2), task(3)]),
            task_logs: inserts(&[line(1, 1), line(2, 1), line(2, 2), line(3, 1)]),
            ..Default::default()
        };
        commit(&*store, mutations).await.unwrap();
        for (limit, lines) in [(2, 2), (3, 3), (9, 4)] {
            let scan = Scan::Belongings { tenant_id: TENANT, execution_id: id(100), limit };
            let wants = Wants { scans: [scan].into(), ..Default::default() };
            let loaded = load(&*store, wants).await.unwrap();
            assert_eq!((loaded.tasks.len(), loaded.task_logs.len()), (limit.min(3), lines));
        }
    }
}
