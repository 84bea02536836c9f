//! Lists of executions: all of a tenant, or the children of one.

use axum::Json;
use axum::extract::Path;
use flovyn_engine::Code;
use flovyn_engine::ids::canonical_id;
use flovyn_rest_types::{ExecutionTasks, Executions};
use flovyn_store::{ExecutionFilter, Page};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::access::Caller;
use super::error::RestError;
use super::execution_info::listed;
use super::executions::{execution_id, find, misspelt};
use super::extract::Query;
use super::filter::{one_of, sought};
use super::names::ExecutionStatus;
use super::page::{next, page, up_to};
use super::task_info::task_info;
use super::times::moment;

const DEFAULT_TASKS: usize = 100;
const MAX_TASKS: usize = 1_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    #[param(value_type = Option<ExecutionStatus>)]
    status: Option<String>,
    kind: Option<String>,
    #[serde(alias = "queue", alias = "task_queue")]
    task_queue: Option<String>,
    /// `name:value`
    #[param(pattern = "^$|^[^:]*:", example = "environment:production")]
    label: Option<String>,
    /// Only executions that were started with this workflow key or idempotency key.
    #[serde(alias = "idempotencyKey", alias = "idempotency_key")]
    key: Option<String>,
    /// Only children of this execution.
    #[serde(alias = "parent_id")]
    #[param(format = "uuid")]
    parent_id: Option<String>,
    #[serde(alias = "created_after")]
    #[param(format = "date-time")]
    created_after: Option<String>,
    #[serde(alias = "created_before")]
    #[param(format = "date-time")]
    created_before: Option<String>,
    /// Default 50.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    #[param(maximum = 10_000)]
    offset: Option<usize>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

impl ListQuery {
    fn page(&self) -> Result<Page, RestError> {
        page(self.limit, self.offset, self.cursor.as_deref())
    }

    fn filter(self) -> Result<ExecutionFilter, RestError> {
        let label = match sought("label", self.label)? {
            None => None,
            Some(text) => {
                let wrong = || RestError::new(Code::InvalidValue, "Invalid label. Expected: name:value");
                let (name, value) = text.split_once(':').ok_or_else(wrong)?;
                Some((name.into(), value.into()))
            }
        };
        let parent_id = self
            .parent_id
            .as_deref()
            .map(|text| canonical_id(text).ok_or_else(|| misspelt("parentId", text)));
        let time = |field: &str, text: Option<String>| text.map(|text| moment(field, &text)).transpose();
        Ok(ExecutionFilter {
            status: one_of("status", self.status.as_deref())?,
            kind: sought("kind", self.kind)?,
            queue: sought("taskQueue", self.task_queue)?,
            label,
            key: sought("key", self.key)?,
            parent_id: parent_id.transpose()?,
            created_from_ms: time("createdAfter", self.created_after)?,
            created_before_ms: time("createdBefore", self.created_before)?,
            ..ExecutionFilter::default()
        })
    }
}

/// List executions
///
/// Newest first. Executions must match all given filters.
#[utoipa::path(
    get,
    path = "/workflow-executions",
    operation_id = "listExecutions",
    tag = "Executions",
    params(ListQuery),
    responses((status = 200, description = "A page of executions", body = Executions)),
)]
pub(super) async fn list(
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Executions>, RestError> {
    let page = query.page()?;
    listing(&caller, &query.filter()?, page).await
}

/// List the children of an execution
#[utoipa::path(
    get,
    path = "/workflow-executions/{executionId}/children",
    operation_id = "listExecutionChildren",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution"), ListQuery),
    responses((status = 200, description = "A page of executions", body = Executions)),
)]
pub(super) async fn children(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Executions>, RestError> {
    let parent = find(&caller, execution_id(&name)?).await?;
    let page = query.page()?;
    let filter = ExecutionFilter { parent_id: Some(parent.id), ..query.filter()? };
    listing(&caller, &filter, page).await
}

async fn listing(
    caller: &Caller,
    filter: &ExecutionFilter,
    page: Page,
) -> Result<Json<Executions>, RestError> {
    let rows = caller.store().execution_list(caller.tenant_id(), filter, page).await?;
    Ok(Json(Executions {
        next_cursor: next(&rows, page, |row| (row.created_ms, row.id)),
        executions: rows.iter().map(listed).collect(),
        limit: page.limit,
        offset: page.offset,
    }))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct TasksQuery {
    /// Default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List the tasks of an execution
///
/// Ordered by id.
#[utoipa::path(
    get,
    path = "/workflow-executions/{executionId}/tasks",
    operation_id = "listExecutionTasks",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution"), TasksQuery),
    responses((status = 200, description = "A page of tasks", body = ExecutionTasks)),
)]
pub(super) async fn tasks(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<TasksQuery>,
) -> Result<Json<ExecutionTasks>, RestError> {
    let limit = up_to(MAX_TASKS, query.limit.unwrap_or(DEFAULT_TASKS))?;
    // The cursor is the id of the last task.
    let after = query.cursor.as_deref().filter(|text| !text.is_empty()).map(Uuid::try_parse).transpose();
    let after = after.map_err(|_| {
        RestError::new(Code::InvalidPage, "cursor is invalid: use nextCursor of the previous page")
    })?;
    let row = find(&caller, execution_id(&name)?).await?;
    let rows = caller.store().execution_tasks(caller.tenant_id(), row.id, false, after, limit).await?;
    let next = rows.last().filter(|_| rows.len() == limit);
    Ok(Json(ExecutionTasks {
        next_cursor: next.map(|row| row.id.to_string()),
        tasks: rows.iter().map(task_info).collect(),
    }))
}
