//! Listings, newest first. Each names the index that it walks, so that the cost of a page does not depend on the size
//! of the table or on the planner's guess. Conditions that the index does not cover are checked row by row.

use flovyn_engine::ids::TenantId;
use flovyn_engine::state::*;
use rusqlite::Connection;
use uuid::Uuid;

use super::codec::{columns, limit, select};
use super::error::store_error;
use crate::port::{AuditFilter, ExecutionFilter, Page, StoreResult, TaskFilter};
use crate::record::Record;
use crate::value::{Field, Value};

/// A statement under construction.
pub(super) struct Listing<'a> {
    from: &'static str,
    /// The columns of the walked index that define the order: creation time and id.
    order: [&'static str; 2],
    conditions: Vec<String>,
    values: Vec<Value<'a>>,
}

impl<'a> Listing<'a> {
    fn new(from: &'static str, order: [&'static str; 2], tenant: TenantId) -> Self {
        let mut listing = Self { from, order, conditions: Vec::new(), values: Vec::new() };
        listing.add("t.tenant_id = ?", Value::Uuid(tenant));
        listing
    }

    /// A listing of executions or tasks. Rows that are being deleted are left out.
    fn of_work(from: &'static str, order: [&'static str; 2], tenant: TenantId) -> Self {
        let mut listing = Self::new(from, order, tenant);
        listing.conditions.push("t.purging = 0".into());
        listing
    }

    /// Adds a condition with one parameter.
    fn add(&mut self, condition: &str, value: Value<'a>) {
        self.values.push(value);
        self.conditions.push(condition.replace('?', &format!("?{}", self.values.len())));
    }

    fn add_if<F: Field>(&mut self, condition: &str, value: Option<&'a F>) {
        if let Some(value) = value {
            self.add(condition, value.value());
        }
    }

    /// The index has no status of open rows; it only shows that they are open.
    fn add_status<F: Field>(&mut self, status: &'a F, is_terminal: bool) {
        if is_terminal {
            self.add("t.outcome = ?", status.value());
        } else {
            self.conditions.push("t.outcome IS NULL".into());
            self.add("t.status = ?", status.value());
        }
    }

    /// Restricts the listing to the rows after a place in the order.
    fn add_after(&mut self, (created_ms, id): (i64, Uuid)) {
        let number = self.values.len() + 1;
        let [created, own_id] = self.order;
        self.conditions.push(format!("({created}, {own_id}) < (?{number}, ?{})", number + 1));
        self.values.extend([Value::Int(created_ms), Value::Uuid(id)]);
    }

    fn body(&self) -> String {
        format!("FROM {} WHERE {}", self.from, self.conditions.join(" AND "))
    }

    pub(super) fn page_sql<R: Record>(&mut self, page: Page) -> String {
        if let Some(after) = page.after {
            self.add_after(after);
        }
        let [created, id] = self.order;
        let number = self.values.len() + 1;
        self.values.extend([limit(page.limit), limit(page.offset)]);
        format!(
            "SELECT {} {} ORDER BY {created} DESC, {id} DESC LIMIT ?{number} OFFSET ?{}",
            columns::<R>("t."),
            self.body(),
            number + 1
        )
    }

    fn page<R: Record>(mut self, conn: &Connection, page: Page) -> StoreResult<Vec<R>> {
        let sql = self.page_sql::<R>(page);
        select(conn, &sql, &self.values)
    }

    /// The number of rows: exact up to the limit, then the limit.
    fn count(mut self, conn: &Connection, up_to: i64) -> StoreResult<i64> {
        let number = self.values.len() + 1;
        self.values.push(Value::Int(up_to));
        let sql = format!("SELECT count(*) FROM (SELECT 1 {} LIMIT ?{number})", self.body());
        let mut statement = conn.prepare_cached(&sql).map_err(store_error)?;
        let values = rusqlite::params_from_iter(&self.values);
        statement.query_row(values, |row| row.get(0)).map_err(store_error)
    }
}

const OWN: [&str; 2] = ["t.created_ms", "t.id"];

