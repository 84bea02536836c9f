//! Tests that the schema matches the records, and that each statement finds its rows by an index.

use flovyn_engine::for_each_table;
use flovyn_engine::state::*;
use rusqlite::Connection;
use uuid::Uuid;

use super::codec::columns;
use super::list;
use super::load::LANE;
use super::migrate::migrate;
use super::query::*;
use super::scan::*;
use super::sql::{Statements, TableSql};
use crate::port::{ExecutionFilter, Page, TaskFilter};
use crate::record::Record;
use crate::value::{ColumnType, Value};

fn database() -> Connection {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate(&mut conn).unwrap();
    conn
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StoredColumn {
    name: String,
    kind: String,
    not_null: bool,
    /// The place in the key, from 1; 0 if the column is not part of the key.
    key_place: i64,
}

fn stored_columns(conn: &Connection, table: &str) -> Vec<StoredColumn> {
    let sql = "SELECT name, type, \"notnull\", pk FROM pragma_table_xinfo(?1) ORDER BY name";
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([table], |row| {
        Ok(StoredColumn {
            name: row.get(0)?,
            kind: row.get(1)?,
            not_null: row.get(2)?,
            key_place: row.get(3)?,
        })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn recorded_columns<R: Record>() -> Vec<StoredColumn> {
    let column = |(index, column): (usize, &crate::record::Column)| {
        let kind = match column.kind {
            ColumnType::Small | ColumnType::Int => "INTEGER",
            ColumnType::Real => "REAL",
            ColumnType::Text => "TEXT",
            ColumnType::Bytes | ColumnType::Uuid => "BLOB",
        };
        StoredColumn {
            name: column.name.to_owned(),
            kind: kind.to_owned(),
            not_null: !takes_null::<R>(index),
            key_place: if index < R::KEY_COLUMNS { i64::try_from(index).unwrap() + 1 } else { 0 },
        }
    };
    let mut columns: Vec<_> = R::COLUMNS.iter().enumerate().map(column).collect();
    columns.sort();
    columns
}

/// Tried with NULL in an otherwise valid row: 1 is a valid value of every enumeration.
fn takes_null<R: Record>(index: usize) -> bool {
    R::read(|column| match R::COLUMNS[column].kind {
        _ if column == index => Value::Null,
        ColumnType::Small => Value::Small(1),
        ColumnType::Int => Value::Int(1),
        ColumnType::Real => Value::Real(1.0),
        ColumnType::Text => Value::Text("a"),
        ColumnType::Bytes => Value::Bytes(b"a"),
        ColumnType::Uuid => Value::Uuid(Uuid::nil()),
    })
    .is_ok()
}

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        #[test]
        fn every_table_has_the_columns_of_its_record() {
            let conn = database();
            $(
                let mut stored = stored_columns(&conn, $row::TABLE);
                stored.retain(|column| column.name != "outcome");
                assert_eq!(stored, recorded_columns::<$row>(), "{}", $row::TABLE);
            )*
        }

        #[test]
        fn every_row_is_found_by_its_key() {
            let conn = database();
            let sql = Statements::all();
            assert_plan(&conn, &sql.executions.outcome.as_ref().unwrap().update_open, "USING PRIMARY KEY");
            $(for statement in [&sql.$field.select, &sql.$field.delete].into_iter().chain(&sql.$field.update) {
                assert_plan(&conn, statement, "USING PRIMARY KEY");
            })*
        }
    };
}
for_each_table!(define);

fn plan(conn: &Connection, sql: &str) -> String {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    for number in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(number, 1).unwrap();
    }
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get::<_, String>(3).unwrap());
    }
    steps.join("; ")
}

/// Asserts that the statement searches by this index, walks no table and sorts nothing.
fn assert_plan(conn: &Connection, sql: &str, index: &str) {
    let plan = plan(conn, sql);
    // SQLite reports the rows of a counted subquery as a scan.
    let walked = plan.replace("SCAN (subquery", "").replace("SCAN CONSTANT ROW", "");
    assert!(
        plan.contains(index) && !walked.contains("SCAN") && !plan.contains("TEMP B-TREE"),
        "{sql}\n{plan}"
    );
}

fn assert_tail<R: Record>(conn: &Connection, tail: &str, index: &str) {
    assert_plan(conn, &format!("SELECT {} FROM {} {tail}", columns::<R>(""), R::TABLE), index);
}

