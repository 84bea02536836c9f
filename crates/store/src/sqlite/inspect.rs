//! Pages for the checker, each read in one transaction. Payloads are left out, because nothing checks them.

use std::collections::BTreeMap;

use flovyn_engine::Mutations;
use flovyn_engine::ids::TenantId;
use flovyn_engine::invariants::{InspectPage, Part};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use rusqlite::Connection;

use super::cache::Cache;
use super::codec::{limit as up_to, rows, select};
use super::error::store_error;
use super::load::load;
use super::scan::owned;
use super::sql::Statements;
use crate::clock::Clock;
use crate::inspect::{Range, cut, next};
use crate::port::StoreResult;
use crate::record::Record;
use crate::value::{ColumnType, Field, Value};

pub(super) fn page(
    conn: &Connection,
    clock: &dyn Clock,
    part: &Part,
    limit: usize,
) -> StoreResult<InspectPage> {
    let mut subjects = Snapshot::default();
    let mut complete = None;
    match part {
        Part::Executions(key) => {
            subjects.executions = after(conn, key.as_ref(), "", limit)?;
            let range = cut(*key, &mut subjects.executions, limit);
            complete = Some(range.up_to.1.is_max());
            add_belongings(conn, &range, &mut subjects)?;
        }
        // Searched by the primary key, not by the index that contains only standalone tasks.
        Part::Tasks(key) => subjects.tasks = after(conn, key.as_ref(), "execution_id IS NULL", limit)?,
        Part::Keys(key) => subjects.keys = after(conn, key.as_ref(), "", limit)?,
        Part::Ready(key) => subjects.ready = after(conn, key.as_ref(), "", limit)?,
        Part::Due(key) => subjects.due = after(conn, key.as_ref(), "", limit)?,
        Part::Quotas(key) => subjects.quotas = after(conn, key.as_ref(), "", limit)?,
    }
    for task in &subjects.tasks {
        subjects.attempts.extend(owned(conn, task.tenant_id, task.id, usize::MAX)?);
    }
    let wants = InspectPage::wants(&subjects);
    let (mut cache, nothing) = (Cache::default(), Mutations::default());
    let loaded = load(conn, Statements::all(), &mut cache, &nothing, &wants, clock)?;
    let now = loaded.now;
    let mut context: Snapshot = loaded.into();
    add_follow_ups(conn, &subjects, InspectPage::follow_ups_until_ms(&subjects, now), &mut context)?;
    let complete = complete.unwrap_or_else(|| part.after(&subjects).is_none());
    Ok(InspectPage {
        next: next(part, &subjects, complete),
        open_workflows: open_workflows(conn, &subjects)?,
        subjects,
        context,
        now,
    })
}

/// The columns of a record, with empty values in place of payloads.
fn light_columns<R: Record>() -> String {
    let light = |column: &crate::record::Column| match column.kind {
        ColumnType::Bytes => "x''",
        _ => column.name,
    };
    R::COLUMNS.iter().map(light).collect::<Vec<_>>().join(", ")
}

fn light<R: Record>(conn: &Connection, tail: &str, values: &[Value<'_>]) -> StoreResult<Vec<R>> {
    select(conn, &format!("SELECT {} FROM {} {tail}", light_columns::<R>(), R::TABLE), values)
}

/// Rows after a key, in key order, found only by the primary key.
fn after<R: Record>(
    conn: &Connection,
    key: Option<&R::Key>,
    filter: &str,
    limit: usize,
) -> StoreResult<Vec<R>> {
    let mut values = Vec::with_capacity(R::KEY_COLUMNS + 1);
    if let Some(key) = key {
        R::key_values(key, &mut values);
    }
    let conditions = [beyond::<R>(key.is_some()), filter.to_owned()];
    let conditions: Vec<String> = conditions.into_iter().filter(|condition| !condition.is_empty()).collect();
    let filter =
        if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    values.push(up_to(limit));
    let tail = format!("NOT INDEXED {filter} ORDER BY {} LIMIT ?{}", key_names::<R>(), values.len());
    light(conn, &tail, &values)
}

fn key_names<R: Record>() -> String {
    let names: Vec<&str> = R::COLUMNS[..R::KEY_COLUMNS].iter().map(|column| column.name).collect();
    names.join(", ")
}

fn beyond<R: Record>(given: bool) -> String {
    if !given {
        return String::new();
    }
    let places: Vec<String> = (1..=R::KEY_COLUMNS).map(|number| format!("?{number}")).collect();
    format!("({}) > ({})", key_names::<R>(), places.join(", "))
}

fn add_belongings(conn: &Connection, range: &Range, subjects: &mut Snapshot) -> StoreResult<()> {
    let key = |index: &str, order: &str| {
        format!(
            "{index} WHERE (tenant_id, execution_id) > (?1, ?2) AND (tenant_id, execution_id) <= (?3, ?4) \
             AND execution_id IS NOT NULL ORDER BY tenant_id, execution_id, {order}"
        )
    };
    let ((tenant, id), (last_tenant, last_id)) = (range.after, range.up_to);
    let values = [tenant, id, last_tenant, last_id].map(Value::Uuid);
    subjects.events = light(conn, &key("", "sequence"), &values)?;
    subjects.states = light(conn, &key("", "name"), &values)?;
    subjects.timers = light(conn, &key("", "name"), &values)?;
    subjects.promises = light(conn, &key("INDEXED BY promise_of_execution", "id"), &values)?;
    subjects.tasks = light(conn, &key("INDEXED BY task_of_execution", "id"), &values)?;
    Ok(())
}

fn add_follow_ups(
    conn: &Connection,
    subjects: &Snapshot,
    until_ms: i64,
    context: &mut Snapshot,
) -> StoreResult<()> {
    let wanted = InspectPage::follow_ups(subjects);
    if wanted.is_empty() {
        return Ok(());
    }
    let tail = "WHERE clock = ?1 AND due_ms <= ?2 AND class IN (?3, ?4, ?5)";
    let [close, execution, task] = [DueClass::CloseItems, DueClass::PurgeExecution, DueClass::PurgeTask];
    let values =
        [ClockKind::Product.value(), Value::Int(until_ms), close.value(), execution.value(), task.value()];
    let found: Vec<Due> = rows(conn, tail, &values)?;
    context.due.extend(found.into_iter().filter(|row| wanted.contains(&(row.class, row.tenant_id, row.id))));
    Ok(())
}

fn open_workflows(conn: &Connection, subjects: &Snapshot) -> StoreResult<BTreeMap<TenantId, i64>> {
    let sql = "SELECT count(*) FROM workflow_execution INDEXED BY execution_by_outcome \
               WHERE tenant_id = ?1 AND outcome IS NULL AND counted = 1";
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    let mut open = BTreeMap::new();
    for quota in &subjects.quotas {
        let count = statement.query_row([quota.tenant_id.value()], |row| row.get(0)).map_err(store_error)?;
        open.insert(quota.tenant_id, count);
    }
    Ok(open)
}