pub(super) fn executions(tenant: TenantId, filter: &ExecutionFilter) -> Listing<'_> {
    let order = if filter.label.is_some() { ["l.created_ms", "l.execution_id"] } else { OWN };
    let mut listing = Listing::of_work(execution_index(filter), order, tenant);
    if let Some((name, value)) = &filter.label {
        listing.conditions.push("l.tenant_id = ?1".into());
        listing.add("l.name = ?", name.value());
        listing.add("l.value = ?", value.value());
    }
    if let Some(status) = &filter.status {
        listing.add_status(status, status.is_terminal());
    }
    listing.add_if("t.idempotency_key = ?", filter.key.as_ref());
    listing.add_if("t.parent_id = ?", filter.parent_id.as_ref());
    if filter.open_only {
        listing.conditions.push("t.outcome IS NULL".into());
    }
    listing.add_if("t.kind = ?", filter.kind.as_ref());
    listing.add_if("t.queue = ?", filter.queue.as_ref());
    let created = order[0];
    listing.add_if(&format!("{created} >= ?"), filter.created_from_ms.as_ref());
    listing.add_if(&format!("{created} < ?"), filter.created_before_ms.as_ref());
    listing
}

/// The conditions that usually match the fewest rows come first: most executions are completed, but few share a
/// parent.
fn execution_index(filter: &ExecutionFilter) -> &'static str {
    match filter {
        _ if filter.key.is_some() && filter.label.is_none() => {
            "workflow_execution t INDEXED BY execution_by_key"
        }
        _ if filter.label.is_some() => {
            "execution_label l INDEXED BY label_by_value CROSS JOIN workflow_execution t \
             ON t.tenant_id = l.tenant_id AND t.id = l.execution_id"
        }
        _ if filter.parent_id.is_some() => "workflow_execution t INDEXED BY execution_by_parent",
        _ if filter.open_only || filter.status.is_some_and(|status| status != ExecutionStatus::Completed) => {
            "workflow_execution t INDEXED BY execution_by_outcome"
        }
        _ if filter.kind.is_some() => "workflow_execution t INDEXED BY execution_by_kind",
        _ if filter.queue.is_some() => "workflow_execution t INDEXED BY execution_by_queue",
        _ if filter.status.is_some() => "workflow_execution t INDEXED BY execution_by_outcome",
        _ => "workflow_execution t INDEXED BY execution_by_created",
    }
}

/// A listing of standalone tasks.
pub(super) fn tasks(tenant: TenantId, filter: &TaskFilter) -> Listing<'_> {
    let mut listing = Listing::of_work(task_index(filter), OWN, tenant);
    listing.conditions.push("t.execution_id IS NULL".into());
    if let Some(status) = &filter.status {
        listing.add_status(status, status.is_terminal());
    }
    listing.add_if("t.task_type = ?", filter.task_type.as_ref());
    listing.add_if("t.queue = ?", filter.queue.as_ref());
    listing
}

fn task_index(filter: &TaskFilter) -> &'static str {
    match filter {
        _ if filter.status.is_some_and(|status| status != TaskStatus::Completed) => {
            "task_execution t INDEXED BY task_by_outcome"
        }
        _ if filter.task_type.is_some() => "task_execution t INDEXED BY task_by_type",
        _ if filter.queue.is_some() => "task_execution t INDEXED BY task_by_queue",
        _ if filter.status.is_some() => "task_execution t INDEXED BY task_by_outcome",
        _ => "task_execution t INDEXED BY task_by_created",
    }
}

pub(super) fn audit(tenant: TenantId, filter: &AuditFilter) -> Listing<'_> {
    let from = match &filter.target {
        Some(_) => "audit t INDEXED BY audit_by_target",
        None => "audit t",
    };
    let mut listing = Listing::new(from, ["t.time_ms", "t.id"], tenant);
    listing.add_if("t.target = ?", filter.target.as_ref());
    listing.add_if("t.actor = ?", filter.actor.as_ref());
    listing.add_if("t.action = ?", filter.action.as_ref());
    listing
}

pub(super) fn audit_list(
    conn: &Connection,
    tenant: TenantId,
    filter: &AuditFilter,
    page: Page,
) -> StoreResult<Vec<AuditEntry>> {
    audit(tenant, filter).page(conn, page)
}

pub(super) fn execution_list(
    conn: &Connection,
    tenant: TenantId,
    filter: &ExecutionFilter,
    page: Page,
) -> StoreResult<Vec<Execution>> {
    executions(tenant, filter).page(conn, page)
}

pub(super) fn task_list(
    conn: &Connection,
    tenant: TenantId,
    filter: &TaskFilter,
    page: Page,
) -> StoreResult<Vec<Task>> {
    tasks(tenant, filter).page(conn, page)
}

pub(super) fn task_count(
    conn: &Connection,
    tenant: TenantId,
    filter: &TaskFilter,
    up_to: i64,
) -> StoreResult<i64> {
    tasks(tenant, filter).count(conn, up_to)
}
