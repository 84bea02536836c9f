//! Listings with filters. A statement contains only the conditions that are given, so that each combination gets the
//! best plan.

use flovyn_engine::ids::TenantId;
use flovyn_engine::state::{AuditEntry, Execution, SmallEnum, Task};

use crate::port::{AuditFilter, ExecutionFilter, Page, StoreResult, TaskFilter};
use crate::postgres::Shared;
use crate::postgres::codec;
use crate::postgres::sql::{LISTED, columns};
use crate::value::{Field, Value};

/// Conditions with their parameters.
#[derive(Debug, Default)]
struct Conditions<'a> {
    text: String,
    values: Vec<Value<'a>>,
}

impl<'a> Conditions<'a> {
    /// Adds a condition. `condition` has `?` for the value.
    fn and(&mut self, condition: &str, value: Value<'a>) {
        let place = self.place(value);
        self.and_fixed(&condition.replace('?', &place));
    }

    fn and_fixed(&mut self, condition: &str) {
        self.text.push_str(if self.text.is_empty() { "WHERE " } else { " AND " });
        self.text.push_str(condition);
    }

    fn place(&mut self, value: Value<'a>) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    /// Terminal states are found by a separate column. Open rows have 0 in that column, and their status is compared.
    fn and_status(&mut self, outcome: &str, number: i16, is_terminal: bool) {
        if is_terminal {
            self.and(&format!("{outcome} = ?"), Value::Small(number));
        } else {
            self.and_fixed(&format!("{outcome} = 0"));
            self.and("t.status = ?", Value::Small(number));
        }
    }

    /// Newest first, by creation time and id.
    fn page(&mut self, created_ms: &str, id: &str, page: Page) {
        if let Some((after_ms, after_id)) = page.after {
            let (after_ms, after_id) = (self.place(Value::Int(after_ms)), self.place(Value::Uuid(after_id)));
            self.and_fixed(&format!("({created_ms}, {id}) < ({after_ms}, {after_id})"));
        }
        let limit = self.place(codec::limit(page.limit));
        let offset = self.place(codec::limit(page.offset));
        self.text.push_str(&format!(" ORDER BY {created_ms} DESC, {id} DESC LIMIT {limit} OFFSET {offset}"));
    }
}

pub(super) async fn execution_list(
    shared: &Shared,
    tenant: TenantId,
    filter: &ExecutionFilter,
    page: Page,
) -> StoreResult<Vec<Execution>> {
    let (text, values) = execution_list_sql(&tenant, filter, page);
    codec::read_all(&shared.query(text, values).await?)
}

pub(super) fn execution_list_sql<'a>(
    tenant: &'a TenantId,
    filter: &'a ExecutionFilter,
    page: Page,
) -> (String, Vec<Value<'a>>) {
    let mut conditions = Conditions::default();
    // The rows of a label contain the creation time, so that they can be read in the order of the listing.
    let (source, created_ms, id) = match &filter.label {
        None => ("workflow_execution t", "t.created_ms", "t.id"),
        Some(_) => (
            "execution_label l JOIN workflow_execution t ON t.tenant_id = l.tenant_id AND t.id = l.execution_id",
            "l.created_ms",
            "l.execution_id",
        ),
    };
    match &filter.label {
        None => {
            // Few executions share a key, so only the index of the key must be used.
            if filter.key.is_none() {
                conditions.and_fixed(&format!("t.{LISTED}"));
            }
            conditions.and("t.tenant_id = ?", tenant.value());
        }
        Some((name, value)) => {
            conditions.and_fixed(&format!("l.{LISTED}"));
            conditions.and("l.tenant_id = ?", tenant.value());
            conditions.and("l.name = ?", name.value());
            conditions.and("l.value = ?", value.value());
        }
    }
    conditions.and_fixed("t.purging = 0");
    if let Some(status) = &filter.status {
        conditions.and_status("t.outcome", status.number(), status.is_terminal());
    }
    if let Some(kind) = &filter.kind {
        conditions.and("t.kind = ?", kind.value());
    }
    if let Some(queue) = &filter.queue {
        conditions.and("t.queue = ?", queue.value());
    }
    if filter.open_only {
        conditions.and_fixed("t.outcome = 0");
    }
    if let Some(key) = &filter.key {
        conditions.and("t.idempotency_key = ?", key.value());
    }
    if let Some(parent_id) = &filter.parent_id {
        conditions.and("t.parent_id = ?", parent_id.value());
    }
    if let Some(from_ms) = &filter.created_from_ms {
        conditions.and(&format!("{created_ms} >= ?"), from_ms.value());
    }
    if let Some(before_ms) = &filter.created_before_ms {
        conditions.and(&format!("{created_ms} < ?"), before_ms.value());
    }
    conditions.page(created_ms, id, page);
    (format!("SELECT {} FROM {source} {}", columns::<Execution>(), conditions.text), conditions.values)
}