#[test]
fn claims_and_loops_search_by_index() {
    let conn = database();
    let lane = "USING PRIMARY KEY (tenant_id=? AND class=? AND queue=? AND kind=? AND kind_version=?)";
    assert_plan(&conn, LANE, lane);
    assert_plan(&conn, LANE_HAS_WORK, lane);
    for (columns, index) in [
        (2, "(tenant_id=? AND class>?)"),
        (3, "(tenant_id=? AND class=? AND queue>?)"),
        (4, "(tenant_id=? AND class=? AND queue=? AND kind>?)"),
        (5, "(tenant_id=? AND class=? AND queue=? AND kind=? AND kind_version>?)"),
    ] {
        assert_tail::<Ready>(&conn, &first_ready_tail(columns, true), index);
        assert_tail::<Ready>(&conn, &first_ready_tail(columns - 1, false), "USING PRIMARY KEY (tenant_id=?");
    }
    assert_plan(&conn, QUEUE_DEPTH, "USING PRIMARY KEY (tenant_id=? AND class=? AND queue=?)");
    assert_tail::<Due>(&conn, DUE_PAGE, "USING PRIMARY KEY (clock=? AND due_ms<?)");
    assert_plan(&conn, DUE_NEXT, "USING PRIMARY KEY (clock=?)");
    assert_plan(&conn, EXECUTION_FINISHED, "execution_by_finished (tenant_id=? AND finished_ms<?)");
    assert_plan(&conn, TASK_FINISHED, "task_by_finished (tenant_id=? AND finished_ms<?)");
}

/// The number of SQLite's virtual machine steps that a statement took.
fn steps(conn: &Connection, sql: &str, values: &[Value<'_>]) -> i32 {
    let mut statement = conn.prepare(sql).unwrap();
    let mut rows = statement.query(rusqlite::params_from_iter(values)).unwrap();
    while rows.next().unwrap().is_some() {}
    drop(rows);
    statement.get_status(rusqlite::StatementStatus::VmStep)
}

#[test]
fn a_backlog_is_jumped_over() {
    let conn = database();
    let text = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) \
                INSERT INTO ready SELECT x'00', 0, 'q', iif(i < 10000, 'a', 'b'), '', i, x'00' FROM n";
    conn.execute(text, []).unwrap();
    let lane = [Value::Bytes(&[0]), Value::Small(0), Value::Text("q"), Value::Text("a"), Value::Text("")];
    for columns in 1..=lane.len() {
        for beyond in [false, true] {
            let sql = format!("SELECT * FROM ready {}", first_ready_tail(columns, beyond));
            let steps = steps(&conn, &sql, &lane[..columns]);
            assert!(steps < 100, "{steps} steps: {sql}");
        }
    }
}

#[test]
fn scans_of_a_batch_search_by_index() {
    let conn = database();
    assert_tail::<Execution>(&conn, CHILDREN, "execution_child (tenant_id=? AND parent_id=? AND id>?)");
    assert_tail::<Execution>(&conn, NEWEST_WITH_KEY, "execution_by_key (tenant_id=? AND idempotency_key=?)");
    for tail in [OPEN_TASKS, TASKS] {
        assert_tail::<Task>(&conn, tail, "task_of_execution (tenant_id=? AND execution_id=?)");
    }
    for tail in [TASK_PAGE, OPEN_TASK_PAGE] {
        assert_tail::<Task>(&conn, tail, "task_of_execution (tenant_id=? AND execution_id=? AND id>?)");
    }
    for tail in [OPEN_PROMISES, PROMISES] {
        assert_tail::<Promise>(&conn, tail, "promise_of_execution (tenant_id=? AND execution_id=?)");
    }
    assert_tail::<Timer>(&conn, OPEN_TIMERS, "USING PRIMARY KEY (tenant_id=? AND execution_id=?)");
    assert_tail::<IdempotencyKey>(&conn, EXPIRED_KEYS, "key_by_expiry (expires_ms<?)");
    assert_tail::<AuditEntry>(&conn, AUDIT_BEFORE, "audit_by_time (time_ms<?)");
    assert_tail::<Tenant>(&conn, "WHERE slug = ?1", "tenant_by_slug");
    assert_tail::<WorkerToken>(&conn, "WHERE hash = ?1", "worker_token_by_hash");
    let events: &str = &owned_tail::<Event>();
    assert_tail::<Event>(&conn, events, "USING PRIMARY KEY (tenant_id=? AND execution_id=?)");
}

const FIRST: Page = Page { after: None, offset: 0, limit: 10 };
const NEXT: Page = Page { after: Some((5, Uuid::nil())), offset: 3, limit: 10 };

