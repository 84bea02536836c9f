//! Tests of plans and of settling. The plans are those of a plain session: the planner gets rows and statistics, and
//! none of Flovyn's settings.

use flovyn_engine::for_each_table;
use flovyn_engine::state::*;
use flovyn_testkit::{TestDatabase, fresh_database};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::codec::{self, Parameter};
use super::connect::{Connector, Purpose, spawn};
use super::connection::Backend;
use super::{PostgresOptions, PostgresStore, lanes, list, query, rows, settle, sql};
use crate::port::{ExecutionFilter, Page, StoreError, TaskFilter};
use crate::record::Record;
use crate::value::{ColumnType, Field, Value};

const TENANT: Uuid = Uuid::from_u128(1);
const PAGE: Page = Page { after: Some((15_000, Uuid::nil())), offset: 0, limit: 50 };

/// A migrated database, and a session without Flovyn's settings.
async fn plain_session() -> (TestDatabase, Client) {
    let database = fresh_database().await;
    PostgresStore::connect(PostgresOptions::new(database.url.clone())).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (database, client)
}

/// Fills a table. `n` counts the rows. Columns that are not named get the same value in all rows.
async fn fill<R: Record>(client: &Client, rows: usize, given: &[(&str, &str)]) {
    client.batch_execute(&insert_of::<R>(rows, given)).await.unwrap();
    client.batch_execute(&format!("ANALYZE {}", R::TABLE)).await.unwrap();
}

fn insert_of<R: Record>(rows: usize, given: &[(&str, &str)]) -> String {
    let value = |name: &str, kind: ColumnType| {
        let own = given.iter().find(|(column, _)| *column == name).map(|(_, value)| *value);
        own.unwrap_or(match kind {
            ColumnType::Small => "0",
            ColumnType::Int => "1",
            ColumnType::Real => "1.5",
            ColumnType::Text => "'a'",
            ColumnType::Bytes => "'\\x7b7d'",
            ColumnType::Uuid => "'00000000-0000-0000-0000-000000000001'::uuid",
        })
    };
    let names: Vec<&str> = R::COLUMNS.iter().map(|column| column.name).collect();
    let values: Vec<&str> = R::COLUMNS.iter().map(|column| value(column.name, column.kind)).collect();
    let (names, values) = (names.join(", "), values.join(", "));
    format!("INSERT INTO {0} ({names}) SELECT {values} FROM generate_series(1, {rows}) n", R::TABLE)
}

async fn plan(client: &Client, text: &str, parameters: &[Parameter<'_>]) -> String {
    let parameters: Vec<&(dyn ToSql + Sync)> =
        parameters.iter().map(|parameter| parameter as &(dyn ToSql + Sync)).collect();
    let rows = client.query(&format!("EXPLAIN {text}"), &parameters).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

fn one_by_one<'a>(values: &[Value<'a>]) -> Vec<Parameter<'a>> {
    values.iter().copied().map(Parameter::One).collect()
}

/// Asserts that the index is used and that its result is already in order.
fn assert_ordered_by(plan: &str, index: &str) {
    assert!(plan.contains(index), "{index} is not used:\n{plan}");
    for node in ["Seq Scan", "Bitmap", "Sort"] {
        assert!(!plan.contains(node), "{node} is used, although {index} has the order:\n{plan}");
    }
}

