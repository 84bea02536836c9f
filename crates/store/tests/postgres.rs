//! Tests of PostgreSQL only, for behaviour that the other stores do not have: migrations by many processes, locks,
//! round trips, lost commits, hints.

#![allow(clippy::unwrap_used, reason = "all of this is tests, also what no `#[test]` stands before")]

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use flovyn_engine::ids::Text;
use flovyn_engine::state::*;
use flovyn_engine::{Change, Loaded, Mutations, Row, Wants, for_each_table};
use flovyn_store::postgres::{PostgresOptions, PostgresStore};
use flovyn_store::record::Record;
use flovyn_store::value::{ColumnType, ReadError, Value};
use flovyn_store::{Decider, ExecutionFilter, Page, Step, Store, StoreError, StoreResult, TransactOptions};
use flovyn_testkit::{CommitFault, Proxy, TestDatabase, fresh_database};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

const TENANT: Uuid = Uuid::from_u128(1);

/// Loads the given wants step by step, then writes the given mutations.
#[derive(Default)]
struct Script {
    loads: VecDeque<Wants>,
    mutations: Option<Mutations>,
    loaded: Vec<Loaded>,
    /// Called before the last step.
    before_commit: Option<Box<dyn FnOnce() + Send>>,
}

impl Decider for Script {
    fn step(&mut self, loaded: Option<Loaded>) -> Step {
        self.loaded.extend(loaded);
        if let Some(wants) = self.loads.pop_front() {
            return Step::Load(Arc::new(wants));
        }
        if let Some(call) = self.before_commit.take() {
            call();
        }
        self.mutations.take().map_or(Step::Done, |mutations| Step::Commit(Box::new(mutations)))
    }
}

/// No two batches of a process share an id.
fn options() -> TransactOptions {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let batch_id = Uuid::from_u128(NEXT.fetch_add(1, Ordering::Relaxed).into());
    TransactOptions { batch_id, wait_for_locks: false }
}

async fn run(store: &PostgresStore, script: Script, options: TransactOptions) -> StoreResult<Vec<Loaded>> {
    let script = Arc::new(Mutex::new(script));
    store.transact(script.clone(), options).await?;
    let loaded = std::mem::take(&mut script.lock().unwrap().loaded);
    Ok(loaded)
}

async fn load(store: &PostgresStore, wants: Wants) -> StoreResult<Loaded> {
    let script = Script { loads: [wants].into(), ..Script::default() };
    Ok(run(store, script, options()).await?.remove(0))
}

async fn commit(store: &PostgresStore, mutations: Mutations) -> StoreResult<()> {
    commit_as(store, mutations, options()).await
}

async fn commit_as(store: &PostgresStore, mutations: Mutations, options: TransactOptions) -> StoreResult<()> {
    let mutations = Some(mutations);
    let script = Script { loads: [Wants::default()].into(), mutations, ..Script::default() };
    run(store, script, options).await.map(|_| ())
}

async fn connect(url: &str) -> PostgresStore {
    PostgresStore::connect(PostgresOptions::new(url)).await.unwrap()
}

async fn store() -> (TestDatabase, PostgresStore) {
    let database = fresh_database().await;
    let store = connect(&database.url).await;
    (database, store)
}