pub(super) async fn task_list(
    shared: &Shared,
    tenant: TenantId,
    filter: &TaskFilter,
    page: Page,
) -> StoreResult<Vec<Task>> {
    let (text, values) = task_list_sql(&tenant, filter, page);
    codec::read_all(&shared.query(text, values).await?)
}

pub(super) fn task_list_sql<'a>(
    tenant: &'a TenantId,
    filter: &'a TaskFilter,
    page: Page,
) -> (String, Vec<Value<'a>>) {
    let mut conditions = task_conditions(tenant, filter);
    conditions.page("t.created_ms", "t.id", page);
    (format!("SELECT {} FROM task_execution t {}", columns::<Task>(), conditions.text), conditions.values)
}

pub(super) async fn audit_list(
    shared: &Shared,
    tenant: TenantId,
    filter: &AuditFilter,
    page: Page,
) -> StoreResult<Vec<AuditEntry>> {
    let mut conditions = Conditions::default();
    conditions.and("t.tenant_id = ?", tenant.value());
    if let Some(target) = &filter.target {
        conditions.and("t.target = ?", target.value());
    }
    if let Some(actor) = &filter.actor {
        conditions.and("t.actor = ?", actor.value());
    }
    if let Some(action) = &filter.action {
        conditions.and("t.action = ?", action.value());
    }
    conditions.page("t.time_ms", "t.id", page);
    let text = format!("SELECT {} FROM audit t {}", columns::<AuditEntry>(), conditions.text);
    codec::read_all(&shared.query(text, conditions.values).await?)
}

pub(super) async fn task_count(
    shared: &Shared,
    tenant: TenantId,
    filter: &TaskFilter,
    limit: i64,
) -> StoreResult<i64> {
    let mut conditions = task_conditions(&tenant, filter);
    let limit = conditions.place(Value::Int(limit));
    let text = format!(
        "SELECT count(*) FROM (SELECT 1 FROM task_execution t {} LIMIT {limit}) counted",
        conditions.text
    );
    let rows = shared.query(text, conditions.values).await?;
    rows.first().map_or(Ok(0), |row| codec::get(row, 0))
}

fn task_conditions<'a>(tenant: &'a TenantId, filter: &'a TaskFilter) -> Conditions<'a> {
    let mut conditions = Conditions::default();
    conditions.and("t.tenant_id = ?", tenant.value());
    conditions.and_fixed("t.execution_id IS NULL");
    conditions.and_fixed("t.purging = 0");
    if let Some(status) = &filter.status {
        conditions.and_status("t.listed_outcome", status.number(), status.is_terminal());
    }
    if let Some(task_type) = &filter.task_type {
        conditions.and("t.task_type = ?", task_type.value());
    }
    if let Some(queue) = &filter.queue {
        conditions.and("t.queue = ?", queue.value());
    }
    conditions
}