#[tokio::test]
async fn lanes_are_searched_by_index() {
    let (_database, client) = plain_session().await;
    let columns = [
        ("queue", "'q' || n % 100"),
        ("kind", "'k' || n % 400"),
        ("sort_ms", "n"),
        ("id", "gen_random_uuid()"),
    ];
    fill::<Ready>(&client, 20_000, &columns).await;
    let lane = |kind: &str| Lane {
        tenant_id: TENANT,
        class: WorkClass::Workflow,
        queue: "q1".into(),
        kind: kind.into(),
        version: "a".into(),
    };
    let lanes = [lane("k1"), lane("k101"), lane("k201")];
    let starts = [None, Some(10_000), Some(30_000)];
    let parameters = lanes::parameters(lanes.iter().map(|lane| (lane, Some(10))), &starts, true);
    let searched = plan(&client, &lanes::search_sql(), &parameters).await;
    assert_ordered_by(&searched, "ready_pkey");
    let from_start = "(sort_ms >= CASE WHEN";
    let condition = searched.lines().find(|line| line.contains(from_start)).unwrap_or_default();
    assert!(condition.contains("Index Cond"), "the start is not a condition of the index:\n{searched}");

    let parameters = lanes::parameters(lanes.iter().map(|lane| (lane, None)), &starts, false);
    assert_ordered_by(&plan(&client, &lanes::with_work_sql(), &parameters).await, "ready_pkey");

    let values = [TENANT.value(), WorkClass::Workflow.value(), Value::Text("q1"), codec::limit(10)];
    let jumped = plan(&client, query::LANES_OF_QUEUE, &one_by_one(&values)).await;
    assert_ordered_by(&jumped, "ready_pkey");
    assert!(jumped.contains("ROW(kind, kind_version) > ROW"), "{jumped}");
    let depths = plan(&client, query::QUEUE_DEPTHS, &one_by_one(&[TENANT.value(), Value::Int(100)])).await;
    assert!(depths.contains("ready_pkey") && !depths.contains("Seq Scan"), "{depths}");
}

#[tokio::test]
async fn due_rows_are_found_by_index() {
    let (_database, client) = plain_session().await;
    fill::<Due>(&client, 20_000, &[("due_ms", "n"), ("id", "gen_random_uuid()")]).await;
    let text = format!("SELECT {} FROM due t {}", sql::columns::<Due>(), query::DUE_PAGE);
    let values = [ClockKind::Product.value(), Value::Int(15_000), codec::limit(100)];
    assert_ordered_by(&plan(&client, &text, &one_by_one(&values)).await, "due_pkey");
}

#[tokio::test]
async fn executions_are_listed_by_index() {
    let (_database, client) = plain_session().await;
    let columns = [
        ("id", "('00000000-0000-0000-0000-' || lpad(to_hex(n), 12, '0'))::uuid"),
        ("created_ms", "n"),
        ("kind", "'k' || n % 10"),
        ("queue", "'q' || n % 10"),
        (
            "parent_id",
            "CASE WHEN n % 10 = 0 THEN ('00000000-0000-0000-0001-' || lpad(to_hex(n % 1000), 12, '0'))::uuid END",
        ),
        // Most are completed, some failed, few are open.
        ("status", "CASE WHEN n % 100 = 0 THEN n % 3 WHEN n % 20 = 1 THEN 4 ELSE 3 END"),
        ("finished_ms", "CASE WHEN n % 100 <> 0 THEN n END"),
        ("idempotency_key", "CASE WHEN n % 2 = 0 THEN 'key-' || n % 1000 END"),
    ];
    fill::<Execution>(&client, 20_000, &columns).await;
    let of_execution = ("execution_id", columns[0].1);
    fill::<Label>(&client, 20_000, &[of_execution, ("value", "'v' || n % 10"), ("created_ms", "n")]).await;
    let none = ExecutionFilter::default;
    let with_status = |status| ExecutionFilter { status: Some(status), ..none() };
    let cases = [
        (none(), "workflow_execution_created"),
        (with_status(ExecutionStatus::Failed), "workflow_execution_outcome"),
        (with_status(ExecutionStatus::Waiting), "workflow_execution_outcome"),
        (ExecutionFilter { open_only: true, ..none() }, "workflow_execution_outcome"),
        (ExecutionFilter { kind: Some("k3".into()), ..none() }, "workflow_execution_kind"),
        (ExecutionFilter { queue: Some("q3".into()), ..none() }, "workflow_execution_queue"),
        (ExecutionFilter { label: Some(("a".into(), "v3".into())), ..none() }, "execution_label_value"),
        (ExecutionFilter { key: Some("key-4".into()), ..none() }, "workflow_execution_key"),
    ];
    for (filter, index) in cases {
        let (text, values) = list::execution_list_sql(&TENANT, &filter, PAGE);
        assert_ordered_by(&plan(&client, &text, &one_by_one(&values)).await, index);
    }
    // A parent has few children, so they are sorted.
    let parent = Uuid::from_u128(0x0001 << 48 | 10);
    let filter = ExecutionFilter { parent_id: Some(parent), ..none() };
    let (text, values) = list::execution_list_sql(&TENANT, &filter, PAGE);
    let children = plan(&client, &text, &one_by_one(&values)).await;
    assert!(children.contains("workflow_execution_parent") && !children.contains("Seq Scan"), "{children}");
}