/// A session that is not one of the store's.
async fn session(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Repeats the question until the answer is true. The database cannot notify us, so the test keeps asking.
async fn until(client: &Client, question: &str) {
    while !client.query_one(question, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
}

/// Asserts that no connection of the pools is in a transaction.
async fn assert_idle(database: &TestDatabase) {
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'flovyn' \
                AND state <> 'idle' AND datname = current_database()";
    let open: i64 = session(&database.url).await.query_one(open, &[]).await.unwrap().get(0);
    assert_eq!(open, 0, "connections left in a transaction");
}

/// A row with the given columns. All other columns have some value.
fn row<R: Record>(given: &[(&str, Value<'_>)]) -> R {
    try_row(given).unwrap()
}

fn try_row<R: Record>(given: &[(&str, Value<'_>)]) -> Result<R, ReadError> {
    R::read(|index| {
        let column = R::COLUMNS[index];
        let own = given.iter().find(|(name, _)| *name == column.name);
        own.map(|(_, value)| *value).unwrap_or(match column.kind {
            // 1 is a valid value of every enumeration.
            ColumnType::Small => Value::Small(1),
            ColumnType::Int => Value::Int(1),
            ColumnType::Real => Value::Real(1.0),
            ColumnType::Text => Value::Text("a"),
            ColumnType::Bytes => Value::Bytes(b"{}"),
            ColumnType::Uuid => Value::Uuid(TENANT),
        })
    })
}

fn execution(number: u128) -> Execution {
    row(&[("id", Value::Uuid(Uuid::from_u128(number))), ("purging", Value::Small(0))])
}

fn key(number: u128) -> (Uuid, Uuid) {
    (TENANT, Uuid::from_u128(number))
}

fn insert_executions(numbers: impl IntoIterator<Item = u128>) -> Mutations {
    let executions = numbers.into_iter().map(|number| Change::Insert(execution(number))).collect();
    Mutations { executions, ..Mutations::default() }
}

fn update(execution: &Execution) -> Change<Execution> {
    let mut row = execution.clone();
    row.version += 1;
    row.last_sequence += 1;
    Change::Update { row, expected_version: Some(execution.version) }
}

fn lock_executions(numbers: impl IntoIterator<Item = u128>) -> Wants {
    let mut wants = Wants::default();
    wants.executions.lock.extend(numbers.into_iter().map(key));
    wants
}

async fn versions(store: &PostgresStore) -> Vec<i64> {
    store.snapshot().await.unwrap().executions.iter().map(|row| row.version).collect()
}

mod migrations {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn processes_that_start_together_migrate_once() {
        let database = fresh_database().await;
        let starting = (0..8).map(|_| PostgresStore::connect(PostgresOptions::new(database.url.clone())));
        let stores = futures::future::try_join_all(starting).await.unwrap();
        for (number, store) in (1..).zip(&stores) {
            commit(store, insert_executions([number])).await.unwrap();
        }
        let session = session(&database.url).await;
        // Each migration is recorded once, and none is missing.
        until(&session, "SELECT count(*) > 1 AND count(*) = max(version) FROM schema_version").await;
        assert_eq!(versions(&stores[0]).await.len(), 8);
    }

    #[tokio::test]
    async fn a_process_killed_half_way_leaves_nothing() {
        let database = fresh_database().await;
        let killed = session(&database.url).await;
        let half = "BEGIN; CREATE TABLE schema_version (version integer PRIMARY KEY, applied_ms bigint NOT NULL); \
                    CREATE TABLE tenant (id uuid)";
        killed.batch_execute(half).await.unwrap();
        drop(killed);
        connect(&database.url).await.snapshot().await.unwrap();
    }

    #[tokio::test]
    async fn a_newer_schema_is_refused() {
        let (database, _store) = store().await;
        let newer = "INSERT INTO schema_version VALUES (1000, 0)";
        session(&database.url).await.batch_execute(newer).await.unwrap();
        let refused = PostgresStore::connect(PostgresOptions::new(database.url.clone())).await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::Fatal(text) if text.contains("schema version 1000")),
            "{refused}"
        );
    }

    macro_rules! define {
        ($($field:ident: $row:ident,)*) => {
            async fn check_all(client: &Client) {
                $(check::<$row>(client).await;)*
            }
        };
    }
    for_each_table!(define);

    async fn check<R: Record>(client: &Client) {
        let columns = "SELECT a.attname::text, format_type(a.atttypid, NULL), c.collname::text, a.attnotnull \
                       FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation \
                       WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND a.attgenerated = ''";
        let stored = client.query(columns, &[&R::TABLE]).await.unwrap();
        let stored: BTreeSet<(String, String, Option<String>, bool)> =
            stored.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
        let meant = R::COLUMNS.iter().map(|column| {
            let (kind, collation) = match column.kind {
                ColumnType::Small => ("smallint", None),
                ColumnType::Int => ("bigint", None),
                ColumnType::Real => ("double precision", None),
                ColumnType::Text => ("text", Some("C".to_owned())),
                ColumnType::Bytes => ("bytea", None),
                ColumnType::Uuid => ("uuid", None),
            };
            let not_null = try_row::<R>(&[(column.name, Value::Null)]).is_err();
            (column.name.to_owned(), kind.to_owned(), collation, not_null)
        });
        assert_eq!(stored, meant.collect(), "{}", R::TABLE);
        let key = "SELECT array_agg(a.attname::text ORDER BY k.place) FROM pg_index i, \
                   unnest(i.indkey) WITH ORDINALITY AS k(attnum, place), pg_attribute a \
                   WHERE i.indrelid = $1::text::regclass AND i.indisprimary \
                   AND a.attrelid = i.indrelid AND a.attnum = k.attnum";
        let stored: Vec<String> = client.query_one(key, &[&R::TABLE]).await.unwrap().get(0);
        let meant: Vec<&str> = R::COLUMNS[..R::KEY_COLUMNS].iter().map(|column| column.name).collect();
        assert_eq!(stored, meant, "{}", R::TABLE);
    }

    #[tokio::test]
    async fn tables_are_as_the_records_say() {
        let (database, _store) = store().await;
        check_all(&session(&database.url).await).await;
    }
}

mod writing {
    use super::*;

    /// A newer process that starts beside this one would add a column.
    #[tokio::test]
    async fn a_column_added_meanwhile_costs_one_conflict() {
        let (database, store) = store().await;
        commit(&store, insert_executions([1, 2])).await.unwrap();
        let other = session(&database.url).await;
        let add = "ALTER TABLE workflow_execution ADD COLUMN later bigint NOT NULL DEFAULT 7";
        other.batch_execute(add).await.unwrap();
        let result = commit(&store, insert_executions([3])).await;
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
        assert_eq!(versions(&store).await, [1, 1]);
        commit(&store, insert_executions([3])).await.unwrap();
        let changes =
            vec![update(&execution(1)), Change::Delete { row: execution(2), expected_version: Some(1) }];
        commit(&store, Mutations { executions: changes, ..Mutations::default() }).await.unwrap();
        assert_eq!(versions(&store).await, [2, 1]);
        let later = "SELECT array_agg(later) FROM workflow_execution";
        let later: Vec<i64> = other.query_one(later, &[]).await.unwrap().get(0);
        assert_eq!(later, [7, 7], "the newer process's column has its default");
    }

    /// The content of the database before each conflict.
    fn before() -> Mutations {
        let mut mutations = insert_executions([1]);
        mutations.tenants.push(Change::Insert(row(&[("slug", Value::Text("taken"))])));
        mutations.labels.push(Change::Insert(row(&[])));
        mutations
    }

    /// Batches that must fail, each for a different reason.
    fn conflicts() -> Vec<(&'static str, Mutations)> {
        let executions = |change| Mutations { executions: vec![change], ..Mutations::default() };
        let stale = |number| Execution { version: 7, ..execution(number) };
        let delete = |row: Execution| Change::Delete { expected_version: Some(row.version), row };
        let tenant = [("id", Value::Uuid(Uuid::from_u128(2))), ("slug", Value::Text("taken"))];
        vec![
            ("an existing id", insert_executions([1])),
            ("an outdated version", executions(update(&stale(1)))),
            ("an update of a deleted row", executions(update(&execution(2)))),
            ("a delete of another version", executions(delete(stale(1)))),
            ("a delete of a deleted row", executions(delete(execution(2)))),
            (
                "a delete of a deleted row without version",
                Mutations {
                    ready: vec![Change::Delete { row: row(&[]), expected_version: None }],
                    ..Mutations::default()
                },
            ),
            (
                "an existing label",
                Mutations { labels: vec![Change::Insert(row(&[]))], ..Mutations::default() },
            ),
            (
                "an existing slug",
                Mutations { tenants: vec![Change::Insert(row(&tenant))], ..Mutations::default() },
            ),
        ]
    }

    #[tokio::test]
    async fn a_conflict_leaves_nothing_and_the_connection_is_good() {
        let (database, store) = store().await;
        commit(&store, before()).await.unwrap();
        let stored = store.snapshot().await.unwrap();
        for (what, mut mutations) in conflicts() {
            mutations.due.push(Change::Insert(row(&[])));
            mutations.events.push(Change::Insert(row(&[])));
            let result = commit(&store, mutations).await;
            assert!(matches!(result, Err(StoreError::Conflict(_))), "{what}: {result:?}");
            assert_eq!(store.snapshot().await.unwrap(), stored, "{what}");
            assert_idle(&database).await;
        }
        commit(&store, insert_executions([2])).await.unwrap();
    }

    #[tokio::test]
    async fn what_the_database_cannot_store_is_refused() {
        let (_database, store) = store().await;
        let mut mutations = insert_executions([1]);
        mutations.events.push(Change::Insert(row(&[("text", Value::Text("a\0b"))])));
        let result = commit(&store, mutations).await;
        assert!(matches!(result, Err(StoreError::Refused(_))), "{result:?}");
        assert!(versions(&store).await.is_empty());
    }

    #[tokio::test]
    async fn a_batch_whose_id_is_taken_writes_nothing() {
        let (database, store) = store().await;
        let options = options();
        let tombstone = format!("INSERT INTO batch VALUES ('{}', 0, 0)", options.batch_id);
        session(&database.url).await.batch_execute(&tombstone).await.unwrap();
        let result = commit_as(&store, insert_executions([1]), options).await;
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
        assert!(versions(&store).await.is_empty());
        assert_eq!(store.batch_cleanup(1, 10).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_batch_costs_the_same_round_trips_whatever_its_size() {
        let (_database, store) = store().await;
        let batch = |first: u128, count: u128| {
            let numbers = first..first + count;
            let mut mutations = insert_executions(numbers.clone());
            for number in numbers.clone() {
                let of = ("execution_id", Value::Uuid(Uuid::from_u128(number)));
                mutations.events.push(Change::Insert(row(&[of])));
                mutations.ready.push(Change::Insert(row(&[("id", Value::Uuid(Uuid::from_u128(number)))])));
            }
            let loads = [lock_executions(numbers)].into();
            Script { loads, mutations: Some(mutations), ..Script::default() }
        };
        // The first batch also prepares its statements.
        run(&store, batch(0, 1), options()).await.unwrap();
        let mut costs = Vec::new();
        for (first, count) in [(1_000, 1), (2_000, 500)] {
            let (trips, statements) = (store.traffic().round_trips(), store.traffic().statements());
            run(&store, batch(first, count), options()).await.unwrap();
            costs.push((store.traffic().round_trips() - trips, store.traffic().statements() - statements));
        }
        assert_eq!(costs[0], costs[1]);
        assert_eq!(costs[0].0, 2, "one round trip to load, one to write and commit");
    }
}

mod locks {
    use super::*;

    /// Locks execution 1 and changes it, without committing.
    async fn hold(url: &str) -> Client {
        let holder = session(url).await;
        let change = "BEGIN; UPDATE workflow_execution SET version = 2 \
                      WHERE id = '00000000-0000-0000-0000-000000000001'";
        holder.batch_execute(change).await.unwrap();
        holder
    }

    #[tokio::test]
    async fn busy_rows_are_reported_and_all_others_loaded() {
        let (database, store) = store().await;
        commit(&store, insert_executions([1, 2])).await.unwrap();
        let holder = hold(&database.url).await;
        // Execution 3 does not exist.
        let loaded = load(&store, lock_executions([1, 2, 3])).await.unwrap();
        assert_eq!(loaded.busy.executions, [key(1)]);
        assert_eq!(loaded.executions.iter().map(Row::key).collect::<Vec<_>>(), [key(2)]);

        let mut wants = Wants::default();
        wants.executions.peek.insert(key(1));
        let loaded = load(&store, wants).await.unwrap();
        assert_eq!(loaded.executions[0].version, 1, "the last committed state can be read");
        assert!(loaded.busy.executions.is_empty());

        // If a row is wanted with and without a lock, it is busy: a row that is not locked must not look as if it
        // were.
        let mut wants = lock_executions([1]);
        wants.executions.peek.insert(key(1));
        let loaded = load(&store, wants).await.unwrap();
        assert!(loaded.executions.is_empty());
        assert_eq!(loaded.busy.executions, [key(1)]);

        holder.batch_execute("ROLLBACK").await.unwrap();
        let loaded = load(&store, lock_executions([1])).await.unwrap();
        assert!(loaded.busy.executions.is_empty());
    }

    #[tokio::test]
    async fn whoever_asks_for_it_waits_for_busy_rows() {
        let (database, store) = store().await;
        commit(&store, insert_executions([1])).await.unwrap();
        let holder = hold(&database.url).await;
        let waiting = tokio::spawn(async move {
            let script = Script { loads: [lock_executions([1])].into(), ..Script::default() };
            let options = TransactOptions { wait_for_locks: true, ..options() };
            run(&store, script, options).await
        });
        let waits = "SELECT count(*) > 0 FROM pg_stat_activity \
                     WHERE application_name = 'flovyn' AND wait_event_type = 'Lock' AND datname = current_database()";
        until(&session(&database.url).await, waits).await;
        holder.batch_execute("COMMIT").await.unwrap();
        let loaded = waiting.await.unwrap().unwrap();
        assert_eq!(loaded[0].executions[0].version, 2, "it sees the change it waited for");
    }

    /// Two processes change the same rows in any order. No batch waits, and none fails.
    #[tokio::test(flavor = "multi_thread")]
    async fn crossing_batches_never_hurt_each_other() {
        const ROWS: u128 = 12;
        let (database, store) = store().await;
        commit(&store, insert_executions(1..=ROWS)).await.unwrap();
        let processes = [store, connect(&database.url).await];
        let work = processes.iter().enumerate().map(|(process, store)| async move {
            let mut changed = 0;
            for step in 0..150u128 {
                let mine = (1..=ROWS).filter(|row| !(row * 7 + step + process as u128).is_multiple_of(3));
                changed += cross(store, mine.collect()).await;
            }
            changed
        });
        let changed: Vec<i64> = futures::future::join_all(work).await;
        let counted: i64 = versions(&processes[0]).await.iter().map(|version| version - 1).sum();
        assert_eq!(counted, changed.iter().sum::<i64>(), "every change is present once");
        assert!(changed.iter().all(|changed| *changed > 100), "{changed:?}");
    }

    /// Changes those of the rows that can be locked. Returns how many it changed.
    async fn cross(store: &PostgresStore, rows: Vec<u128>) -> i64 {
        struct Crossing(Vec<u128>, usize);
        impl Decider for Crossing {
            fn step(&mut self, loaded: Option<Loaded>) -> Step {
                let Some(loaded) = loaded else {
                    return Step::Load(Arc::new(lock_executions(self.0.iter().copied())));
                };
                self.1 = loaded.executions.len();
                let mut changes: Vec<Change<Execution>> = loaded.executions.iter().map(update).collect();
                changes.reverse();
                Step::Commit(Box::new(Mutations { executions: changes, ..Mutations::default() }))
            }
        }
        let crossing = Arc::new(Mutex::new(Crossing(rows, 0)));
        store.transact(crossing.clone(), options()).await.unwrap();
        let changed = crossing.lock().unwrap().1;
        i64::try_from(changed).unwrap()
    }
}

mod lanes {
    use super::*;

    fn ready(sort_ms: i64) -> Ready {
        row(&[
            ("sort_ms", Value::Int(sort_ms)),
            ("id", Value::Uuid(Uuid::from_u128(sort_ms.unsigned_abs().into()))),
        ])
    }

    fn changes(inserts: &[i64], deletes: &[i64]) -> Mutations {
        let delete = |sort_ms: &i64| Change::Delete { row: ready(*sort_ms), expected_version: None };
        let insert = |sort_ms: &i64| Change::Insert(ready(*sort_ms));
        let ready = deletes.iter().map(delete).chain(inserts.iter().map(insert)).collect();
        Mutations { ready, ..Mutations::default() }
    }

    async fn search(store: &PostgresStore, limit: usize) -> Vec<i64> {
        let mut wants = Wants::default();
        wants.lanes.insert(ready(1).lane, limit);
        let loaded = load(store, wants).await.unwrap();
        loaded.ready.iter().map(|row| row.sort_ms).collect()
    }

    #[tokio::test]
    async fn work_is_found_in_order_and_never_hidden_by_what_was_found_before() {
        let (database, store) = store().await;
        let other = connect(&database.url).await;
        commit(&store, changes(&[10, 20, 30], &[])).await.unwrap();
        assert_eq!(search(&store, 2).await, [10, 20]);
        // Work of this process that comes before everything seen so far.
        commit(&store, changes(&[5], &[10])).await.unwrap();
        assert_eq!(search(&store, 2).await, [5, 20]);
        // Another process takes everything and leaves a row that comes even earlier.
        commit(&other, changes(&[1], &[5, 20, 30])).await.unwrap();
        assert_eq!(search(&store, 2).await, [1]);
        assert_eq!(store.lanes_with_work(&[ready(1).lane]).await.unwrap(), [ready(1).lane]);
        commit(&other, changes(&[], &[1])).await.unwrap();
        assert!(search(&store, 2).await.is_empty());
        assert!(store.lanes_with_work(&[ready(1).lane]).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn hints_reach_other_processes_and_survive_a_lost_connection() {
        let (database, store) = store().await;
        let other = connect(&database.url).await;
        let session = session(&database.url).await;
        let mut hints = other.hints().unwrap();
        let listening = "SELECT count(*) = 1 FROM pg_stat_activity \
                         WHERE query LIKE 'LISTEN%' AND datname = current_database()";
        until(&session, listening).await;

        let mut lane = ready(1).lane;
        lane.queue = Text::from("own");
        other.hint_ready(&[lane.clone()]);
        lane.queue = Text::from("a queue");
        store.hint_ready(&[lane.clone(), lane.clone()]);
        let hint = hints.recv().await.unwrap();
        assert_eq!((hint.tenant_id, hint.class, &*hint.queue), (TENANT, lane.class, "a queue"));

        let cut = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                   WHERE query LIKE 'LISTEN%' AND datname = current_database()";
        session.execute(cut, &[]).await.unwrap();
        until(&session, listening).await;
        lane.queue = Text::from("later");
        store.hint_ready(&[lane]);
        assert_eq!(&*hints.recv().await.unwrap().queue, "later");
        assert!(hints.try_recv().is_err(), "a hint arrived twice, or came from this process");
    }
}

mod listing {
    use super::*;

    /// Uses more statements than a connection keeps prepared, on a single connection.
    #[tokio::test]
    async fn every_combination_of_filters_finds_the_row_it_describes() {
        let database = fresh_database().await;
        let one_connection =
            PostgresOptions { read_connections: 1, ..PostgresOptions::new(database.url.clone()) };
        let store = PostgresStore::connect(one_connection).await.unwrap();
        let mut mutations = insert_executions([1]);
        mutations.labels.push(Change::Insert(row(&[("execution_id", Value::Uuid(Uuid::from_u128(1)))])));
        commit(&store, mutations).await.unwrap();
        for combination in 0..1_024u32 {
            let given = |bit: u32| combination >> bit & 1 == 1;
            let filter = ExecutionFilter {
                status: given(0).then_some(execution(1).status),
                open_only: given(1),
                kind: given(2).then(|| "a".into()),
                queue: given(3).then(|| "a".into()),
                label: given(4).then(|| ("a".into(), "a".into())),
                key: given(9).then(|| "a".into()),
                parent_id: given(5).then_some(TENANT),
                created_from_ms: given(6).then_some(1),
                created_before_ms: given(7).then_some(2),
            };
            let after = given(8).then_some((1, Uuid::from_u128(2)));
            let page = Page { after, offset: 0, limit: 10 };
            let found = store.execution_list(TENANT, &filter, page).await.unwrap();
            assert_eq!(found, [execution(1)], "{filter:?}");
        }
    }
}

mod lost {
    use super::*;

    async fn ids(store: &PostgresStore) -> Vec<Uuid> {
        store.snapshot().await.unwrap().executions.iter().map(|row| row.id).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_commit_whose_reply_is_cut_is_found_to_be_there() {
        let (database, store) = store().await;
        let proxy = Proxy::start(&database.url).await;
        let through_proxy = connect(&proxy.url).await;
        let mut fault = proxy.at_next_commit(CommitFault::CutReply);
        commit(&through_proxy, insert_executions([1])).await.unwrap();
        fault.happened().await;
        assert_eq!(versions(&store).await, [1]);
        commit(&through_proxy, insert_executions([2])).await.unwrap();
        assert_eq!(versions(&store).await, [1, 1]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_commit_that_is_late_never_lands_after_it_was_settled() {
        let (database, store) = store().await;
        let proxy = Proxy::start(&database.url).await;
        let through_proxy = connect(&proxy.url).await;
        let mut fault = proxy.at_next_commit(CommitFault::HoldCommitAndCut);
        // If the batch were decided again, it could look different, and nothing in the tables would prevent that both
        // are written.
        let lost = commit(&through_proxy, insert_executions([1])).await;
        assert!(matches!(lost, Err(StoreError::Conflict(_))), "{lost:?}");
        fault.happened().await;
        assert!(ids(&store).await.is_empty(), "settled as not written");
        commit(&through_proxy, insert_executions([2])).await.unwrap();
        fault.release().await;
        assert_eq!(ids(&store).await, [Uuid::from_u128(2)], "written once");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_caller_that_goes_away_leaves_a_whole_batch_and_a_good_pool() {
        let database = fresh_database().await;
        let proxy = Proxy::start(&database.url).await;
        let one_connection =
            PostgresOptions { write_connections: 1, ..PostgresOptions::new(proxy.url.clone()) };
        let store = Arc::new(PostgresStore::connect(one_connection).await.unwrap());
        let mut fault = proxy.at_next_commit(CommitFault::HoldReply);
        let caller = tokio::spawn({
            let store = Arc::clone(&store);
            async move { commit(&store, insert_executions([1])).await }
        });
        fault.happened().await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        fault.release().await;
        // The only connection is free again, and not in a transaction.
        commit(&store, insert_executions([2])).await.unwrap();
        assert_eq!(versions(&store).await, [1, 1]);
        assert_idle(&database).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connection_lost_before_the_commit_leaves_nothing() {
        let (database, store) = store().await;
        let session = session(&database.url).await;
        let (loaded, has_loaded) = tokio::sync::oneshot::channel();
        let (go_on, may_go_on) = mpsc::channel();
        let script = Script {
            loads: [Wants::default()].into(),
            mutations: Some(insert_executions([1])),
            before_commit: Some(Box::new(move || {
                loaded.send(()).unwrap();
                may_go_on.recv().unwrap();
            })),
            ..Script::default()
        };
        let store = Arc::new(store);
        let batch = tokio::spawn({
            let store = Arc::clone(&store);
            async move { run(&store, script, options()).await }
        });
        has_loaded.await.unwrap();
        let cut = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'flovyn' \
                   AND state = 'idle in transaction' AND datname = current_database()";
        assert_eq!(session.execute(cut, &[]).await.unwrap(), 1);
        go_on.send(()).unwrap();
        let lost = batch.await.unwrap();
        assert!(matches!(lost, Err(StoreError::Unavailable(_) | StoreError::Conflict(_))), "{lost:?}");
        assert!(versions(&store).await.is_empty());
        commit(&store, insert_executions([1])).await.unwrap();
    }

    #[tokio::test]
    async fn a_batch_that_panics_leaves_nothing_and_a_good_pool() {
        let (database, store) = store().await;
        let panic = Script {
            loads: [lock_executions([1])].into(),
            before_commit: Some(Box::new(|| panic!("a fault in a rule"))),
            ..Script::default()
        };
        assert!(run(&store, panic, options()).await.is_err());
        assert_idle(&database).await;
        commit(&store, insert_executions([1])).await.unwrap();
        assert!(load(&store, lock_executions([1])).await.unwrap().busy.executions.is_empty());
    }
}