#[test]
fn each_filter_of_executions_walks_an_index() {
    let conn = database();
    let all = ExecutionFilter::default();
    let status = |status| ExecutionFilter { status: Some(status), ..Default::default() };
    let cases = [
        (all.clone(), "execution_by_created (tenant_id=?"),
        (status(ExecutionStatus::Completed), "execution_by_outcome (tenant_id=? AND outcome=?"),
        (status(ExecutionStatus::Failed), "execution_by_outcome (tenant_id=? AND outcome=?"),
        (status(ExecutionStatus::Running), "execution_by_outcome (tenant_id=? AND outcome=?"),
        (
            ExecutionFilter { open_only: true, ..all.clone() },
            "execution_by_outcome (tenant_id=? AND outcome=?",
        ),
        (
            ExecutionFilter { kind: Some("k".into()), ..all.clone() },
            "execution_by_kind (tenant_id=? AND kind=?",
        ),
        (
            ExecutionFilter { queue: Some("q".into()), ..all.clone() },
            "execution_by_queue (tenant_id=? AND queue=?",
        ),
        (
            ExecutionFilter { key: Some("k".into()), ..all.clone() },
            "execution_by_key (tenant_id=? AND idempotency_key=?",
        ),
        (
            ExecutionFilter { parent_id: Some(Uuid::nil()), ..all.clone() },
            "execution_by_parent (tenant_id=? AND parent_id=?",
        ),
        (
            ExecutionFilter { label: Some(("n".into(), "v".into())), ..all.clone() },
            "label_by_value (tenant_id=? AND name=? AND value=?",
        ),
        (
            ExecutionFilter { kind: Some("k".into()), ..status(ExecutionStatus::Completed) },
            "execution_by_kind (tenant_id=? AND kind=?",
        ),
        (
            ExecutionFilter { created_from_ms: Some(1), created_before_ms: Some(9), ..all },
            "execution_by_created (tenant_id=? AND created_ms>? AND created_ms<?)",
        ),
    ];
    for (filter, index) in cases {
        let first = list::executions(Uuid::nil(), &filter).page_sql::<Execution>(FIRST);
        assert_plan(&conn, &first, index);
        let next = list::executions(Uuid::nil(), &filter).page_sql::<Execution>(NEXT);
        let (index, _) = index.split_once(" (").unwrap();
        assert_plan(&conn, &next, index);
        // The place in the order is found by a search in the index. If the filter has a start time, that takes the
        // place of one part of the condition.
        let after = plan(&conn, &next);
        assert!(after.contains(")<(?,?)") || filter.created_from_ms.is_some(), "{after}");
    }
}

#[test]
fn each_filter_of_tasks_walks_an_index() {
    let conn = database();
    let all = TaskFilter::default();
    let status = |status| TaskFilter { status: Some(status), ..Default::default() };
    let cases = [
        (all.clone(), "task_by_created (tenant_id=?"),
        (status(TaskStatus::Pending), "task_by_outcome (tenant_id=? AND outcome=?"),
        (status(TaskStatus::Completed), "task_by_outcome (tenant_id=? AND outcome=?"),
        (
            TaskFilter { task_type: Some("t".into()), ..all.clone() },
            "task_by_type (tenant_id=? AND task_type=?",
        ),
        (TaskFilter { queue: Some("q".into()), ..all }, "task_by_queue (tenant_id=? AND queue=?"),
    ];
    for (filter, index) in cases {
        for page in [FIRST, NEXT] {
            let sql = list::tasks(Uuid::nil(), &filter).page_sql::<Task>(page);
            assert_plan(&conn, &sql, index);
        }
    }
}

/// Tables and indexes that a statement writes to.
fn written_by(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(&format!("EXPLAIN {sql}")).unwrap();
    for number in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(number, 1).unwrap();
    }
    let mut rows = statement.raw_query();
    let mut roots: Vec<i64> = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        if row.get::<_, String>(1).unwrap() == "OpenWrite" {
            roots.push(row.get(3).unwrap());
        }
    }
    let name = "SELECT name FROM sqlite_schema WHERE rootpage = ?1";
    let mut names: Vec<String> =
        roots.iter().map(|root| conn.query_row(name, [root], |row| row.get(0)).unwrap()).collect();
    names.sort();
    names
}

/// A step of a workflow must not update the indexes of listings.
#[test]
fn an_update_leaves_the_indexes_of_listings_alone() {
    let conn = database();
    let update = TableSql::of::<Execution>().outcome.unwrap().update_open;
    // The first index is partial: a row enters it once, when it is finished.
    assert_eq!(written_by(&conn, &update), ["execution_by_finished", "workflow_execution"]);
    let update = TableSql::of::<Task>().outcome.unwrap().update_open;
    assert_eq!(written_by(&conn, &update), ["task_by_finished", "task_execution"]);
}