#[tokio::test]
async fn standalone_tasks_are_listed_by_index() {
    let (_database, client) = plain_session().await;
    let columns = [
        ("id", "gen_random_uuid()"),
        (
            "execution_id",
            "CASE WHEN n % 2 = 0 THEN ('00000000-0000-0000-0000-' || lpad(to_hex(n % 1000), 12, '0'))::uuid END",
        ),
        ("created_ms", "n"),
        ("task_type", "'t' || n % 10"),
        ("queue", "'q' || n % 9"),
        ("status", "CASE WHEN n % 100 = 1 THEN 0 WHEN n % 20 = 3 THEN 3 ELSE 2 END"),
        ("finished_ms", "n"),
    ];
    fill::<Task>(&client, 20_000, &columns).await;
    let none = TaskFilter::default;
    let with_status = |status| TaskFilter { status: Some(status), ..none() };
    let cases = [
        (none(), "task_execution_created"),
        (with_status(TaskStatus::Failed), "task_execution_outcome"),
        (with_status(TaskStatus::Pending), "task_execution_outcome"),
        (TaskFilter { task_type: Some("t3".into()), ..none() }, "task_execution_type"),
        (TaskFilter { queue: Some("q3".into()), ..none() }, "task_execution_queue"),
    ];
    for (filter, index) in cases {
        let (text, values) = list::task_list_sql(&TENANT, &filter, PAGE);
        assert_ordered_by(&plan(&client, &text, &one_by_one(&values)).await, index);
    }
    let values = [TENANT.value(), Value::Int(15_000), codec::limit(10)];
    let finished = plan(&client, query::TASK_FINISHED, &one_by_one(&values)).await;
    assert_ordered_by(&finished, "task_execution_finished");
    let tasks =
        "SELECT t.id FROM task_execution t WHERE t.tenant_id = $1 AND t.execution_id = $2 ORDER BY t.id";
    let values = [TENANT.value(), Value::Uuid(Uuid::from_u128(8))];
    assert_ordered_by(&plan(&client, tasks, &one_by_one(&values)).await, "task_execution_owner");
}

/// An update that changes no index costs about half as much, and leaves no dead entries in an index.
#[tokio::test]
async fn no_index_is_touched_before_a_row_has_ended_nor_when_a_workflows_task_ends() {
    let (_database, mut client) = plain_session().await;
    let transaction = client.transaction().await.unwrap();
    let ends = "status = 4, finished_ms = 7, started_ms = 6";
    let cases = [
        ("workflow_execution", "NULL", "status = 1, session = gen_random_uuid(), lease_until_ms = 5", true),
        ("workflow_execution", "NULL", ends, false),
        ("task_execution", "NULL", "status = 1, session = gen_random_uuid(), lease_until_ms = 5", true),
        ("task_execution", "NULL", ends, false),
        ("task_execution", "gen_random_uuid()", ends, true),
    ];
    let insert = |table: &str, owner: &str| match table {
        "task_execution" => insert_of::<Task>(1, &[("execution_id", owner), ("finished_ms", "NULL")]),
        _ => insert_of::<Execution>(1, &[("finished_ms", "NULL")]),
    };
    for (table, owner, change, in_place) in cases {
        transaction.batch_execute(&format!("DELETE FROM {table}; {}", insert(table, owner))).await.unwrap();
        let count = "SELECT n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = $1";
        let before: i64 = transaction.query_one(count, &[&table]).await.unwrap().get(0);
        transaction.batch_execute(&format!("UPDATE {table} SET {change}")).await.unwrap();
        let after: i64 = transaction.query_one(count, &[&table]).await.unwrap().get(0);
        assert_eq!(after - before, i64::from(in_place), "{table} of {owner}: {change}");
    }
}

