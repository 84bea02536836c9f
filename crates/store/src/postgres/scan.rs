//! Searches of a batch: which rows belong together, but not why. Searches lock nothing. A batch that wants to change
//! rows that it found requests their keys.

use flovyn_engine::Scan;
use flovyn_engine::state::*;

use crate::postgres::codec::{self, Parameter};
use crate::postgres::connection::Request;
use crate::postgres::load::Round;
use crate::postgres::sql::{LISTED, columns, key_order};
use crate::postgres::table::TableRow;
use crate::value::{Field, Value};

const ALL: usize = usize::MAX;

/// Every filter counts its parameters from 1. The limit is the last parameter.
const OF_EXECUTION: &str = "t.tenant_id = $1 AND t.execution_id = $2";
const OF_TASK: &str = "t.tenant_id = $1 AND t.task_id = $2";
const OF_TASKS_OF_EXECUTION: &str = "t.tenant_id = $1 AND t.task_id IN (\
     SELECT p.id FROM task_execution p WHERE p.tenant_id = $1 AND p.execution_id = $2 ORDER BY p.id LIMIT $3)";

pub(super) fn add<'a>(round: &mut Round<'a>, scan: &'a Scan) {
    match scan {
        Scan::PausedQueues => rows::<PausedQueue>(round, "true", &[], ALL),
        Scan::TenantBySlug { slug } => rows::<Tenant>(round, "t.slug = $1", &[slug.value()], 1),
        Scan::Children { tenant_id, parent_id, after, limit } => {
            let (filter, after) = match after {
                None => ("t.tenant_id = $1 AND t.parent_id = $2", None),
                Some(id) => ("t.tenant_id = $1 AND t.parent_id = $2 AND t.id > $3", Some(id.value())),
            };
            let mut values = vec![tenant_id.value(), parent_id.value()];
            values.extend(after);
            rows::<Execution>(round, filter, &values, *limit);
        }
        Scan::OpenTasks { tenant_id, execution_id, limit } => {
            let open = "t.tenant_id = $1 AND t.execution_id = $2 AND t.status IN (0, 1)";
            rows::<Task>(round, open, &[tenant_id.value(), execution_id.value()], *limit);
        }
        Scan::OpenTimers { tenant_id, execution_id, limit } => {
            let open = "t.tenant_id = $1 AND t.execution_id = $2 AND t.status = 0";
            rows::<Timer>(round, open, &[tenant_id.value(), execution_id.value()], *limit);
        }
        Scan::OpenPromises { tenant_id, execution_id, limit } => {
            let open = format!("{OF_EXECUTION} AND t.{LISTED} AND t.status = 0");
            rows::<Promise>(round, &open, &[tenant_id.value(), execution_id.value()], *limit);
        }
        Scan::Labels { tenant_id, execution_id } => {
            rows::<Label>(round, OF_EXECUTION, &[tenant_id.value(), execution_id.value()], ALL);
        }
        Scan::TaskStateKeys { tenant_id, task_id, limit } => {
            rows::<TaskState>(round, OF_TASK, &[tenant_id.value(), task_id.value()], *limit);
        }
        Scan::Capabilities { tenant_id, worker_id } => {
            let of_worker = "t.tenant_id = $1 AND t.worker_id = $2";
            rows::<WorkerCapability>(round, of_worker, &[tenant_id.value(), worker_id.value()], ALL);
        }
        Scan::SilentWorkers { before_ms, limit } => {
            rows::<Worker>(round, "t.last_heartbeat_ms < $1", &[Value::Int(*before_ms)], *limit);
        }
        Scan::NewestWithKey { tenant_id, name } => {
            let of_key = "t.tenant_id = $1 AND t.idempotency_key = $2 AND t.purging = 0";
            let newest = "t.created_ms DESC, t.id DESC";
            rows_by::<Execution>(round, of_key, &[tenant_id.value(), name.value()], newest, 1);
        }
        Scan::ExpiredKeys { until_ms, limit } => {
            let order = "t.expires_ms, t.tenant_id, t.space, t.name";
            rows_by::<IdempotencyKey>(round, "t.expires_ms <= $1", &[Value::Int(*until_ms)], order, *limit);
        }
        Scan::AuditBefore { before_ms, limit } => {
            let order = "t.time_ms, t.tenant_id, t.id";
            rows_by::<AuditEntry>(round, "t.time_ms < $1", &[Value::Int(*before_ms)], order, *limit);
        }
        Scan::Belongings { tenant_id, execution_id, limit } => {
            let owner = [tenant_id.value(), execution_id.value()];
            rows::<Event>(round, OF_EXECUTION, &owner, *limit);
            rows::<Label>(round, OF_EXECUTION, &owner, *limit);
            rows::<StateEntry>(round, OF_EXECUTION, &owner, *limit);
            rows::<Timer>(round, OF_EXECUTION, &owner, *limit);
            rows::<Promise>(round, &format!("{OF_EXECUTION} AND t.{LISTED}"), &owner, *limit);
            rows::<Task>(round, OF_EXECUTION, &owner, *limit);
            rows::<Attempt>(round, OF_TASKS_OF_EXECUTION, &owner, *limit);
            rows::<TaskLog>(round, OF_TASKS_OF_EXECUTION, &owner, *limit);
            rows::<TaskState>(round, OF_TASKS_OF_EXECUTION, &owner, *limit);
        }
        Scan::TaskBelongings { tenant_id, task_id, limit } => {
            let owner = [tenant_id.value(), task_id.value()];
            rows::<Attempt>(round, OF_TASK, &owner, *limit);
            rows::<TaskLog>(round, OF_TASK, &owner, *limit);
            rows::<TaskState>(round, OF_TASK, &owner, *limit);
        }
    }
}

fn parameters<'a>(values: &[Value<'a>], limit: usize) -> Vec<Parameter<'a>> {
    values.iter().copied().chain([codec::limit(limit)]).map(Parameter::One).collect()
}

/// In key order.
fn rows<'a, R: TableRow>(round: &mut Round<'a>, filter: &str, values: &[Value<'a>], limit: usize) {
    rows_by::<R>(round, filter, values, &key_order::<R>(), limit);
}

fn rows_by<'a, R: TableRow>(
    round: &mut Round<'a>,
    filter: &str,
    values: &[Value<'a>],
    order: &str,
    limit: usize,
) {
    let text = format!(
        "SELECT {} FROM {} t WHERE {filter} ORDER BY {order} LIMIT ${}",
        columns::<R>(),
        R::TABLE,
        values.len() + 1,
    );
    round.push_found::<R>(Request::text(text, parameters(values, limit)));
}
