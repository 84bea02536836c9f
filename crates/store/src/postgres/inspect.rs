//! Pages for the checker, each read in one read-only transaction that sees a consistent state. Payloads are left out,
//! because nothing checks them.

use std::collections::BTreeMap;

use flovyn_engine::ids::TenantId;
use flovyn_engine::invariants::{InspectPage, Part};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;

use crate::inspect::{Range, cut, next};
use crate::port::StoreResult;
use crate::postgres::Shared;
use crate::postgres::codec::{self, Array, Parameter};
use crate::postgres::connection::{Connection, Request};
use crate::postgres::load::{LoadOptions, load};
use crate::postgres::sql::{LISTED, columns, key_columns, key_order};
use crate::record::{Column, Record};
use crate::value::{ColumnType, Field, Value};

pub(super) async fn page(shared: &Shared, part: &Part, limit: usize) -> StoreResult<InspectPage> {
    let mut connection = shared.readers.take().await?;
    connection.set_reusable(false);
    connection.one(Request::plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")).await?;
    let page = read(&connection, shared, part, limit).await?;
    connection.one(Request::plain("COMMIT")).await?;
    connection.set_reusable(true);
    Ok(page)
}

async fn read(
    connection: &Connection,
    shared: &Shared,
    part: &Part,
    limit: usize,
) -> StoreResult<InspectPage> {
    let mut subjects = Snapshot::default();
    let mut complete = None;
    match part {
        Part::Executions(key) => {
            subjects.executions = after(connection, key.as_ref(), "true", limit).await?;
            let range = cut(*key, &mut subjects.executions, limit);
            complete = Some(range.up_to.1.is_max());
            add_belongings(connection, &range, &mut subjects).await?;
        }
        Part::Tasks(key) => {
            subjects.tasks = after(connection, key.as_ref(), "t.execution_id IS NULL", limit).await?;
        }
        Part::Keys(key) => subjects.keys = after(connection, key.as_ref(), "true", limit).await?,
        Part::Ready(key) => subjects.ready = after(connection, key.as_ref(), "true", limit).await?,
        Part::Due(key) => subjects.due = after(connection, key.as_ref(), "true", limit).await?,
        Part::Quotas(key) => subjects.quotas = after(connection, key.as_ref(), "true", limit).await?,
    }
    add_attempts(connection, &mut subjects).await?;
    let wants = InspectPage::wants(&subjects);
    let options = LoadOptions { begin: false, wait_for_locks: false };
    let loaded = load(connection, &wants, &shared.starts, options).await?;
    let now = loaded.now;
    let mut context: Snapshot = loaded.into();
    let until_ms = InspectPage::follow_ups_until_ms(&subjects, now);
    add_follow_ups(connection, &subjects, until_ms, &mut context).await?;
    let complete = complete.unwrap_or_else(|| part.after(&subjects).is_none());
    Ok(InspectPage {
        next: next(part, &subjects, complete),
        open_workflows: open_workflows(connection, &subjects).await?,
        subjects,
        context,
        now,
    })
}

/// The columns of a record, with empty values in place of payloads.
fn light_columns<R: Record>() -> String {
    let light = |column: &Column| match column.kind {
        ColumnType::Bytes => "''::bytea".to_owned(),
        _ => format!("t.{}", column.name),
    };
    R::COLUMNS.iter().map(light).collect::<Vec<_>>().join(", ")
}

async fn light<R: Record>(
    connection: &Connection,
    rest: &str,
    values: Vec<Value<'_>>,
) -> StoreResult<Vec<R>> {
    let text = format!("SELECT {} FROM {} t WHERE {rest}", light_columns::<R>(), R::TABLE);
    let parameters = values.into_iter().map(Parameter::One).collect();
    codec::read_all(&connection.one(Request::text(text, parameters)).await?)
}

/// Rows after a key, in key order.
async fn after<R: Record>(
    connection: &Connection,
    key: Option<&R::Key>,
    filter: &str,
    limit: usize,
) -> StoreResult<Vec<R>> {
    let mut values = vec![codec::limit(limit)];
    let mut beyond = String::new();
    if let Some(key) = key {
        R::key_values(key, &mut values);
        let places: Vec<String> = (2..=values.len()).map(|number| format!("${number}")).collect();
        beyond = format!(" AND ({}) > ({})", key_order::<R>(), places.join(", "));
    }
    let rest = format!("{filter}{beyond} ORDER BY {} LIMIT $1", key_order::<R>());
    debug_assert_eq!(key_columns::<R>().len(), R::KEY_COLUMNS);
    light(connection, &rest, values).await
}

async fn add_belongings(connection: &Connection, range: &Range, subjects: &mut Snapshot) -> StoreResult<()> {
    let ((tenant, id), (last_tenant, last_id)) = (range.after, range.up_to);
    let values = || vec![tenant, id, last_tenant, last_id].into_iter().map(Value::Uuid).collect();
    let rest = |more: &str, order: &str| {
        format!(
            "(t.tenant_id, t.execution_id) > ($1, $2) AND (t.tenant_id, t.execution_id) <= ($3, $4) AND {more} \
             ORDER BY t.tenant_id, t.execution_id, t.{order}"
        )
    };
    let listed = format!("t.{LISTED}");
    subjects.events = light(connection, &rest("true", "sequence"), values()).await?;
    subjects.states = light(connection, &rest("true", "name"), values()).await?;
    subjects.timers = light(connection, &rest("true", "name"), values()).await?;
    subjects.promises = light(connection, &rest(&listed, "id"), values()).await?;
    subjects.tasks = light(connection, &rest("t.execution_id IS NOT NULL", "id"), values()).await?;
    Ok(())
}

async fn add_attempts(connection: &Connection, subjects: &mut Snapshot) -> StoreResult<()> {
    if subjects.tasks.is_empty() {
        return Ok(());
    }
    let text = format!(
        "SELECT {} FROM unnest($1::uuid[], $2::uuid[]) AS k(tenant_id, task_id) \
         JOIN task_attempt t ON t.tenant_id = k.tenant_id AND t.task_id = k.task_id \
         ORDER BY t.tenant_id, t.task_id, t.attempt",
        columns::<Attempt>()
    );
    let tenants = subjects.tasks.iter().map(|row| Some(row.tenant_id)).collect();
    let tasks = subjects.tasks.iter().map(|row| Some(row.id)).collect();
    let parameters = vec![Parameter::Many(Array::Uuid(tenants)), Parameter::Many(Array::Uuid(tasks))];
    subjects.attempts = codec::read_all(&connection.one(Request::text(text, parameters)).await?)?;
    Ok(())
}

async fn add_follow_ups(
    connection: &Connection,
    subjects: &Snapshot,
    until_ms: i64,
    context: &mut Snapshot,
) -> StoreResult<()> {
    let wanted = InspectPage::follow_ups(subjects);
    if wanted.is_empty() {
        return Ok(());
    }
    let rest = "t.clock = $1 AND t.due_ms <= $2 AND t.class IN ($3, $4, $5)";
    let [close, execution, task] = [DueClass::CloseItems, DueClass::PurgeExecution, DueClass::PurgeTask];
    let values = vec![
        ClockKind::Product.value(),
        Value::Int(until_ms),
        close.value(),
        execution.value(),
        task.value(),
    ];
    let found: Vec<Due> = light(connection, rest, values).await?;
    context.due.extend(found.into_iter().filter(|row| wanted.contains(&(row.class, row.tenant_id, row.id))));
    Ok(())
}

async fn open_workflows(
    connection: &Connection,
    subjects: &Snapshot,
) -> StoreResult<BTreeMap<TenantId, i64>> {
    let text = format!(
        "SELECT count(*) FROM workflow_execution t WHERE t.tenant_id = $1 AND t.outcome = 0 AND t.counted = 1 \
         AND t.{LISTED}"
    );
    let mut open = BTreeMap::new();
    for quota in &subjects.quotas {
        let request = Request::text(text.clone(), vec![Parameter::One(quota.tenant_id.value())]);
        let rows = connection.one(request).await?;
        let count = rows.first().map_or(Ok(0), |row| codec::get(row, 0))?;
        open.insert(quota.tenant_id, count);
    }
    Ok(open)
}