#[tokio::test]
async fn rows_are_written_and_locked_by_key() {
    let (_database, client) = plain_session().await;
    fill::<Execution>(&client, 20_000, &[("id", "gen_random_uuid()"), ("created_ms", "n")]).await;
    let versions = "SELECT array_agg(tenant_id), array_agg(id) FROM \
                    (SELECT * FROM workflow_execution LIMIT 256) sample";
    let row = client.query_one(versions, &[]).await.unwrap();
    let (tenants, ids): (Vec<Uuid>, Vec<Uuid>) = (row.get(0), row.get(1));
    let keys =
        |values: &[Uuid]| Parameter::Many(codec::Array::Uuid(values.iter().copied().map(Some).collect()));
    let parameters = [keys(&tenants), keys(&ids)];
    for verb in [sql::Verb::Lock, sql::Verb::LockWaiting, sql::Verb::Read] {
        let text = (sql::table_sql::<Execution>(verb).text)();
        let plan = plan(&client, &text, &parameters).await;
        assert!(plan.contains("workflow_execution_pkey") && !plan.contains("Seq Scan"), "{verb:?}:\n{plan}");
    }
}

macro_rules! define_check_all {
    ($($field:ident: $row:ident,)*) => {
        async fn check_all_by_key(client: &Client) {
            $(check_by_key::<$row>(client).await;)*
        }
    };
}
for_each_table!(define_check_all);

async fn check_by_key<R: Record>(client: &Client) {
    for verb in
        [sql::Verb::Lock, sql::Verb::LockWaiting, sql::Verb::Read, sql::Verb::Update, sql::Verb::Delete]
    {
        if verb == sql::Verb::Update && R::COLUMNS.iter().all(|column| column.fixed) {
            continue;
        }
        let parameters = match verb {
            sql::Verb::Update | sql::Verb::Delete => {
                vec![Parameter::Rows(rows::Rows::new::<R>(std::iter::empty(), |_| true))]
            }
            _ => codec::Arrays::new(sql::key_columns::<R>(), 0).into_parameters(),
        };
        let plan = plan(client, &(sql::table_sql::<R>(verb).text)(), &parameters).await;
        let by_key = format!("using {}_pkey", R::TABLE);
        assert!(plan.contains(&by_key), "{verb:?} of {} does not use the key:\n{plan}", R::TABLE);
        for whole in ["Seq Scan", "hashed", "Bitmap"] {
            assert!(!plan.contains(whole), "{verb:?} of {} reads all rows:\n{plan}", R::TABLE);
        }
    }
}

/// A connection keeps the plans of its first statements, when all tables may be empty.
#[tokio::test]
async fn plans_made_on_empty_tables_go_by_primary_key() {
    let database = fresh_database().await;
    PostgresStore::connect(PostgresOptions::new(database.url.clone())).await.unwrap();
    let connector = Connector::new(&database.url).unwrap();
    let (client, connection) = connector.open(Purpose::Batches).await.unwrap();
    spawn(connection);
    check_all_by_key(&client).await;
}

/// A step of a workflow changes its row, but no index.
#[tokio::test]
async fn updates_of_open_executions_stay_on_their_page() {
    let (_database, client) = plain_session().await;
    let open = [("id", "gen_random_uuid()"), ("finished_ms", "NULL"), ("status", "1")];
    fill::<Execution>(&client, 200, &open).await;
    // Only a few rows, so that they fit into the free space of their page.
    let step = "BEGIN; UPDATE workflow_execution SET version = version + 1, status = 2, last_sequence = 7, \
                worker = 'w', lease_until_ms = 5, alarm_ms = 9, purging = 1 \
                WHERE id IN (SELECT id FROM workflow_execution LIMIT 3)";
    client.batch_execute(step).await.unwrap();
    let counted = "SELECT pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid) \
                   FROM pg_class WHERE relname = 'workflow_execution'";
    let row = client.query_one(counted, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (3, 3));
}

#[tokio::test]
async fn a_settled_batch_stays_settled() {
    let (database, client) = plain_session().await;
    let connector = Connector::new(&database.url).unwrap();
    let gone = Backend { pid: 1, started_us: 1 };
    let (lost, landed) = (Uuid::from_u128(1), Uuid::from_u128(2));
    for _ in 0..2 {
        // The second pass finds the tombstone of the first one, whose reply could also have been lost.
        let settled = settle::settle(&connector, gone, lost, "a test").await;
        assert!(matches!(settled, Err(StoreError::Conflict(_))), "{settled:?}");
    }
    let insert = format!("INSERT INTO batch VALUES ('{landed}', 1, 1)");
    client.batch_execute(&insert).await.unwrap();
    settle::settle(&connector, gone, landed, "a test").await.unwrap();
}
